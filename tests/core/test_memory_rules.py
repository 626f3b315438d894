"""What is said of a container's memory beside its limit: row by row, for version 2 of cgroups."""

from typing import Any

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.memory import high_bytes, swap_bytes, unified
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.model import k8s

MIB, GIB = 1024**2, 1024**3
SIZE = {"memory_bytes": 8 * GIB, "allocatable": {"memory": 5 * GIB}, "cgroup_version": 2}
CRITICAL = {"priority": 2_000_001_000}


def node(version: int = 2, **rules: Any) -> NodeFacts:
    memory = MemoryRules(**{"qos": True, "unreserved_bytes": 6 * GIB} | rules)
    return NodeFacts("n", **SIZE | {"cgroup_version": version}, memory=memory)  # type: ignore[arg-type]


def one(request: str = "", limit: str = "", **amounts: k8s.Quantity) -> k8s.Container:
    """A container with this much memory; ``amounts`` are limits of other resources."""
    requests: dict[str, k8s.Quantity] = {"memory": request} if request else {}
    limits: dict[str, k8s.Quantity] = ({"memory": limit} if limit else {}) | amounts
    return container("a", resources=k8s.ResourceRequirements(requests=requests, limits=limits))


SOME, FULL, NONE = one("1Gi", "2Gi"), one("", "1Gi", cpu="1"), one()
NO_RESERVATION = {"memory.min": "0", "memory.low": "0"}


@pytest.mark.parametrize(
    ("expected", "it", "facts"),
    [
        pytest.param({}, SOME, node(version=1, throttle=0.9, reserves=True, swap_controlled=True), id="not version 1"),
        pytest.param({"memory.oom.group": "1"} | NO_RESERVATION, SOME, node(), id="killed as one"),
        pytest.param(NO_RESERVATION, SOME, node(kills_one=True), id="killed one by one"),
        pytest.param({"memory.high": "max"}, SOME, node(kills_one=True, qos=False), id="throttling is taken back"),
        pytest.param(
            {"memory.oom.group": "1", "memory.swap.max": "0"} | NO_RESERVATION,
            SOME,
            node(swap_controlled=True),
            id="no container swaps",
        ),
        pytest.param(
            {"memory.swap.max": str(GIB // 2)} | NO_RESERVATION,
            SOME,
            node(kills_one=True, swap_controlled=True, swap_bytes=4 * GIB),
            id="a share of the swap",
        ),
        pytest.param({"memory.low": str(GIB)}, SOME, node(kills_one=True, reserves=True), id="Burstable: softly"),
        pytest.param({"memory.min": str(GIB)}, FULL, node(kills_one=True, reserves=True), id="Guaranteed: hard"),
        pytest.param(NO_RESERVATION, NONE, node(kills_one=True, reserves=True), id="BestEffort: not at all"),
        pytest.param(
            {"memory.high": str(int(1.9 * GIB) // 4096 * 4096)} | NO_RESERVATION,
            SOME,
            node(kills_one=True, throttle=0.9),
            id="slowed",
        ),
    ],
)
def test_what_version_2_is_told_of_a_containers_memory(
    expected: dict[str, str], it: k8s.Container, facts: NodeFacts
) -> None:
    assert expected == unified(pod(it), it, facts)


@pytest.mark.parametrize(
    ("expected", "request_", "memory", "swap"),
    [
        (53_687_091, GIB, 80 * GIB, 4 * GIB),
        (107_374_182, 2 * GIB, 40 * GIB, 2 * GIB),
        (1_431_655_765, 5 * GIB, 150 * GIB, 40 * GIB),
        (0, 9 * GIB, 8 * GIB, 4 * GIB),
        (0, GIB, 8 * GIB, 0),
    ],
)
def test_a_container_may_swap_the_share_it_asked_for_of_the_memory(
    expected: int, request_: int, memory: int, swap: int
) -> None:
    it = one(str(request_))

    assert expected == swap_bytes(pod(it), it, NodeFacts("n", memory_bytes=memory, memory=MemoryRules(swap)))


@pytest.mark.parametrize(
    ("it", "fields"),
    [
        pytest.param(SOME, CRITICAL, id="critical"),
        pytest.param(SOME, {"meta": {"annotations": {"kubernetes.io/config.source": "file"}}}, id="static"),
        pytest.param(FULL, {}, id="Guaranteed"),
        pytest.param(NONE, {}, id="BestEffort"),
        pytest.param(one("1Gi", "1Gi"), {}, id="asked for its limit"),
        pytest.param(one(cpu="1"), {}, id="asked for no memory"),
    ],
)
def test_pods_that_never_swap(it: k8s.Container, fields: dict[str, Any]) -> None:
    assert 0 == swap_bytes(pod(it, **fields), it, node(swap_bytes=4 * GIB))


@pytest.mark.parametrize(
    ("expected", "it", "fields"),
    [
        pytest.param(1536 * MIB, SOME, {}, id="between request and limit"),
        pytest.param(3584 * MIB, one("1Gi"), {}, id="without a limit by the unreserved memory of the node"),
        pytest.param(3 * GIB, NONE, {}, id="no request either"),
        pytest.param(
            0, NONE, {"resources": k8s.ResourceRequirements(limits={"memory": "2Gi"})}, id="the whole pod has a limit"
        ),
        pytest.param(
            1536 * MIB,
            SOME,
            {"resources": k8s.ResourceRequirements(limits={"memory": "4Gi"})},
            id="its own limit below the whole pod's",
        ),
        pytest.param(
            3 * GIB, NONE, {"resources": k8s.ResourceRequirements(limits={"cpu": "1"})}, id="the whole pod's CPU limit"
        ),
        pytest.param(0, FULL, {}, id="not where the request is the limit"),
        pytest.param(0, one("7Gi"), {}, id="not below the request"),
        pytest.param(4096, one("1", "9000"), {}, id="whole pages"),
    ],
)
def test_at_which_size_a_container_is_slowed_down(expected: int, it: k8s.Container, fields: dict[str, Any]) -> None:
    assert expected == high_bytes(pod(it, **fields), it, node(throttle=0.5))
    assert 0 == high_bytes(pod(it, **fields), it, node())
