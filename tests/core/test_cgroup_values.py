"""The names of pods' cgroups, and what is written into them, row by row."""

from dataclasses import replace

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.cgroup_values import Asked, class_settings, class_sums, pod_settings
from trikubelet.core.containers.cgroups import cgroup_parent, class_cgroup, parts, pod_cgroup, spell, uid_of
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.containers.resources import weight
from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, GUARANTEED
from trikubelet.model import k8s

GIB = 1024**3


def with_needs(requests: dict[str, k8s.Quantity], limits: dict[str, k8s.Quantity] | None = None) -> k8s.Container:
    return container("a", resources=k8s.ResourceRequirements(requests=requests, limits=limits or {}))


FULL = pod(with_needs({}, {"cpu": "2", "memory": "1Gi"}), meta={"uid": "a-b"})
SOME = pod(with_needs({"cpu": "500m"}), meta={"uid": "a-b"})
NONE = pod(container("a"), meta={"uid": "a-b"})
LESS_CPU = pod(with_needs({}, {"cpu": "1", "memory": "2Gi"}), meta={"uid": "a-b"})


def said(settings: object) -> dict[str, str]:
    return {file: value for _, file, value in settings}  # type: ignore[attr-defined]


def sums(pods: list[Asked], facts: NodeFacts) -> dict[str, dict[str, str]]:
    return {quality: said(settings) for quality, settings in class_sums(pods, facts).items()}


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(("/kubepods/poda-b", "/kubepods.slice/kubepods-poda_b.slice"), FULL, id="Guaranteed"),
        pytest.param(
            ("/kubepods/burstable/poda-b", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice"),
            SOME,
            id="Burstable",
        ),
        pytest.param(
            (
                "/kubepods/besteffort/poda-b",
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice",
            ),
            NONE,
            id="BestEffort",
        ),
    ],
)
def test_a_pods_cgroup_lies_below_its_class_and_each_driver_spells_it(expected: tuple[str, str], it: k8s.Pod) -> None:
    assert expected == tuple(spell(pod_cgroup(it), driver) for driver in ("cgroupfs", "systemd"))


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("it", [FULL, SOME, NONE])
def test_a_pod_is_known_by_the_name_of_its_cgroup(it: k8s.Pod, driver: str) -> None:
    assert "a-b" == uid_of(parts(pod_cgroup(it), driver)[-1], driver)
    assert "" == uid_of(parts(class_cgroup(BURSTABLE), driver)[-1], driver)
    assert "" == uid_of(parts(class_cgroup(GUARANTEED), driver)[-1], driver)


def test_a_cgroup_root_comes_before_kubepods() -> None:
    assert ("a", "b", "kubepods", "burstable") == class_cgroup(BURSTABLE, "/a/b/")
    assert "/a.slice/a-b.slice/a-b-kubepods.slice" == spell(class_cgroup(GUARANTEED, "/a/b"), "systemd")


def test_the_runtimes_own_parent_holds_where_cgroups_are_not_ours() -> None:
    assert "" == cgroup_parent(FULL, NodeFacts("n", cgroups_managed=False))
    assert "/kubepods/poda-b" == cgroup_parent(FULL, NodeFacts("n"))


@pytest.mark.parametrize(
    ("expected", "version", "it"),
    [
        pytest.param(
            {
                "cpu.shares": "2048",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "200000",
                "memory.limit_in_bytes": str(GIB),
                "pids.max": "64",
                "hugetlb.2MB.limit_in_bytes": "0",
                "hugetlb.2MB.rsvd.limit_in_bytes": "0",
            },
            1,
            FULL,
            id="v1, everything limited",
        ),
        pytest.param(
            {
                "cpu.weight": "79",
                "cpu.max": "200000 100000",
                "memory.max": str(GIB),
                "memory.high": "max",
                "pids.max": "64",
                "hugetlb.2MB.max": "0",
                "hugetlb.2MB.rsvd.max": "0",
            },
            2,
            FULL,
            id="v2, everything limited",
        ),
        pytest.param(
            {
                "cpu.shares": "512",
                "cpu.cfs_quota_us": "-1",
                "memory.limit_in_bytes": "-1",
                "pids.max": "64",
                "hugetlb.2MB.limit_in_bytes": "0",
                "hugetlb.2MB.rsvd.limit_in_bytes": "0",
            },
            1,
            SOME,
            id="v1, a limit that was taken away is written as none",
        ),
        pytest.param(
            {
                "cpu.weight": "1",
                "cpu.max": "max",
                "memory.max": "max",
                "memory.high": "max",
                "pids.max": "64",
                "hugetlb.2MB.max": "0",
                "hugetlb.2MB.rsvd.max": "0",
            },
            2,
            NONE,
            id="v2, BestEffort",
        ),
    ],
)
def test_a_pods_values_in_the_files_of_either_version(expected: dict[str, str], version: int, it: k8s.Pod) -> None:
    facts = NodeFacts("n", cgroup_version=version, pod_pids_max=64, huge_page_sizes=(2 * 1024**2,))

    assert expected == said(pod_settings(it, facts))


