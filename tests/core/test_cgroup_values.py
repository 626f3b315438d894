"""The names of pods' cgroups, and what is written into them, row by row."""

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.cgroup_values import class_settings, pod_settings
from trikubelet.core.containers.cgroups import cgroup_parent, class_cgroup, pod_cgroup, spell
from trikubelet.core.qos import BEST_EFFORT, BURSTABLE, GUARANTEED
from trikubelet.model import k8s

GIB = 1024**3


def with_needs(requests: dict[str, k8s.Quantity], limits: dict[str, k8s.Quantity] | None = None) -> k8s.Container:
    return container("a", resources=k8s.ResourceRequirements(requests=requests, limits=limits or {}))


FULL = pod(with_needs({}, {"cpu": "2", "memory": "1Gi"}), meta={"uid": "a-b"})
SOME = pod(with_needs({"cpu": "500m"}), meta={"uid": "a-b"})
NONE = pod(container("a"), meta={"uid": "a-b"})


def said(settings: object) -> dict[str, str]:
    return {file: value for _, file, value in settings}  # type: ignore[attr-defined]


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
                "pids.max": "64",
                "hugetlb.2MB.max": "0",
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
            },
            1,
            SOME,
            id="v1, a limit that was taken away is written as none",
        ),
        pytest.param(
            {"cpu.weight": "1", "cpu.max": "max", "memory.max": "max", "pids.max": "64", "hugetlb.2MB.max": "0"},
            2,
            NONE,
            id="v2, BestEffort",
        ),
    ],
)
def test_a_pods_values_in_the_files_of_either_version(expected: dict[str, str], version: int, it: k8s.Pod) -> None:
    facts = NodeFacts("n", cgroup_version=version, pod_pids_max=64, huge_page_sizes=(2 * 1024**2,))

    assert expected == said(pod_settings(it, facts))


def test_without_a_limit_of_processes_there_is_none() -> None:
    assert "max" == said(pod_settings(NONE, NodeFacts("n", cgroup_version=1)))["pids.max"]


def test_burstable_pods_weigh_what_they_asked_for_and_best_effort_ones_nothing() -> None:
    facts = NodeFacts("n", cgroup_version=1)

    assert {"cpu.shares": "1024"} == said(class_settings(BURSTABLE, (250, 750), facts))
    assert {"cpu.shares": "2"} == said(class_settings(BURSTABLE, (), facts))
    assert {"cpu.shares": "2"} == said(class_settings(BEST_EFFORT, (500,), facts))


def test_all_pods_together_are_limited_to_what_the_node_has_to_give() -> None:
    facts = NodeFacts("n", cgroup_version=2, allocatable={"cpu": 4000, "memory": GIB})
    free = NodeFacts("n", cgroup_version=2, allocatable={"cpu": 4000, "memory": GIB}, allocatable_enforced=False)

    assert {"cpu.weight": "157", "memory.max": str(GIB)} == said(class_settings(GUARANTEED, (), facts))
    assert {"cpu.weight": "157", "memory.max": "max"} == said(class_settings(GUARANTEED, (), free))
