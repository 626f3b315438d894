"""What is written to the API server about a pod: nothing when nothing differs, else what leads from one to another."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import pod
from core.statuskit import EARLIER, NOW, condition, runs, serves, status, stopped
from trikubelet.core.names import CONFIG_MIRROR
from trikubelet.core.pod_status import Patch, PodProgress, Remove, due, is_urgent, merge
from trikubelet.core.pod_status.conditions import OWNED
from trikubelet.core.pod_status.patch import changed_members
from trikubelet.model import k8s

replace = msgspec.structs.replace

READY = condition("Ready", last_transition_time=EARLIER)
UNREADY = condition("Ready", "False", reason="ContainersNotReady", message="why", last_transition_time=EARLIER)
THEIRS = condition("theirs", "Unknown")
RUNNING = status("Running", UNREADY, THEIRS, container_statuses=(runs("a"),), pod_ip="10.0.0.1",
                 pod_ips=(k8s.PodIP(ip="10.0.0.1"),), start_time=EARLIER, qos_class="BestEffort")  # fmt: skip


def whole(type_: str, status_: str, **fields: object) -> dict[str, object]:
    blank = dict.fromkeys(("reason", "message", "lastProbeTime", "lastTransitionTime", "observedGeneration"))
    return {"type": type_, **blank, "status": status_, **fields}


def as_json(members: dict[str, object]) -> dict[str, Any]:
    return dict(msgspec.json.decode(msgspec.json.encode(members)))


class Case(NamedTuple):
    id: str
    expected: dict[str, object]
    before: k8s.PodStatus
    after: k8s.PodStatus


CASES = [
    Case("alike", {}, RUNNING, RUNNING),
    Case("another phase", {"phase": "Failed"}, RUNNING, replace(RUNNING, phase="Failed")),
    Case("a reason that went away", {"reason": None}, replace(RUNNING, reason="Evicted"), RUNNING),
    Case("a condition is told whole, with nothing of the one before",
         {"conditions": [whole("Ready", "True", lastTransitionTime=EARLIER)]}, RUNNING,
         replace(RUNNING, conditions=(READY, THEIRS))),
    Case("a condition of ours that went away", {"conditions": [{"$patch": "delete", "type": "Ready"}]}, RUNNING,
         replace(RUNNING, conditions=(THEIRS,))),
    Case("amounts are told with null for what went away",
         {"resources": {"claims": None, "limits": None, "requests": {"cpu": "2", "memory": None}},
          "allocatedResources": None},
         replace(RUNNING, allocated_resources={"cpu": "1"},
                 resources=k8s.ResourceRequirements(requests={"cpu": "1", "memory": "1"}, limits={"cpu": "1"})),
         replace(RUNNING, resources=k8s.ResourceRequirements(requests={"cpu": "2"}))),
    Case("a condition of others is never told", {}, RUNNING,
         replace(RUNNING, conditions=(UNREADY, condition("theirs", "True")))),
    Case("nor taken away", {}, RUNNING, replace(RUNNING, conditions=(UNREADY,))),
    Case("a disruption is told",
         {"conditions": [whole("DisruptionTarget", "True", reason="Evicted")]}, RUNNING,
         replace(RUNNING, conditions=(*RUNNING.conditions, condition("DisruptionTarget", reason="Evicted")))),
    Case("a disruption is never taken away", {},
         replace(RUNNING, conditions=(UNREADY, condition("DisruptionTarget"))),
         replace(RUNNING, conditions=(UNREADY,))),
    Case("container statuses are one thing", {"containerStatuses": [msgspec.to_builtins(stopped("a"))]}, RUNNING,
         replace(RUNNING, container_statuses=(stopped("a"),))),
    Case("container statuses that went away", {"containerStatuses": None}, RUNNING,
         replace(RUNNING, container_statuses=())),
    Case("addresses are replaced, for the first is the pod's own",
         {"podIP": "10.0.0.2", "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.2"}]}, RUNNING,
         replace(RUNNING, pod_ip="10.0.0.2", pod_ips=(k8s.PodIP(ip="10.0.0.2"),))),
    Case("addresses that went away", {"podIP": None, "podIPs": None}, RUNNING,
         replace(RUNNING, pod_ip="", pod_ips=())),
    Case("the claims and the nomination are not ours", {}, RUNNING,
         replace(RUNNING, nominated_node_name="n", resource_claim_statuses=(k8s.PodResourceClaimStatus(name="c"),))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_only_what_differs_and_is_ours_is_reported(case: Case) -> None:
    assert case.expected == as_json(changed_members(case.before, case.after))


def test_in_doubt_everything_of_ours_is_reported() -> None:
    found = as_json(changed_members(RUNNING, RUNNING, in_doubt=True))
    conditions = found.pop("conditions")
    assert whole("Ready", "False", reason="ContainersNotReady", message="why", lastTransitionTime=EARLIER) in conditions
    assert {*OWNED, "Ready"} == {c["type"] for c in conditions}
    assert {
        "phase": "Running", "reason": None, "message": None, "startTime": EARLIER, "hostIP": None, "podIP": "10.0.0.1",
        "qosClass": "BestEffort", "observedGeneration": None, "initContainerStatuses": None, "hostIPs": None,
        "containerStatuses": [msgspec.to_builtins(runs("a"))], "ephemeralContainerStatuses": None,
        "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.1"}],
        "resources": None, "allocatedResources": None,
    } == found  # fmt: skip


# ---- a patch leads where it should, whatever the server has ----


def apply(document: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
    """A strategic merge of a pod's status, as the API describes it."""
    result = dict(document)
    for name, value in members.items():
        if value is None:
            result.pop(name, None)
        elif name in ("resources", "allocatedResources"):
            result[name] = _by_key(result.get(name, {}), value)
        elif name not in ("conditions", "podIPs", "hostIPs"):
            result[name] = value
        elif {"$patch": "replace"} in value:
            result[name] = [element for element in value if "$patch" not in element]
        else:
            result[name] = _by_type(result.get(name, []), value)
    return result


