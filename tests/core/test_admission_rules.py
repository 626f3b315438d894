"""Which pods the node rejects, and in which words."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, pod, sidecar
from core.statuskit import EARLIER, NOW, condition, status
from trikubelet.core.admission import Admitted, Rejection, admit, counted_as, rejected
from trikubelet.core.admission.affinity import wants_node
from trikubelet.core.admission.held_ports import held_port
from trikubelet.core.admission.pod_info import pod_info
from trikubelet.core.admission.ports import host_ports
from trikubelet.core.admission.resources import requests
from trikubelet.core.admission.taints import is_driven_away
from trikubelet.core.containers import NodeFacts
from trikubelet.core.names import CONFIG_SOURCE
from trikubelet.model import k8s

FACTS = NodeFacts(node_name="n")
LABELS = {"kubernetes.io/os": "linux", "zone": "a", "cores": "8"}
STATIC = {"annotations": {CONFIG_SOURCE: "file"}}


def node(labels: dict[str, str] = LABELS, taints: tuple[k8s.Taint, ...] = (), **allocatable: Any) -> k8s.Node:
    return k8s.Node(
        metadata=k8s.ObjectMeta(name="n", labels=labels),
        spec=k8s.NodeSpec(taints=taints),
        status=k8s.NodeStatus(allocatable={name.replace("_", "-"): amount for name, amount in allocatable.items()}),
    )


def asks(name: str = "c", policy: str = "", **amounts: Any) -> k8s.Container:
    wanted = {name.replace("_", "-"): amount for name, amount in amounts.items()}
    return container(name, policy, resources=k8s.ResourceRequirements(requests=wanted))


def named(name: str, amount: Any) -> k8s.Container:
    return container("c", resources=k8s.ResourceRequirements(requests={name: amount}))


def serves(*ports: k8s.ContainerPort) -> k8s.Pod:
    return pod(container("c", ports=ports))


def port(number: int, **fields: Any) -> k8s.ContainerPort:
    return k8s.ContainerPort(container_port=80, host_port=number, **fields)


class Case(NamedTuple):
    id: str
    expected: tuple[str, str] | None
    pod: k8s.Pod
    node: k8s.Node | None
    others: tuple[k8s.Pod, ...] = ()


def short(resource: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    return (
        f"OutOf{resource}",
        f"Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}",
    )


def no_room(resource: str, missing: int) -> tuple[str, str]:
    return (
        "UnexpectedAdmissionError",
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods "
        f"to preempt: no set of running pods found to reclaim resources: [(res: {resource}, q: {missing}), ]",
    )


FIRST_NODE = node(cpu="2", memory="1Gi", pods="2", ephemeral_storage="10Gi")
NOT_HERE = ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")
NOT_THIS_NODE = ("NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name")
TILL = {"name": "till", "namespace": "shop"}
NO_PORT = ("NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")
DRIVEN = ("TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate")
CONFINED = k8s.PodSecurityContext(app_armor_profile=k8s.AppArmorProfile(type="RuntimeDefault"))
STRICTLY = k8s.PodSecurityContext(supplemental_groups_policy="Strict")
EVICTING = node(taints=(k8s.Taint(key="down", effect="NoExecute"),))
CASES = [
    Case("nothing is asked", None, pod("c"), FIRST_NODE),
    Case("all that is there", None, pod(asks(cpu="2", memory="1Gi")), FIRST_NODE),
    Case("too many cores", short("cpu", 2001, 0, 2000), pod(asks(cpu="2001m")), FIRST_NODE),
    Case("too many beside another", short("cpu", 1500, 1000, 2000), pod(asks(cpu="1500m")), FIRST_NODE,
         (pod(asks(cpu="1")),)),
    Case("too much memory", short("memory", 1073741825, 0, 1073741824), pod(asks(memory="1073741825")), FIRST_NODE),
    Case("too much disk", short("ephemeral-storage", 21474836480, 0, 10737418240),
         pod(asks(ephemeral_storage="20Gi")), FIRST_NODE),
    Case("cores are told before memory", short("cpu", 3000, 0, 2000), pod(asks(cpu="3", memory="2Gi")), FIRST_NODE),
    Case("too many pods", short("pods", 1, 2, 2), pod("c"), FIRST_NODE, (pod("a"), pod("b"))),
    Case("huge pages the node does not have", short("hugepages-2Mi", 2097152, 0, 0), pod(named("hugepages-2Mi", "2Mi")),
         FIRST_NODE),
    Case("devices the node does not know yet", None, pod(named("example.com/gpu", "1")), FIRST_NODE),
    Case("devices that are taken", short("example.com/gpu", 1, 1, 1), pod(named("example.com/gpu", "1")),
         node(**{"example.com/gpu": "1"}), (pod(named("example.com/gpu", "1")),)),
    Case("nobody knows what there is", None, pod(asks(cpu="100")), None),
    Case("a critical pod that nobody can make room for", no_room("cpu", 98_000),
         pod(asks(cpu="100"), priority=2_000_001_000), FIRST_NODE),
    Case("nor for a static one", no_room("cpu", 98_000), pod(asks(cpu="100"), meta=STATIC), FIRST_NODE),
    Case("where a critical pod wants to be is asked before what it lacks", NOT_HERE,
         pod(asks(cpu="100"), meta=STATIC, node_selector={"zone": "b"}), FIRST_NODE),
    Case("another zone is wanted", NOT_HERE, pod("c", node_selector={"zone": "b"}), FIRST_NODE),
    Case("also by a static pod", NOT_HERE, pod("c", node_selector={"zone": "b"}, meta=STATIC), FIRST_NODE),
    Case("another node is named", NOT_THIS_NODE, pod("c", node_name="other"), FIRST_NODE),
    Case("a port that is taken", NO_PORT, serves(port(80)), FIRST_NODE, (serves(port(80)),)),
    Case("a port that is taken, where there is no node", NO_PORT, serves(port(80)), None, (serves(port(80)),)),
    Case("a port of a static pod that is taken, with its holder",
         (NO_PORT[0], f"{NO_PORT[1]}: host port 80/UDP is in use by pod shop/till"),
         pod(container("c", ports=(port(81), port(80, protocol="UDP"))), meta=STATIC), FIRST_NODE,
         (pod(container("c", ports=(port(81), port(80, protocol="UDP"))), meta=TILL),)),
    Case("a taint that drives it away", DRIVEN, pod("c"), EVICTING),
    Case("a taint drives no static pod away", None, pod("c", meta=STATIC), EVICTING),
    Case("another operating system",
         ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
         pod("c", os=k8s.PodOS(name="windows")), FIRST_NODE),
    Case("this operating system", None, pod("c", os=k8s.PodOS(name="linux")), FIRST_NODE),
    Case("a label of another operating system",
         ("PodOSSelectorNodeLabelDoesNotMatch",
          "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"),
         pod("c", meta={"labels": {"kubernetes.io/os": "windows"}}), FIRST_NODE),
    Case("groups by a rule the runtime does not have",
         ("SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"),
         pod("c", security_context=STRICTLY), FIRST_NODE),
    Case("to be confined by AppArmor, which the kernel does not have",
         ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
         pod("c", security_context=CONFINED), FIRST_NODE),
    Case("also where there is no node",
         ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
         pod("c", security_context=CONFINED), None),
    Case("groups by a rule the runtime does not have, where there is no node",
         ("SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"),
         pod("c", security_context=STRICTLY), None),
    Case("a sysctl nobody let through, before anything else",
         ("SysctlForbidden", 'forbidden sysctl: "net.core.somaxconn" not allowlisted'),
         pod(asks(cpu="100"), security_context=k8s.PodSecurityContext(
             sysctls=(k8s.Sysctl(name="net.core.somaxconn", value="1"),))), FIRST_NODE),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_which_pods_are_rejected(case: Case) -> None:
    found = admit(case.pod, list(map(pod_info, case.others)), case.node, FACTS)
    assert case.expected == (None if isinstance(found, Admitted) else (found.reason, found.message))


@pytest.mark.parametrize(
    ("facts", "context"),
    [(NodeFacts("n", apparmor=True), CONFINED), (NodeFacts("n", strict_groups=True), STRICTLY)],
    ids=["AppArmor", "strict groups"],
)
def test_what_runtime_and_kernel_can_do_is_no_reason(facts: NodeFacts, context: k8s.PodSecurityContext) -> None:
    assert Admitted() == admit(pod("c", security_context=context), (), FIRST_NODE, facts)


def test_without_a_node_object_the_machines_own_figures_count() -> None:
    facts = NodeFacts(node_name="n", allocatable={"cpu": 1000})
    found = admit(pod(asks(cpu="2")), (), None, facts)
    assert isinstance(found, Rejection)
    assert "OutOfcpu" == found.reason


@pytest.mark.parametrize("static", [False, True])
def test_a_pod_with_an_amount_that_is_none_is_rejected(static: bool) -> None:
    found = admit(pod(asks(cpu="lots"), meta=STATIC if static else {}), (), node(cpu="1"), FACTS)
    assert isinstance(found, Rejection)
    assert ("UnexpectedAdmissionError", True) == (found.reason, '"lots"' in found.message or "'lots'" in found.message)


def test_pod_without_amounts_is_no_obstacle_for_others() -> None:
    assert Admitted() == admit(pod(asks(cpu="1")), [pod_info(pod(asks(cpu="lots")))], node(cpu="1", pods="9"), FACTS)


def test_node_without_amounts_has_those_of_the_machine() -> None:
    facts = NodeFacts(node_name="n", allocatable={"cpu": 1000})
    assert Admitted() == admit(pod(asks(cpu="1")), (), node(cpu="lots"), facts)
    assert isinstance(admit(pod(asks(cpu="2")), (), node(cpu="lots"), facts), Rejection)


def test_a_pod_that_is_rejected_has_failed_and_says_why() -> None:
    before = status("Pending", condition("PodScheduled"), condition("Ready"))
    found = rejected(pod("c", status=before, meta={"generation": 3}), Rejection("OutOfcpu", "too little"), NOW)
    assert ("Failed", "OutOfcpu", "Pod was rejected: too little", NOW, 3) == (
        found.phase, found.reason, found.message, found.start_time, found.observed_generation,
    )  # fmt: skip
    assert [("PodScheduled", "True"), ("Ready", "False")] == [(c.type, c.status) for c in found.conditions]
    assert "Burstable" == rejected(pod(asks(cpu="1")), Rejection("R", "m"), NOW).qos_class


# ---- what a pod asks for ----


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param({"cpu": 300}, pod(asks("a", cpu="100m"), asks("b", cpu="0.2")), id="containers together"),
        pytest.param({"cpu": 500}, pod(asks("a", cpu="100m"), init=(asks("i", cpu="500m"),)), id="or the largest init"),
        pytest.param(
            {"cpu": 150}, pod(asks("a", cpu="100m"), init=(asks("s", "Always", cpu="50m"),)), id="sidecars with them"
        ),
        pytest.param({"cpu": 120}, pod(asks("a", cpu="100m"), overhead={"cpu": "20m"}), id="and the overhead"),
        pytest.param(
            {"cpu": 900, "memory": 2},
            pod(asks("a", cpu="1m", memory=2), resources=k8s.ResourceRequirements(requests={"cpu": "0.9"})),
            id="the pod's own word counts where it has one",
        ),
        pytest.param({"memory": 2}, pod(asks("a", memory="1500m", cpu="0")), id="whole bytes, and nothing of nothing"),
        pytest.param({}, pod("a", init=(sidecar("s"),)), id="nobody asks"),
    ],
)
def test_what_a_pod_asks_for(expected: dict[str, int], it: k8s.Pod) -> None:
    assert expected == requests(it)


@given(cpus=st.lists(st.integers(0, 3000), max_size=8), room=st.integers(0, 8000))
def test_pods_are_taken_until_the_node_is_full_and_never_beyond(cpus: list[int], room: int) -> None:
    taken: list[k8s.Pod] = []
    for cpu in cpus:
        it = pod(asks(cpu=f"{cpu}m"))
        if isinstance(admit(it, list(map(pod_info, taken)), node(cpu=f"{room}m"), FACTS), Admitted):
            taken.append(it)
        else:
            assert sum(requests(one).get("cpu", 0) for one in taken) + cpu > room
    assert sum(requests(one).get("cpu", 0) for one in taken) <= room


# ---- where it wants to be ----


def expression(key: str, operator: str, *values: str) -> k8s.NodeSelectorRequirement:
    return k8s.NodeSelectorRequirement(key=key, operator=operator, values=values)


def term(*expressions: k8s.NodeSelectorRequirement, fields: tuple[k8s.NodeSelectorRequirement, ...] = ()) -> Any:
    return k8s.NodeSelectorTerm(match_expressions=expressions, match_fields=fields)


TERMS = [
    (True, expression("zone", "In", "a", "b")), (False, expression("zone", "In", "b")),
    (False, expression("none", "In", "a")), (False, expression("zone", "In")),
    (False, expression("zone", "NotIn", "a")), (True, expression("zone", "NotIn", "b")),
    (True, expression("none", "NotIn", "b")), (True, expression("zone", "Exists")),
    (False, expression("none", "Exists")), (False, expression("zone", "DoesNotExist")),
    (True, expression("none", "DoesNotExist")), (True, expression("cores", "Gt", "7")),
    (False, expression("cores", "Gt", "8")), (True, expression("cores", "Lt", "9")),
    (False, expression("cores", "Lt", "8")), (False, expression("zone", "Gt", "1")),
    (False, expression("none", "Lt", "1")), (False, expression("cores", "Gt")), (False, expression("zone", "Is", "a")),
]  # fmt: skip


def requiring(*terms: k8s.NodeSelectorTerm) -> k8s.Pod:
    required = k8s.NodeSelector(node_selector_terms=terms)
    affinity = k8s.NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    return pod("c", affinity=k8s.Affinity(node_affinity=affinity))


@pytest.mark.parametrize(("expected", "one"), TERMS, ids=str)
def test_a_requirement_on_labels(expected: bool, one: k8s.NodeSelectorRequirement) -> None:
    assert expected == wants_node(requiring(term(one)), node())


HERE, ELSEWHERE = expression("zone", "In", "a"), expression("zone", "In", "b")


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(True, pod("c", node_selector={"zone": "a"}), id="a selector"),
        pytest.param(False, pod("c", node_selector={"zone": "a", "none": ""}), id="all of a selector"),
        pytest.param(True, pod("c", affinity=k8s.Affinity()), id="an empty affinity"),
        pytest.param(False, requiring(), id="no term is no node"),
        pytest.param(False, requiring(term()), id="an empty term neither"),
        pytest.param(True, requiring(term(ELSEWHERE), term(HERE)), id="one of the terms"),
        pytest.param(False, requiring(term(HERE, ELSEWHERE)), id="all of a term"),
        pytest.param(True, requiring(term(fields=(expression("metadata.name", "In", "n"),))), id="this node by name"),
        pytest.param(False, requiring(term(fields=(expression("metadata.name", "NotIn", "n"),))), id="any but this"),
        pytest.param(False, requiring(term(fields=(expression("spec.x", "NotIn", "n"),))), id="a field nobody knows"),
        pytest.param(False, requiring(term(fields=(expression("metadata.name", "Exists"),))), id="no such operator"),
    ],
)
def test_where_a_pod_wants_to_be(expected: bool, it: k8s.Pod) -> None:
    assert expected == wants_node(it, node())


# ---- ports and taints ----


@pytest.mark.parametrize(
    ("expected", "a", "b"),
    [
        (True, port(80), port(80)),
        (False, port(80), port(81)),
        (False, port(80), port(80, protocol="UDP")),
        (True, port(80), port(80, protocol="TCP")),
        (True, port(80), port(80, host_ip="10.0.0.1")),
        (True, port(80, host_ip="0.0.0.0"), port(80, host_ip="10.0.0.1")),
        (True, port(80, host_ip="10.0.0.1"), port(80, host_ip="10.0.0.1")),
        (False, port(80, host_ip="10.0.0.1"), port(80, host_ip="10.0.0.2")),
        (False, k8s.ContainerPort(container_port=80), k8s.ContainerPort(container_port=80)),
    ],
    ids=str,
)
def test_whether_two_ports_are_the_same(expected: bool, a: k8s.ContainerPort, b: k8s.ContainerPort) -> None:
    one, other = pod_info(serves(a)), pod_info(serves(b))
    found, reverse = held_port(one.host_ports, [other]), held_port(other.host_ports, [one])
    assert (expected, expected) == (found is not None, reverse is not None)


def test_of_init_containers_sidecars_alone_hold_their_ports() -> None:
    plain = pod("c", init=(container("i", ports=(port(80),)),))
    beside = pod("c", init=(sidecar("s", ports=(port(80),)),))
    wanted = host_ports(serves(port(80)))
    assert held_port(wanted, [pod_info(plain)]) is None
    assert held_port(wanted, [pod_info(plain), pod_info(beside)]) == (next(iter(wanted)), beside)


TAINT = k8s.Taint(key="down", value="long", effect="NoExecute")


@pytest.mark.parametrize(
    ("expected", "toleration"),
    [
        (False, k8s.Toleration(operator="Exists")),
        (False, k8s.Toleration(key="down", operator="Exists")),
        (False, k8s.Toleration(key="down", operator="Exists", effect="NoExecute")),
        (False, k8s.Toleration(key="down", value="long")),
        (False, k8s.Toleration(key="down", value="long", operator="Equal", effect="NoExecute")),
        (True, k8s.Toleration(key="down", value="short")),
        (True, k8s.Toleration(key="up", operator="Exists")),
        (True, k8s.Toleration(key="down", operator="Exists", effect="NoSchedule")),
        (True, k8s.Toleration(key="down", value="long", operator="Like")),
    ],
    ids=str,
)
def test_whether_a_toleration_meets_a_taint(expected: bool, toleration: k8s.Toleration) -> None:
    assert expected == is_driven_away(pod("c", tolerations=(toleration,)), node(taints=(TAINT,)))


def test_every_taint_needs_its_toleration_and_other_effects_are_advice() -> None:
    met = k8s.Toleration(key="down", operator="Exists")
    both = node(taints=(TAINT, k8s.Taint(key="other", effect="NoExecute")))
    assert is_driven_away(pod("c", tolerations=(met,)), both)
    assert not is_driven_away(pod("c"), node(taints=(k8s.Taint(key="x", effect="NoSchedule"),)))
    assert not is_driven_away(pod("c"), k8s.Node(metadata=k8s.ObjectMeta(name="n")))


def test_a_start_time_that_was_told_stays() -> None:
    found = rejected(pod("c", status=status("Pending", start_time=EARLIER)), Rejection("R", "m"), NOW)
    assert EARLIER == found.start_time


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_reason_without_a_resource_that_a_pod_names_is_counted_by_its_name(case: Case) -> None:
    reason = case.expected[0] if case.expected else "OutOfpods"
    is_named_by_pods = reason.startswith("OutOf") and ("/" in reason or "hugepages" in reason)
    assert ("OutOfExtendedResources" if is_named_by_pods else reason) == counted_as(reason)


def test_unknown_reason_is_counted_with_all_others() -> None:
    assert "Other" == counted_as("SomethingNew")