@pytest.mark.parametrize(
    ("expected", "limit", "period"),
    [
        pytest.param(43_000, "423m", 100_000, id="rounded up to a whole percent of a CPU"),
        pytest.param(74_000, "733m", 100_000, id="another"),
        pytest.param(42_000, "420m", 100_000, id="a whole percent stays"),
        pytest.param(21_500, "423m", 50_000, id="of the configured period"),
        pytest.param(1000, "1m", 100_000, id="the least quota is a percent already"),
        pytest.param(1200, "1m", 30_000, id="the least quota is between percents of a short period"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_quota_of_a_slice_is_rounded_up_as_systemd_and_the_runtime_round_it(
    expected: int, limit: str, period: int, version: int
) -> None:
    it = pod(with_needs({}, {"cpu": limit, "memory": "1Gi"}), meta={"uid": "a-b"})
    facts = NodeFacts("n", cgroup_version=version, cgroup_driver="systemd", cpu_cfs_period_us=period)

    found = said(pod_settings(it, facts))

    assert str(expected) == (found.get("cpu.cfs_quota_us") or found["cpu.max"].split()[0])


def test_quota_of_a_plain_cgroup_is_exact() -> None:
    it = pod(with_needs({}, {"cpu": "423m", "memory": "1Gi"}), meta={"uid": "a-b"})

    assert "42300 100000" == said(pod_settings(it, NodeFacts("n", cgroup_version=2)))["cpu.max"]


def test_without_a_limit_of_processes_there_is_none() -> None:
    assert "max" == said(pod_settings(NONE, NodeFacts("n", cgroup_version=1)))["pids.max"]


def test_burstable_pods_weigh_what_they_asked_for_and_best_effort_ones_nothing() -> None:
    facts = NodeFacts("n", cgroup_version=1)
    pods = [Asked(BURSTABLE, 250, GIB), Asked(BURSTABLE, 750, 0), Asked(GUARANTEED, 4000, GIB)]

    assert {BURSTABLE: {"cpu.shares": "1024"}} == sums(pods, facts)
    assert [{"cpu.shares": "2"}] * 2 == [said(class_settings(quality, facts)) for quality in (BURSTABLE, BEST_EFFORT)]


def test_what_is_reserved_for_a_pod_is_reserved_for_its_class_and_all_pods_too() -> None:
    facts = NodeFacts("n", cgroup_version=2, memory=MemoryRules(reserves=True))
    pods = [Asked(BURSTABLE, 1000, GIB), Asked(BURSTABLE, 0, 2 * GIB), Asked(GUARANTEED, 4000, 4 * GIB)]

    expected = {
        BURSTABLE: {"cpu.weight": "39", "memory.low": str(3 * GIB)},
        GUARANTEED: {"memory.min": str(7 * GIB), "memory.low": str(3 * GIB)},
    }
    assert expected == sums(pods, facts)


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param({"memory.min": str(GIB)}, FULL, id="Guaranteed"),
        pytest.param({"memory.low": "0"}, SOME, id="Burstable, which asked for no memory"),
        pytest.param({}, NONE, id="BestEffort"),
    ],
)
def test_what_is_reserved_for_a_pod(expected: dict[str, str], it: k8s.Pod) -> None:
    reserving = NodeFacts("n", cgroup_version=2, memory=MemoryRules(reserves=True))
    plain = NodeFacts("n", cgroup_version=2)

    assert expected.items() == said(pod_settings(it, reserving)).items() - said(pod_settings(it, plain)).items()
    old = NodeFacts("n", cgroup_version=1, memory=MemoryRules(reserves=True))
    assert pod_settings(it, NodeFacts("n", cgroup_version=1)) == pod_settings(it, old)


def test_what_an_earlier_agent_had_reserved_is_given_back() -> None:
    given_back = {"memory.min": "0", "memory.low": "0"}

    assert given_back.items() <= said(class_settings(GUARANTEED, NodeFacts("n", cgroup_version=2))).items()
    reserving = NodeFacts("n", cgroup_version=2, memory=MemoryRules(reserves=True))
    assert not given_back.keys() & said(class_settings(GUARANTEED, reserving))


def test_all_pods_together_have_their_own_limit_and_not_what_is_reported_as_allocatable() -> None:
    facts = NodeFacts(
        "n", cgroup_version=2, allocatable={"cpu": 1, "memory": 1}, pods_limit={"cpu": 4000, "memory": GIB, "pid": 900}
    )

    expected = {"cpu.weight": "157", "memory.max": str(GIB), "pids.max": "900", "memory.min": "0", "memory.low": "0"}
    untouched = {"cpu.max": "max", "memory.high": "max", "memory.oom.group": "0"}
    assert expected | untouched == said(class_settings(GUARANTEED, facts))


OWN = k8s.ResourceRequirements(requests={"memory": "1Gi"}, limits={"memory": "3Gi"})


@pytest.mark.parametrize(
    ("expected", "it"),
    [
        pytest.param(2 * GIB, pod(container("a"), resources=OWN, meta={"uid": "a-b"}), id="its own request and limit"),
        pytest.param(
            2 * GIB + 12288,
            pod(container("a"), resources=OWN, overhead={"memory": "12Ki"}, meta={"uid": "a-b"}),
            id="with its overhead",
        ),
        pytest.param(
            GIB // 2,
            pod(
                with_needs({"memory": "0"}, {"memory": "1Gi"}),
                resources=k8s.ResourceRequirements(limits={"cpu": "1"}),
                meta={"uid": "a-b"},
            ),
            id="those of its containers, where it states others of its own",
        ),
        pytest.param(0, SOME, id="no resources of its own"),
        pytest.param(
            0, pod(with_needs({"memory": "1Gi"}, {"memory": "3Gi"}), meta={"uid": "a-b"}), id="containers only"
        ),
        pytest.param(
            0,
            pod(container("a"), resources=k8s.ResourceRequirements(limits={"memory": "1Gi"}), meta={"uid": "a-b"}),
            id="the request is the limit",
        ),
        pytest.param(
            0,
            pod(container("a"), resources=k8s.ResourceRequirements(requests={"memory": "1Gi"}), meta={"uid": "a-b"}),
            id="no limit",
        ),
    ],
)
def test_size_at_which_a_pod_with_resources_of_its_own_is_throttled(expected: int, it: k8s.Pod) -> None:
    facts = NodeFacts("n", cgroup_version=2, memory=MemoryRules(qos=True, throttle=0.5))

    assert str(expected or "max") == said(pod_settings(it, facts))["memory.high"]
    assert "max" == said(pod_settings(it, NodeFacts("n", cgroup_version=2)))["memory.high"]
    assert "memory.high" not in said(pod_settings(it, replace(facts, cgroup_version=1)))


def test_while_a_pod_is_resized_it_is_throttled_at_the_larger_size() -> None:
    facts = NodeFacts("n", cgroup_version=2, memory=MemoryRules(qos=True, throttle=0.5))
    smaller, larger = (
        pod(
            container("a"),
            resources=k8s.ResourceRequirements(requests={"memory": "1Gi"}, limits={"memory": limit}),
            meta={"uid": "a-b"},
        )
        for limit in ("3Gi", "5Gi")
    )

    assert str(3 * GIB) == said(pod_settings(smaller, facts, larger))["memory.high"]
    assert str(3 * GIB) == said(pod_settings(larger, facts, smaller))["memory.high"]
    assert "max" == said(pod_settings(larger, facts, SOME))["memory.high"]


@pytest.mark.parametrize(
    ("expected", "quality", "version", "cpus"),
    [
        pytest.param("0-3", GUARANTEED, 2, "0-3", id="all pods"),
        pytest.param(None, BURSTABLE, 2, "0-3", id="a class has those of all pods"),
        pytest.param(None, GUARANTEED, 1, "0-3", id="version 1 inherits them"),
        pytest.param(None, GUARANTEED, 2, "", id="they are unknown"),
    ],
)
def test_all_pods_together_have_the_online_cpus(expected: str | None, quality: str, version: int, cpus: str) -> None:
    found = said(class_settings(quality, NodeFacts("n", cgroup_version=version), cpus))

    assert expected == found.get("cpuset.cpus")


@pytest.mark.parametrize(
    ("expected", "one", "other"),
    [
        pytest.param(("2048", "200000", str(2 * GIB)), FULL, LESS_CPU, id="each the larger"),
        pytest.param(("2048", "-1", "-1"), FULL, SOME, id="none is the largest"),
        pytest.param(("512", "-1", "-1"), SOME, NONE, id="none of either"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_of_two_states_of_a_pod_its_cgroup_has_the_larger_of_each(
    expected: tuple[str, str, str], one: k8s.Pod, other: k8s.Pod, version: int
) -> None:
    facts = NodeFacts("n", cgroup_version=version)
    found = said(pod_settings(one, facts, other))

    assert found == said(pod_settings(other, facts, one))
    cpu_shares, quota, memory = expected
    if version == 1:
        assert expected == (found["cpu.shares"], found["cpu.cfs_quota_us"], found["memory.limit_in_bytes"])
    else:
        whole = "max" if quota == "-1" else f"{quota} 100000"
        limit = "max" if memory == "-1" else memory
        assert (str(weight(int(cpu_shares))), whole, limit) == (
            found["cpu.weight"],
            found["cpu.max"],
            found["memory.max"],
        )


def test_while_a_pod_is_resized_its_cgroup_suffices_for_what_was_and_what_shall_be() -> None:
    facts = NodeFacts("n", cgroup_version=2)
    more_cpu = pod(with_needs({}, {"cpu": "4", "memory": "512Mi"}), meta={"uid": "a-b"})
    found = said(pod_settings(FULL, facts, more_cpu))

    assert said(pod_settings(more_cpu, facts))["cpu.max"] == found["cpu.max"]
    assert said(pod_settings(more_cpu, facts))["cpu.weight"] == found["cpu.weight"]
    assert str(GIB) == found["memory.max"]
    assert found == said(pod_settings(more_cpu, facts, FULL))
    assert ("max", "max") == (
        said(pod_settings(FULL, facts, SOME))["cpu.max"],
        said(pod_settings(SOME, facts, FULL))["memory.max"],
    )