def _by_key(held: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    said = {**held, **{k: _by_key(held.get(k, {}), v) if isinstance(v, dict) else v for k, v in patch.items()}}
    return {key: value for key, value in said.items() if value is not None}


def _by_type(held: list[dict[str, Any]], patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_type = {element["type"]: element for element in held}
    for element in patch:
        if element.get("$patch") == "delete":
            by_type.pop(element["type"], None)
            continue
        merged = {**by_type.get(element["type"], {}), **element}
        by_type[element["type"]] = {name: value for name, value in merged.items() if value is not None}
    return list(by_type.values())


conditions = st.lists(
    st.builds(
        k8s.PodCondition,
        type=st.sampled_from([*sorted(OWNED), "DisruptionTarget", "theirs"]),
        status=st.sampled_from(["True", "False"]),
        reason=st.sampled_from(["", "why"]),
        message=st.sampled_from(["", "told"]),
        last_transition_time=st.sampled_from([EARLIER, NOW]),
        observed_generation=st.sampled_from([None, 1, 2]),
    ),
    unique_by=lambda c: c.type,
).map(tuple)
ips = st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1"]).map(lambda ip: k8s.PodIP(ip=ip)), unique=True)
amounts = st.sampled_from([{}, {"cpu": "1"}, {"cpu": "2"}])
statuses = st.builds(
    k8s.PodStatus,
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    reason=st.sampled_from(["", "Evicted"]),
    message=st.sampled_from(["", "told"]),
    conditions=conditions,
    container_statuses=st.sampled_from([(), (runs("a"),), (serves("a"), stopped("b"))]),
    pod_ips=ips.map(tuple),
    allocated_resources=amounts,
    resources=st.none() | st.builds(k8s.ResourceRequirements, requests=amounts, limits=amounts),
    start_time=st.sampled_from(["", EARLIER, NOW]),
    nominated_node_name=st.sampled_from(["", "elsewhere"]),
)


def read(document: dict[str, Any]) -> tuple[object, frozenset[object]]:
    """A status as it counts: the order of conditions says nothing."""
    found = msgspec.convert(document, k8s.PodStatus)
    return replace(found, conditions=()), frozenset(found.conditions)


@given(reported=statuses, computed=statuses, could_run=st.booleans())
def test_a_patch_leads_from_what_the_server_has_to_what_was_merged(
    reported: k8s.PodStatus, computed: k8s.PodStatus, could_run: bool
) -> None:
    merged = merge(reported, computed, could_run=could_run, now=NOW)
    after = apply(msgspec.to_builtins(reported), changed_members(reported, merged))
    assert read(msgspec.to_builtins(merged)) == read(after)
    again = merge(msgspec.convert(after, k8s.PodStatus), computed, could_run=could_run, now=NOW)
    assert {} == changed_members(msgspec.convert(after, k8s.PodStatus), again)


@given(reported=statuses, lost=statuses, computed=statuses)
def test_in_doubt_a_patch_leads_to_the_same_whether_the_lost_one_arrived_or_not(
    reported: k8s.PodStatus, lost: k8s.PodStatus, computed: k8s.PodStatus
) -> None:
    sent = changed_members(reported, merge(reported, lost, could_run=True, now=NOW))
    merged = merge(reported, computed, could_run=True, now=NOW)
    patch = changed_members(reported, merged, in_doubt=True)
    untouched, arrived = msgspec.to_builtins(reported), apply(msgspec.to_builtins(reported), sent)
    assert read(apply(untouched, patch)) == read(apply(arrived, patch))


# ---- what is due ----

GOING = {"deletion_timestamp": NOW}
OVER, LIVING, STOPPED = PodProgress(could_run=False, is_over=True), PodProgress(), PodProgress(could_run=False)
FAILED = replace(RUNNING, phase="Failed")


class Due(NamedTuple):
    id: str
    expected: str
    of: k8s.Pod
    reported: k8s.PodStatus
    computed: k8s.PodStatus | None
    progress: PodProgress


MIRROR = pod("a", meta={**GOING, "annotations": {CONFIG_MIRROR: "h"}})
DUES = [
    Due("nothing computed", "nothing", pod("a"), RUNNING, None, LIVING),
    Due("nothing new", "nothing", pod("a"), RUNNING, RUNNING, LIVING),
    Due("something new", "patch", pod("a"), RUNNING, replace(RUNNING, conditions=(READY,)), LIVING),
    Due("finer times are not new", "nothing", pod("a"), RUNNING,
        replace(RUNNING, start_time=EARLIER.replace("Z", ".5Z")), LIVING),
    Due("an empty last state is none", "nothing", pod("a"),
        replace(RUNNING, container_statuses=(runs("a", last_state=k8s.ContainerState()),)), RUNNING, LIVING),
    Due("an end while something could run is held back", "nothing", pod("a"), RUNNING, FAILED, LIVING),
    Due("an end when nothing can", "patch", pod("a"), RUNNING, FAILED, STOPPED),
    Due("an ended pod that nobody deletes", "nothing", pod("a"), FAILED, FAILED, OVER),
    Due("one that goes and is over", "remove", pod("a", meta=GOING), FAILED, FAILED, OVER),
    Due("one that goes, ended and is not over: its volumes are still there", "nothing", pod("a", meta=GOING), FAILED,
        FAILED, STOPPED),
    Due("one that goes: its end is told first", "patch", pod("a", meta=GOING), RUNNING, FAILED, OVER),
    Due("one that goes and was never begun gets an end", "patch", pod("a", meta=GOING), status("Pending"), None, OVER),
    Due("and is then removed", "remove", pod("a", meta=GOING), status("Failed"), None, OVER),
    Due("a mirror is never removed for its status", "nothing", MIRROR, FAILED, FAILED, OVER),
]  # fmt: skip


@pytest.mark.parametrize("case", DUES, ids=lambda case: case.id)
def test_what_is_due(case: Due) -> None:
    found = due(case.of, case.reported, case.computed, case.progress, NOW)
    assert case.expected == {Patch: "patch", Remove: "remove", type(None): "nothing"}[type(found)]


@pytest.mark.parametrize("in_doubt", [False, True])
def test_an_end_that_is_held_back_says_nothing_of_the_phase(in_doubt: bool) -> None:
    """A report may be older than the server's status."""
    ended = replace(FAILED, reason="r", message="m", container_statuses=(stopped("a", 1),))
    found = due(pod("a"), status("Pending"), ended, LIVING, NOW, in_doubt=in_doubt)
    assert isinstance(found, Patch)
    members = found.body["status"]
    assert isinstance(members, dict)
    assert "containerStatuses" in members
    assert not members.keys() & {"phase", "reason", "message"}


def test_a_patch_holds_for_the_object_of_that_uid_alone() -> None:
    found = due(pod("a", meta={"uid": "mirror"}), RUNNING, replace(RUNNING, reason="r"), LIVING, NOW)
    assert isinstance(found, Patch)
    assert {"metadata": {"uid": "mirror"}, "status": {"reason": "r"}} == found.body


def test_a_pod_that_was_never_begun_ends_as_failed() -> None:
    found = due(pod("a", meta=GOING), status("Pending", READY), None, OVER, NOW)
    assert isinstance(found, Patch)
    assert ("Failed", "False") == (found.status.phase, found.status.conditions[0].status)


def test_the_quality_of_service_the_server_has_is_kept() -> None:
    found = due(pod("a"), RUNNING, replace(RUNNING, qos_class="Guaranteed"), LIVING, NOW)
    assert found is None


SERVING, GOES = replace(RUNNING, conditions=(READY,)), pod("a", meta=GOING)
URGENT = [
    Due("the first time ready", "urgent", pod("a"), RUNNING, SERVING, LIVING),
    Due("ready as before", "not", pod("a"), SERVING, replace(SERVING, reason="r"), LIVING),
    Due("not ready", "not", pod("a"), SERVING, RUNNING, LIVING),
    Due("nothing computed", "not", pod("a"), RUNNING, None, LIVING),
    Due("the end", "urgent", pod("a"), RUNNING, FAILED, STOPPED),
    Due("an end that is held back", "not", pod("a"), RUNNING, FAILED, LIVING),
    Due("an end that was told", "not", pod("a"), FAILED, FAILED, STOPPED),
    Due("an object to remove", "urgent", GOES, FAILED, FAILED, OVER),
    Due("one to remove that was never begun", "urgent", GOES, RUNNING, None, OVER),
    Due("one that goes and is not over", "not", GOES, FAILED, FAILED, STOPPED),
]


@pytest.mark.parametrize("case", URGENT, ids=lambda case: case.id)
def test_what_is_urgent(case: Due) -> None:
    found = is_urgent(case.of, case.reported, case.computed, case.progress)
    assert case.expected == ("urgent" if found else "not")
