"""Settings as the parts have them that act on them: what stands in a configuration's file reaches what is done."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.podkit import container, pod
from trikubelet.app.flags import parse_agent_flags
from trikubelet.app.settings import Settings, Surroundings, load_settings
from trikubelet.app.translate import bounds_of, facts_of, identity_of, rules_of
from trikubelet.core.containers.memory import unified
from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
from trikubelet.core.containers.resources import container_resources
from trikubelet.core.log_rotation import RotationRules
from trikubelet.core.node_status import new_node
from trikubelet.core.pull_rights import VerificationPolicy
from trikubelet.model import k8s
from trikubelet.model.node_reading import NodeReading

MIB = 1 << 20
MEMORY_QOS = {"featureGates": {"MemoryQoS": True}}


NO_RESERVATION = {"memory.min": "0", "memory.low": "0"}


def settings_of(place: Path, **asked: object) -> Settings:
    """Those of an agent of its own with such a configuration."""
    about = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "resolvConf": ""}
    path = place / "config.yaml"
    path.write_text(json.dumps(about | asked))
    words = [f"--config={path}", f"--root-dir={place}", "--standalone"]
    return load_settings(parse_agent_flags(words), Surroundings(0, {}, "n"))


@pytest.mark.parametrize(
    ("expected", "asked"),
    [
        pytest.param({"memory.oom.group": "1"} | NO_RESERVATION, {}, id="killed as one"),
        pytest.param(NO_RESERVATION, {"singleProcessOOMKill": True}, id="killed one by one"),
        pytest.param(
            {"memory.oom.group": "1", "memory.high": "max"}, {"featureGates": {"MemoryQoS": False}}, id="no Memory QoS"
        ),
        pytest.param(
            {"memory.oom.group": "1", "memory.swap.max": str(128 * MIB)} | NO_RESERVATION,
            {"memorySwap": {"swapBehavior": "LimitedSwap"}},
            id="a share of the swap",
        ),
        pytest.param(
            {"memory.oom.group": "1", "memory.high": str(384 * MIB)} | NO_RESERVATION,
            {"memoryThrottlingFactor": 0.5} | MEMORY_QOS,
            id="slowed half-way",
        ),
        pytest.param(
            {"memory.oom.group": "1", "memory.low": str(256 * MIB), "memory.high": str(384 * MIB)},
            {"memoryReservationPolicy": "TieredReservation", "memoryThrottlingFactor": 0.5} | MEMORY_QOS,
            id="kept",
        ),
    ],
)
def test_settings_of_memory_reach_what_version_2_is_told_of_a_container(
    tmp_path: Path, expected: dict[str, str], asked: dict[str, object]
) -> None:
    settings = settings_of(tmp_path, **asked)
    facts = facts_of(settings, NodeReading("n", 1024 * MIB, 1, swap_bytes=512 * MIB), None)
    facts = replace(facts, cgroup_version=2, memory=replace(facts.memory, swap_controlled="memorySwap" in asked))
    it = container("a", resources=k8s.ResourceRequirements(requests={"memory": "256Mi"}, limits={"memory": "512Mi"}))

    assert expected == unified(pod(it), it, facts)


@pytest.mark.parametrize(("expected", "endpoint"), [(True, "embedded:"), (False, "fake:"), (False, "unix:///a.sock")])
def test_pods_are_told_what_is_done_without_on_the_embedded_runtime_alone(
    tmp_path: Path, endpoint: str, *, expected: bool
) -> None:
    settings = settings_of(tmp_path, containerRuntimeEndpoint=endpoint)

    assert expected is facts_of(settings, NodeReading("n", 1 << 30, 1), None).embedded


@pytest.mark.parametrize(
    ("expected", "endpoint", "may_mount"),
    [(True, "embedded:", True), (False, "embedded:", False), (True, "unix:///a.sock", False)],
)
def test_volumes_do_without_mounts_where_the_agent_may_not_mount_and_runs_the_pods_itself(
    tmp_path: Path, endpoint: str, *, may_mount: bool, expected: bool
) -> None:
    settings = settings_of(tmp_path, containerRuntimeEndpoint=endpoint)

    assert expected is facts_of(settings, NodeReading("n", 1 << 30, 1, may_mount=may_mount), None).may_mount


def test_times_and_amounts_reach_the_parts_that_keep_to_them(tmp_path: Path) -> None:
    """The tests of the parts show their effect: docs/support.md says where."""
    times = {"syncFrequency": "7s", "fileCheckFrequency": "8s", "httpCheckFrequency": "9s"}
    times |= {"runtimeRequestTimeout": "11s"}
    pulls = {"registryPullQPS": 3, "registryBurst": 4, "serializeImagePulls": False, "maxParallelImagePulls": 6}
    settings = settings_of(
        tmp_path,
        **times,
        **pulls,
        imagePullCredentialsVerificationPolicy="NeverVerifyAllowlistedImages",
        preloadedImagesVerificationAllowlist=["registry.test/base"],
    )
    bounds = bounds_of(settings.configuration)
    asked = rules_of(settings, bounds).pulls

    assert (7, 8, 9) == (bounds.resync_seconds, bounds.file_check_seconds, bounds.http_check_seconds)
    assert 11 == bounds.runtime_call_seconds_max
    assert (3, 4, 6) == (asked.per_second, asked.burst, asked.at_once_max)
    assert VerificationPolicy("NeverVerifyAllowlistedImages", ("registry.test/base",)) == asked.verification
    serial = settings_of(tmp_path, serializeImagePulls=True)
    assert 1 == rules_of(serial, bounds).pulls.at_once_max


@pytest.mark.parametrize("endpoint", ["embedded:", "fake:", "unix:///run/containerd/containerd.sock"])
def test_only_on_the_embedded_runtime_the_image_host_is_this_machine(endpoint: str, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, containerRuntimeEndpoint=endpoint)
    is_machine = rules_of(settings, bounds_of(settings.configuration)).pulls.is_machine

    assert [endpoint == "embedded:", False] == [is_machine("host:latest"), is_machine("nginx:latest")]


@pytest.mark.parametrize(
    ("expected", "asked"),
    [
        pytest.param(RotationRules(10 * MIB, 5, 1, 10.0, 1.0), {}, id="as upstream does"),
        pytest.param(
            RotationRules(MIB, 2, 3, 60.0, 1.0),
            {
                "containerLogMaxSize": "1Mi",
                "containerLogMaxFiles": 2,
                "containerLogMaxWorkers": 3,
                "containerLogMonitorInterval": "1m",
            },
            id="otherwise",
        ),
        pytest.param(None, {"containerLogMaxSize": "-1"}, id="never"),
    ],
)
def test_settings_of_logs_reach_their_rotation(
    tmp_path: Path, expected: RotationRules | None, asked: dict[str, object]
) -> None:
    settings = settings_of(tmp_path, **asked)
    assert expected == rules_of(settings, bounds_of(settings.configuration)).logs


@pytest.mark.parametrize(("expected", "asked"), [(50_000, {}), (0, {"cpuCFSQuota": False})])
def test_a_limit_of_processors_is_a_quota_unless_the_configuration_wants_none(
    tmp_path: Path, expected: int, asked: dict[str, object]
) -> None:
    facts = facts_of(settings_of(tmp_path, **asked), NodeReading("n", 1024 * MIB, 1), None)
    it = container("a", resources=k8s.ResourceRequirements(limits={"cpu": "500m"}))

    assert expected == container_resources(pod(it), it, facts).cpu_quota_us


@pytest.mark.parametrize(
    ("expected", "has_threshold", "asked"),
    [(960 * MIB, True, {}), (1024 * MIB, False, {"enforceNodeAllocatable": []})],
    ids=["enforced", "not enforced"],
)
def test_pods_are_held_to_what_is_allocatable_only_where_that_is_enforced(
    tmp_path: Path, expected: int, has_threshold: bool, asked: dict[str, object]
) -> None:
    settings = settings_of(
        tmp_path, systemReserved={"memory": "64Mi"}, evictionHard={"memory.available": "1Mi"}, **asked
    )
    thresholds = rules_of(settings, bounds_of(settings.configuration)).eviction.thresholds

    assert expected == facts_of(settings, NodeReading("n", 1024 * MIB, 1), None).pods_limit["memory"]
    assert has_threshold is any(one.signal == "allocatableMemory.available" for one in thresholds)


@pytest.mark.parametrize(
    ("expected", "enforced"),
    [
        pytest.param((), ["pods"], id="pods alone"),
        pytest.param(
            (
                ReservedCgroup("System", "/system.slice", {"cpu": 500, "memory": 64 * MIB}),
                ReservedCgroup("Kube", "/kube.slice", {"cpu": 250, "pid": 1000}),
            ),
            ["pods", "system-reserved", "kube-reserved"],
            id="all",
        ),
        pytest.param(
            (ReservedCgroup("System", "/system.slice", {"cpu": 500, "memory": 64 * MIB}, only_compressible=True),),
            ["pods", "system-reserved-compressible"],
            id="the CPU time of the system",
        ),
    ],
)
def test_reserved_resources_are_enforced_on_the_cgroups_that_are_named(
    tmp_path: Path, expected: tuple[ReservedCgroup, ...], enforced: list[str]
) -> None:
    settings = settings_of(
        tmp_path,
        enforceNodeAllocatable=enforced,
        systemReserved={"cpu": "500m", "memory": "64Mi"},
        systemReservedCgroup="/system.slice",
        kubeReserved={"cpu": "250m", "pid": "1k"},
        kubeReservedCgroup="/kube.slice",
    )

    assert expected == facts_of(settings, NodeReading("n", 1024 * MIB, 1), None).reserved_cgroups


def test_containers_without_a_limit_are_throttled_by_the_memory_that_is_not_reserved(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        systemReserved={"memory": "64Mi"},
        kubeReserved={"memory": "32Mi"},
        evictionHard={"memory.available": "100Mi"},
        enforceNodeAllocatable=[],
    )
    facts = facts_of(settings, NodeReading("n", 1024 * MIB, 1, huge_pages={2 * MIB: 10}), None)

    assert 928 * MIB == facts.memory.unreserved_bytes


@pytest.mark.parametrize(("expected", "asked"), [(["true"], {}), ([], {"enableControllerAttachDetach": False})])
def test_a_node_says_that_controllers_attach_its_volumes_unless_they_are_not_to(
    tmp_path: Path, expected: list[str], asked: dict[str, object]
) -> None:
    identity = identity_of(settings_of(tmp_path, **asked), NodeReading("n", 1024 * MIB, 1))
    annotations = new_node(identity, k8s.NodeStatus()).metadata.annotations

    told = {key: value for key, value in annotations.items() if key.endswith("controller-managed-attach-detach")}
    assert expected == list(told.values())
