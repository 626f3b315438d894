"""Resources as cgroup values and OOM scores: upstream's formulas with their limits, and the sums of whole pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, pod, sidecar
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.amounts import of_pod
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.containers.resources import (
    container_resources,
    huge_page_bytes,
    huge_page_limits,
    oom_score,
    overhead,
    pod_resources,
    quota_us,
    sandbox_resources,
    shares,
    weight,
)
from trikubelet.model import k8s
from trikubelet.model.runtime_config import LinuxResources

MIB, GIB = 1024**2, 1024**3
FACTS = NodeFacts("n", memory_bytes=4 * GIB, cgroup_version=1)
Amounts = dict[str, k8s.Quantity]


def needs(requests: Amounts | None = None, limits: Amounts | None = None) -> k8s.ResourceRequirements:
    return k8s.ResourceRequirements(requests=requests or {}, limits=limits or {})


def one(requests: Amounts | None = None, limits: Amounts | None = None, name: str = "a") -> k8s.Container:
    return container(name, resources=needs(requests, limits))


@pytest.mark.parametrize(
    ("expected", "milli"),
    [(2, 0), (2, 1), (2, 2), (3, 3), (102, 100), (1024, 1000), (2048, 2000), (262_144, 256_000), (262_144, 999_999)],
)
def test_shares_follow_the_request_within_the_kernels_limits(expected: int, milli: int) -> None:
    assert expected == shares(milli)


@pytest.mark.parametrize(
    ("expected", "milli", "period"),
    [
        (0, 0, 100_000),
        (1000, 1, 100_000),
        (1000, 10, 100_000),
        (1100, 11, 100_000),
        (150_000, 1500, 100_000),
        (1000, 50, 10_000),
    ],
)
def test_a_quota_is_at_least_a_millisecond_and_no_limit_is_none(expected: int, milli: int, period: int) -> None:
    assert expected == quota_us(milli, period)


def test_weights_span_their_range() -> None:
    assert [1, 39, 10_000] == [weight(n) for n in (2, 1024, 262_144)]


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_larger_request_never_gets_a_smaller_weight(one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert shares(less) <= shares(more)
    assert weight(shares(less)) <= weight(shares(more))


def test_a_container_with_requests_and_limits() -> None:
    it = one({"cpu": "500m", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})

    expected = LinuxResources(
        cpu_period_us=100_000,
        cpu_quota_us=200_000,
        cpu_shares=512,
        memory_limit_bytes=2 * GIB,
        oom_score_adj=750,
    )
    assert expected == container_resources(pod(it), it, FACTS)


def test_a_container_that_asks_for_nothing_is_first_to_go() -> None:
    it = container("a")

    expected = LinuxResources(cpu_period_us=100_000, cpu_shares=2, oom_score_adj=1000)
    assert expected == container_resources(pod(it), it, FACTS)


@pytest.mark.parametrize(
    ("expected", "requests"), [(1024, {}), (2, {"cpu": "0"}), (2, {"cpu": 0}), (1024, {"memory": "1Mi"})]
)
def test_a_limit_is_the_request_only_where_none_is_stated(expected: int, requests: Amounts) -> None:
    it = one(requests, {"cpu": "1", "memory": "1Mi"})

    assert expected == container_resources(pod(it), it, FACTS).cpu_shares
    assert expected == pod_resources(pod(it), FACTS).cpu_shares

    it = one(requests)
    assert expected == container_resources(pod(it, resources=needs(limits={"cpu": "1"})), it, FACTS).cpu_shares


def test_without_quotas_a_limit_only_weighs() -> None:
    it = one({}, {"cpu": "1"})
    made = container_resources(pod(it), it, NodeFacts("n", cpu_cfs_quota=False))

    assert (0, 0, 1024) == (made.cpu_quota_us, made.cpu_period_us, made.cpu_shares)


def test_a_container_without_a_quota_has_the_nodes_period_all_the_same() -> None:
    facts = NodeFacts("n", cpu_cfs_period_us=50_000)
    it = one({"cpu": "1"})

    for made in (container_resources(pod(it), it, facts), sandbox_resources(pod(it), facts)):
        assert (0, 50_000) == (made.cpu_quota_us, made.cpu_period_us)


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param((0, 0), pod("a"), id="nothing is limited"),
        pytest.param((50_000, GIB), pod(one({}, {"cpu": "500m", "memory": "1Gi"}), "b"), id="one container is"),
        pytest.param(
            (200_000, 2 * GIB), pod("a", resources=needs({}, {"cpu": "2", "memory": "2Gi"})), id="the whole pod is"
        ),
    ],
)
def test_a_runtime_is_told_what_the_containers_need_although_one_of_them_is_unlimited(
    expected: tuple[int, int], it: k8s.Pod
) -> None:
    made = sandbox_resources(it, FACTS)

    assert expected == (made.cpu_quota_us, made.memory_limit_bytes)


@pytest.mark.parametrize(("expected", "version", "controlled"), [(GIB, 1, True), (0, 1, False), (0, 2, True)])
def test_in_version_1_memory_with_swap_is_no_more_than_memory(expected: int, version: int, controlled: bool) -> None:
    it = one({}, {"memory": "1Gi"})
    facts = NodeFacts("n", cgroup_version=version, memory=MemoryRules(swap_controlled=controlled))

    assert expected == container_resources(pod(it), it, facts).memory_swap_limit_bytes


WHOLE = needs({"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "4Mi"})


def test_the_whole_pods_limits_hold_for_a_container_without() -> None:
    it = container("a")

    expected = LinuxResources(
        cpu_period_us=100_000,
        cpu_quota_us=200_000,
        cpu_shares=2048,
        memory_limit_bytes=2 * GIB,
        hugepage_limits={"2MB": 4 * MIB},
        oom_score_adj=-997,
    )
    assert expected == container_resources(pod(it, resources=WHOLE), it, FACTS)


def test_and_not_for_one_with_its_own() -> None:
    it = one({"cpu": "100m"}, {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"})
    made = container_resources(pod(it, resources=WHOLE), it, FACTS)

    assert (100_000, 102, GIB, {"2MB": 2 * MIB}) == (
        made.cpu_quota_us,
        made.cpu_shares,
        made.memory_limit_bytes,
        made.hugepage_limits,
    )


def test_a_whole_pods_huge_pages_are_the_most_it_needs_at_a_time_or_its_own_word() -> None:
    pages: Amounts = {"hugepages-2Mi": "4Mi"}
    begins = container("i", resources=needs({}, {"hugepages-2Mi": "6Mi"}))
    facts = NodeFacts("n", huge_page_sizes=(2 * MIB, GIB))

    made = pod_resources(pod(one({}, pages), "b", init=(begins,)), facts)
    assert {"2MB": 6 * MIB, "1GB": 0} == made.hugepage_limits
    assert {"2MB": 4 * MIB, "1GB": 0} == pod_resources(pod(one({}, pages), resources=WHOLE), facts).hugepage_limits
    assert {2 * MIB} == huge_page_bytes(pod("a", resources=WHOLE))


def test_huge_pages_are_named_as_the_kernel_does_and_none_asked_for_is_none_given() -> None:
    facts = NodeFacts("n", huge_page_sizes=(2 * MIB, GIB, 64 * 1024))
    limits: Amounts = {"hugepages-2Mi": "4Mi", "hugepages-16Mi": "16Mi", "cpu": "1"}

    assert {"64KB": 0, "2MB": 4 * MIB, "16MB": 16 * MIB, "1GB": 0} == huge_page_limits(limits, facts)


FULL: Amounts = {"cpu": "1", "memory": "1Gi"}
CRITICAL = {"priority": 2_000_001_000, "priority_class_name": "system-node-critical"}


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(-997, pod(one({}, FULL)), id="Guaranteed"),
        pytest.param(1000, pod("a"), id="BestEffort"),
        pytest.param(-997, pod("a", **CRITICAL), id="critical for the node"),
        pytest.param(1000, pod("a", priority_class_name="system-node-critical"), id="in name only"),
        pytest.param(
            1000, pod("a", priority=2_000_000_000, priority_class_name="system-cluster-critical"), id="for the cluster"
        ),
        pytest.param(750, pod(one({"memory": "1Gi"})), id="a quarter of the node"),
        pytest.param(999, pod(one({"cpu": "1"})), id="no memory asked for is not BestEffort"),
        pytest.param(999, pod(one({"memory": "1Mi"})), id="next to none"),
        pytest.param(3, pod(one({"memory": "4Gi"})), id="all of the node is not Guaranteed"),
        pytest.param(3, pod(one({"memory": "9Gi"})), id="more than there is"),
        pytest.param(750, pod(one({}, {"memory": "1Gi"})), id="a limit is a request"),
        pytest.param(
            500,
            pod(one({"memory": "1Gi"}), "b", resources=needs({"memory": "3Gi"})),
            id="and its part of the pod's own",
        ),
        pytest.param(
            500,
            pod(
                one({"memory": "1Gi"}),
                init=(one({"memory": "1Gi"}, name="i"),),
                resources=needs({"memory": "3Gi"}),
            ),
            id="of which an init container that ends leaves what it had",
        ),
        pytest.param(
            625,
            pod(
                one({"memory": "1Gi"}),
                init=(sidecar("s", resources=needs({"memory": "1Gi"})),),
                resources=needs({"memory": "3Gi"}),
            ),
            id="and a sidecar does not",
        ),
        pytest.param(
            750,
            pod(
                one({"memory": "1Gi"}),
                init=(one({"memory": "3Gi"}, name="i"),),
                resources=needs({"memory": "3Gi"}),
            ),
            id="nor one that needed all of it",
        ),
    ],
)
def test_the_oom_score_of_a_container(expected: int, it: k8s.Pod) -> None:
    assert expected == oom_score(it, it.spec.containers[0], 4 * GIB)


def test_oom_scores_are_equal_without_a_known_memory_size() -> None:
    assert 1000 == oom_score(pod(one({"memory": "1Gi"})), one({"memory": "1Gi"}), 0)


def test_a_sidecar_dies_no_earlier_than_those_it_serves() -> None:
    poor, rich = sidecar("s"), sidecar("t", resources=needs({"memory": "3Gi"}))
    it = pod(one({"memory": "1Gi"}), one({"memory": "2Gi"}, name="b"), init=(poor, rich))

    assert [500, 250] == [oom_score(it, one, 4 * GIB) for one in (poor, rich)]


def test_an_init_container_that_ends_is_scored_for_itself() -> None:
    first = container("i")

    assert 999 == oom_score(pod(one({"memory": "1Gi"}), init=(first,)), first, 4 * GIB)


def cpu(amount: str) -> k8s.ResourceRequirements:
    return needs({"cpu": amount}, {"cpu": amount})


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(3000, pod(one(cpu("1").requests), one(cpu("2").requests, name="b")), id="regular ones together"),
        pytest.param(
            4000, pod(one(cpu("1").requests), init=(container("i", resources=cpu("4")),)), id="an init container alone"
        ),
        pytest.param(
            3000, pod(one(cpu("1").requests), init=(sidecar("s", resources=cpu("2")),)), id="sidecars with regular ones"
        ),
        pytest.param(
            5000,
            pod("a", init=(sidecar("s", resources=cpu("2")), container("i", resources=cpu("3")))),
            id="an init container with the sidecars before it",
        ),
        pytest.param(
            3000,
            pod("a", init=(container("i", resources=cpu("3")), sidecar("s", resources=cpu("2")))),
            id="and without those after it",
        ),
        pytest.param(1250, pod(one(cpu("1").requests), overhead={"cpu": "250m"}), id="with its overhead"),
        pytest.param(
            5250,
            pod(one(cpu("1").requests), resources=needs({"cpu": "5"}), overhead={"cpu": "250m"}),
            id="its own word",
        ),
        pytest.param(250, pod("a", overhead={"cpu": "250m"}), id="overhead alone"),
    ],
)
def test_what_a_pod_requests(expected: int, it: k8s.Pod) -> None:
    assert expected == of_pod(it, "requests", "cpu")


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(3000, pod(one({}, {"cpu": "1"}), one({}, {"cpu": "2"}, name="b")), id="everyone is limited"),
        pytest.param(0, pod(one({}, {"cpu": "1"}), "b"), id="one is not"),
        pytest.param(0, pod(one({}, {"cpu": "1"}), init=("i",)), id="an init container is not"),
        pytest.param(0, pod(one({}, {"cpu": "1"}), "b", overhead={"cpu": "1"}), id="overhead does not limit"),
        pytest.param(1500, pod(one({}, {"cpu": "1"}), overhead={"cpu": "500m"}), id="overhead widens a limit"),
        pytest.param(
            4000, pod(one({}, {"cpu": "1"}), "b", resources=needs({}, {"cpu": "4"})), id="the pod's own limit"
        ),
    ],
)
def test_what_a_pod_is_limited_to(expected: int, it: k8s.Pod) -> None:
    assert expected == of_pod(it, "limits", "cpu")


def test_a_whole_pods_values() -> None:
    it = pod(one({"cpu": "500m"}, {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}), one({}, FULL, name="b"))

    expected = LinuxResources(
        cpu_period_us=100_000,
        cpu_quota_us=200_000,
        cpu_shares=1536,
        memory_limit_bytes=2 * GIB,
        hugepage_limits={"2MB": 2 * MIB},
    )
    assert expected == pod_resources(it, FACTS)
    assert LinuxResources(cpu_shares=2) == pod_resources(pod("a"), FACTS)


def test_overhead_is_told_where_there_is_some() -> None:
    assert LinuxResources() == overhead(pod("a"), FACTS)
    expected = LinuxResources(cpu_period_us=100_000, cpu_quota_us=25_000, cpu_shares=256, memory_limit_bytes=GIB)
    assert expected == overhead(pod("a", overhead={"cpu": "250m", "memory": "1Gi"}), FACTS)
