"""A node's capacity, conditions, status and registration, and what is sent when they change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from trikubelet.core.devices.inventory import Amounts
from trikubelet.core.node_status import (
    Identity,
    NodeReport,
    Pressures,
    Reserved,
    allocatable,
    build,
    capacity,
    differs,
    emptied,
    new_node,
    reconciliation,
    shared_limit,
    status_patch,
)
from trikubelet.core.node_status.amounts import shown
from trikubelet.core.node_status.conditions import conditions, event_reasons
from trikubelet.core.node_status.status import extended
from trikubelet.model import k8s
from trikubelet.model.node_reading import NodeReading
from trikubelet.model.runtime import ImageInfo, RuntimeHandler, RuntimeInfo

EARLIER, NOW = "2026-11-21T07:00:00Z", "2026-11-21T08:00:00Z"
GIB = 1024**3
READING = NodeReading(
    hostname="w1",
    memory_bytes=8 * GIB,
    cpus=4,
    disk_bytes=100 * GIB,
    kernel="6.1.0",
    os_image="Debian GNU/Linux 12",
    architecture="amd64",
    machine_id="m",
    system_uuid="s",
    boot_id="b",
    huge_pages={2 * 1024**2: 512, GIB: 0},
)


def report(**over: Any) -> NodeReport:
    amounts = capacity(READING, 110)
    facts: dict[str, Any] = {
        "hostname": "w1",
        "addresses": ("10.0.0.1", "fd00::1"),
        "reading": READING,
        "capacity": amounts,
        "allocatable": allocatable(amounts, Reserved()),
        "version": "v1.36.0",
        "runtime": RuntimeInfo("containerd", "2.2.9", "v1", handlers=(RuntimeHandler("runc", True, False),)),
        "port": 10250,
    }
    return NodeReport(**facts | over)


# ---- amounts ----


def test_capacity_counts_what_the_machine_has() -> None:
    assert {
        "cpu": "4",
        "memory": "8388608Ki",
        "pods": "110",
        "ephemeral-storage": "107374182400",
        "hugepages-2Mi": "1Gi",
        "hugepages-1Gi": "0",
    } == shown(capacity(READING, 110))


@pytest.mark.parametrize(("pods_max", "per_core", "pods"), [(110, 0, 110), (110, 10, 40), (30, 10, 30)])
def test_pods_per_core_narrow_the_pods_down(pods_max: int, per_core: int, pods: int) -> None:
    assert pods == capacity(READING, pods_max, per_core)["pods"]


@pytest.mark.parametrize(
    ("reserved", "expected"),
    [
        (Reserved(), {"cpu": 4000, "memory": 7 * GIB}),
        (Reserved(({"cpu": "500m"}, {"cpu": "0.25", "memory": "1Gi"})), {"cpu": 3250, "memory": 6 * GIB}),
        (Reserved(thresholds={"memory.available": "100Mi"}), {"memory": 7 * GIB - 100 * 1024**2}),
        (Reserved(thresholds={"nodefs.available": "10%"}), {"ephemeral-storage": 90 * GIB}),
        (Reserved(thresholds={"nodefs.available": "0%", "memory.available": "100%"}), {"memory": 7 * GIB}),
        (Reserved(({"memory": "9Gi"},)), {"memory": 0}),
        (Reserved(({"pid": "1000"},)), {"pods": 110}),
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value),
)
def test_allocatable_is_capacity_without_reservations(reserved: Reserved, expected: dict[str, int]) -> None:
    found = allocatable(capacity(READING, 110), reserved)

    assert expected == {name: found[name] for name in expected}


@pytest.mark.parametrize(
    ("expected", "reserved"),
    [
        pytest.param((8 * GIB, 31000), Reserved(), id="nothing is reserved"),
        pytest.param(
            (6 * GIB, 29000), Reserved(({"memory": "1Gi", "pid": "1500"}, {"memory": "1Gi", "pid": "500"})), id="both"
        ),
        pytest.param((0, 0), Reserved(({"memory": "9Gi", "pid": "40000"},)), id="more than there is"),
    ],
)
def test_all_pods_share_what_is_not_reserved_huge_pages_and_processes_with_it(
    expected: tuple[int, int], reserved: Reserved
) -> None:
    found = shared_limit(capacity(READING, 110), 31000, reserved)

    assert expected == (found["memory"], found["pid"])


def test_where_the_number_of_processes_is_unknown_it_is_not_limited() -> None:
    assert "pid" not in shared_limit(capacity(READING, 110), 0, Reserved(({"pid": "1000"},)))


# ---- conditions ----


def condition(type_: str, status: str, since: str = EARLIER) -> k8s.NodeCondition:
    return k8s.NodeCondition(type=type_, status=status, last_transition_time=since, last_heartbeat_time=EARLIER)


def test_a_node_without_problem_is_ready_in_upstreams_words() -> None:
    found = conditions(Pressures(), (), (), NOW)

    assert [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ] == [(one.type, one.status, one.reason, one.message) for one in found]


@pytest.mark.parametrize(
    ("problems", "message"),
    [(("no runtime",), "no runtime"), (("no runtime", "no network"), "[no runtime, no network]")],
)
def test_each_problem_is_reported_in_the_ready_condition(problems: tuple[str, ...], message: str) -> None:
    ready = conditions(Pressures(), problems, (), NOW)[-1]

    assert ("False", "KubeletNotReady", message) == (ready.status, ready.reason, ready.message)


@pytest.mark.parametrize(
    ("pressures", "type_", "reason"),
    [
        (Pressures(memory=True), "MemoryPressure", "KubeletHasInsufficientMemory"),
        (Pressures(disk=True), "DiskPressure", "KubeletHasDiskPressure"),
        (Pressures(pids=True), "PIDPressure", "KubeletHasInsufficientPID"),
    ],
)
def test_a_pressure_is_a_condition_of_its_own(pressures: Pressures, type_: str, reason: str) -> None:
    found = {one.type: one for one in conditions(pressures, (), (), NOW)}

    assert ("True", reason) == (found[type_].status, found[type_].reason)
    assert "True" == found["Ready"].status


def test_a_condition_that_stays_keeps_its_transition_and_beats() -> None:
    before = (condition("Ready", "True"), condition("DiskPressure", "True"))
    found = {one.type: one for one in conditions(Pressures(), (), before, NOW)}

    assert (EARLIER, NOW) == (found["Ready"].last_transition_time, found["Ready"].last_heartbeat_time)
    assert NOW == found["DiskPressure"].last_transition_time


def test_conditions_of_others_stay_as_they_were() -> None:
    theirs = condition("NetworkUnavailable", "True")

    assert theirs in conditions(Pressures(), (), (theirs,), NOW)


def test_events_tell_what_turned() -> None:
    before = conditions(Pressures(), ("no runtime",), (), EARLIER)
    after = conditions(Pressures(memory=True), (), before, NOW)

    assert ("NodeHasInsufficientMemory", "NodeReady") == event_reasons(before, after)
    assert () == event_reasons(after, after)


# ---- status ----


def test_a_status_tells_the_whole_node() -> None:
    found = build(report(), k8s.NodeStatus(), NOW)

    assert [("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("Hostname", "w1")] == [
        (one.type, one.address) for one in found.addresses
    ]
    assert found.node_info is not None
    assert ("containerd://2.2.9", "v1.36.0", "linux", "amd64", "6.1.0") == (
        found.node_info.container_runtime_version,
        found.node_info.kubelet_version,
        found.node_info.operating_system,
        found.node_info.architecture,
        found.node_info.kernel_version,
    )
    assert found.daemon_endpoints == k8s.NodeDaemonEndpoints(kubelet_endpoint=k8s.DaemonEndpoint(port=10250))
    assert ("runc",) == tuple(one.name for one in found.runtime_handlers)
    assert "7340032Ki" == found.allocatable["memory"]


GIVEN = (k8s.NodeAddress(type="ExternalIP", address="203.0.113.1"),)
OWN_IP = k8s.NodeAddress(type="InternalIP", address="10.0.0.1")
OWN_NAME = k8s.NodeAddress(type="Hostname", address="w1")


@pytest.mark.parametrize(
    ("expected", "external", "ips", "before"),
    [
        pytest.param((OWN_IP, OWN_NAME), False, ("10.0.0.1",), GIVEN, id="without a cloud they are the node's own"),
        pytest.param((OWN_NAME,), True, (), (), id="a cloud may name none yet"),
        pytest.param((OWN_IP, OWN_NAME), True, ("10.0.0.1",), (), id="the operator names one to begin with"),
        pytest.param(GIVEN, True, (), GIVEN, id="what a cloud gave stays"),
        pytest.param(GIVEN, True, ("10.0.0.1",), GIVEN, id="what a cloud gave stays whatever the operator named"),
    ],
)
def test_an_external_cloud_owns_the_addresses_once_it_gave_some(
    expected: tuple[k8s.NodeAddress, ...],
    external: bool,
    ips: tuple[str, ...],
    before: tuple[k8s.NodeAddress, ...],
) -> None:
    told = report(addresses=ips, external_cloud=external)

    assert expected == build(told, k8s.NodeStatus(addresses=before), NOW).addresses


def test_a_node_declares_what_it_can_do_and_nothing_an_earlier_agent_could() -> None:
    before = k8s.NodeStatus(declared_features=("OfAnotherKubelet",))

    assert (
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "RestartAllContainersOnContainerExits",
    ) == build(report(), before, NOW).declared_features


def test_the_largest_images_are_reported_with_five_names_each() -> None:
    images = [ImageInfo(f"sha256:{n}", tuple(f"i{n}:{tag}" for tag in range(9)), ("d",), n) for n in range(60)]
    found = build(report(images=images), k8s.NodeStatus(), NOW).images

    assert (50, 59) == (len(found), found[0].size_bytes)
    assert ("d", "i59:0", "i59:1", "i59:2", "i59:3") == found[0].names
    assert 60 == len(build(report(images=images, images_max=-1), k8s.NodeStatus(), NOW).images)


def test_an_extended_resource_stays_what_it_was_advertised_as_and_all_of_it_is_for_pods() -> None:
    before = k8s.NodeStatus(
        capacity={"example.com/gpu": "4"}, allocatable={"example.com/gpu": "3", "example.com/x": "1"}
    )
    found = build(report(), before, NOW)

    assert ("4", "4") == (found.capacity["example.com/gpu"], found.allocatable["example.com/gpu"])
    assert "example.com/x" not in found.allocatable


def test_amounts_of_device_plugins_are_the_reports_also_when_they_are_nothing() -> None:
    before = k8s.NodeStatus(capacity={"example.com/gpu": "4", "example.com/fpga": "2"})
    devices = {"example.com/gpu": Amounts(3, 1), "example.com/nic": Amounts(0, 0)}
    status = build(report(devices=devices), before, NOW)
    gone = {"example.com/fpga": "2", "example.com/nic": "0"}
    assert gone | {"example.com/gpu": "3"} == extended(status.capacity)
    assert gone | {"example.com/gpu": "1"} == extended(status.allocatable)


def test_extended_resources_of_an_earlier_life_are_taken_back_and_nothing_else_is() -> None:
    before = k8s.NodeStatus(
        capacity={"example.com/gpu": "4", "example.com/none": "0", "cpu": "4", "hugepages-2Mi": "1Gi"},
        allocatable={"example.com/gpu": "3", "memory": "1Gi"},
    )

    none = {"example.com/gpu": "0"}
    assert {"status": {"capacity": none, "allocatable": none}} == emptied(before)
    assert emptied(k8s.NodeStatus(capacity={"cpu": "4", "example.com/gpu": "0"})) is None


def test_what_controllers_wrote_into_a_status_stays() -> None:
    attached = (k8s.AttachedVolume(name="v", device_path="/dev/v"),)

    assert attached == build(report(), k8s.NodeStatus(volumes_attached=attached), NOW).volumes_attached


# ---- what is sent ----


def test_a_heartbeat_alone_is_no_difference() -> None:
    before = build(report(), k8s.NodeStatus(), EARLIER)

    assert not differs(before, build(report(), before, NOW))
    assert differs(before, build(report(problems=("x",)), before, NOW))


def test_a_condition_of_others_alone_is_no_difference() -> None:
    before = build(report(), k8s.NodeStatus(), EARLIER)
    theirs = msgspec.structs.replace(before, conditions=(*before.conditions, condition("NetworkUnavailable", "True")))

    assert not differs(theirs, build(report(), theirs, NOW))


def test_a_patch_has_our_conditions_and_nothing_that_stayed() -> None:
    before = build(report(), k8s.NodeStatus(conditions=(condition("NetworkUnavailable", "True"),)), EARLIER)
    patch = status_patch(before, build(report(), before, NOW))

    assert ["status"] == list(patch)
    status: Any = patch["status"]
    assert ["conditions"] == list(status)
    assert ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] == [one["type"] for one in status["conditions"]]


def test_a_patch_replaces_addresses_and_names_what_is_gone() -> None:
    before = build(report(), k8s.NodeStatus(), EARLIER)
    before = msgspec.structs.replace(before, capacity=before.capacity | {"hugepages-32Mi": "0"})
    amounts = {name: amount for name, amount in capacity(READING, 50).items() if name != "hugepages-1Gi"}
    patch: Any = status_patch(before, build(report(addresses=("10.0.0.2",), capacity=amounts), before, NOW))

    assert {"pods": "50", "hugepages-1Gi": None, "hugepages-32Mi": None} == patch["status"]["capacity"]
    assert {"$patch": "replace"} == patch["status"]["addresses"][-1]
    assert "10.0.0.2" == patch["status"]["addresses"][0]["address"]


# ---- registration ----


def identity(**over: Any) -> Identity:
    return Identity(**{"name": "w1", "hostname": "w1", "architecture": "amd64"} | over)


def test_a_new_node_carries_labels_taints_and_annotations() -> None:
    taint = k8s.Taint(key="dedicated", value="gpu", effect="NoSchedule")
    node = new_node(identity(labels={"zone": "a"}, taints=(taint,)), k8s.NodeStatus())

    assert {
        "kubernetes.io/hostname": "w1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "zone": "a",
    } == node.metadata.labels
    assert {"volumes.kubernetes.io/controller-managed-attach-detach": "true"} == node.metadata.annotations
    assert node.spec is not None
    assert (taint,) == node.spec.taints


WAITS = ("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule")
PROVIDED = "alpha.kubernetes.io/provided-node-ip"


@pytest.mark.parametrize(
    ("taints", "annotation", "over"),
    [
        pytest.param([], None, {"provided_ips": ("10.0.0.1",)}, id="without a cloud nothing waits for it"),
        pytest.param([WAITS], None, {"external_cloud": True}, id="with one nothing is scheduled until it has looked"),
        pytest.param(
            [WAITS],
            "10.0.0.1,fd00::1",
            {"external_cloud": True, "provided_ips": ("10.0.0.1", "fd00::1")},
            id="addresses the operator named are told to it",
        ),
        pytest.param(
            [("node.cloudprovider.kubernetes.io/uninitialized", "mine", "NoSchedule")],
            None,
            {
                "external_cloud": True,
                "taints": (k8s.Taint(key=WAITS[0], value="mine", effect="NoSchedule"),),
            },
            id="a taint the operator set himself is not set twice",
        ),
    ],
)
def test_a_node_of_an_external_cloud_waits_for_its_controller(
    taints: list[tuple[str, str, str]], annotation: str | None, over: dict[str, Any]
) -> None:
    node = new_node(identity(**over), k8s.NodeStatus())

    assert node.spec is not None
    assert taints == [(taint.key, taint.value, taint.effect) for taint in node.spec.taints]
    assert annotation == node.metadata.annotations.get(PROVIDED)


def test_a_node_that_is_there_gets_no_taint_again_that_a_controller_took_away() -> None:
    there = new_node(identity(), k8s.NodeStatus())
    patch: Any = reconciliation(identity(external_cloud=True, provided_ips=("10.0.0.1",)), there)

    assert {"metadata": {"annotations": {PROVIDED: "10.0.0.1"}}} == patch


def test_a_node_that_is_there_as_it_should_be_is_left_alone() -> None:
    assert reconciliation(identity(), new_node(identity(), k8s.NodeStatus())) is None


def test_a_node_that_is_there_gets_the_machines_labels_and_keeps_its_own() -> None:
    there = k8s.Node(
        metadata=k8s.ObjectMeta(
            name="w1",
            labels={"kubernetes.io/arch": "arm64", "mine": "x"},
            annotations={"alpha.kubernetes.io/provided-node-ip": "10.0.0.9"},
        )
    )
    patch: Any = reconciliation(identity(labels={"mine": "y", "topology.kubernetes.io/zone": "b"}), there)

    assert {"kubernetes.io/hostname", "topology.kubernetes.io/zone"} < patch["metadata"]["labels"].keys()
    assert "amd64" == patch["metadata"]["labels"]["kubernetes.io/arch"]
    assert "mine" not in patch["metadata"]["labels"]
    assert patch["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"] is None


@pytest.mark.parametrize(("expected", "system_uuid"), [("s", "s"), ("m", "")])
def test_system_uuid_of_a_machine_without_one_is_its_machine_id(expected: str, system_uuid: str) -> None:
    found = build(report(reading=replace(READING, system_uuid=system_uuid)), k8s.NodeStatus(), NOW)
    assert found.node_info is not None
    assert expected == found.node_info.system_uuid


@pytest.mark.parametrize("is_inside", [False, True])
def test_node_shows_whether_its_kubelet_runs_in_a_user_namespace(is_inside: bool) -> None:
    found = build(report(reading=replace(READING, in_user_namespace=is_inside)), k8s.NodeStatus(), NOW)
    assert found.node_info is not None
    assert is_inside is found.node_info.running_in_user_namespace


def test_version_of_the_runtime_is_shown_without_its_v() -> None:
    found = build(report(runtime=RuntimeInfo("containerd", "v2.2.9", "v1")), k8s.NodeStatus(), NOW)
    assert found.node_info is not None
    assert "containerd://2.2.9" == found.node_info.container_runtime_version
