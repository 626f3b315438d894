"""What systemd is told of a pod's slice, row by row."""

import pytest

from core.podkit import container, pod
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.cgroup_values import Setting, pod_settings
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.containers.slices import NEWEST, properties, version_of
from trikubelet.model import k8s

GIB = 1024**3
FULL = pod(container("a", resources=k8s.ResourceRequirements(limits={"cpu": "2", "memory": "1Gi"})))
NONE = pod("a")


@pytest.mark.parametrize(
    ("expected", "version", "it"),
    [
        pytest.param(
            {
                "CPUShares": "2048",
                "CPUQuota": "200%",
                "CPUQuotaPeriodSec": "100000us",
                "MemoryMax": str(GIB),
                "TasksMax": "64",
            },
            1,
            FULL,
            id="v1",
        ),
        pytest.param(
            {
                "CPUWeight": "79",
                "CPUQuota": "200%",
                "CPUQuotaPeriodSec": "100000us",
                "MemoryHigh": "infinity",
                "MemoryMax": str(GIB),
                "MemoryMin": str(GIB),
                "TasksMax": "64",
            },
            2,
            FULL,
            id="v2",
        ),
        pytest.param(
            {"CPUShares": "2", "CPUQuota": "", "MemoryMax": "infinity", "TasksMax": "64"}, 1, NONE, id="v1, no limits"
        ),
        pytest.param(
            {"CPUWeight": "1", "CPUQuota": "", "MemoryHigh": "infinity", "MemoryMax": "infinity", "TasksMax": "64"},
            2,
            NONE,
            id="v2, no limits",
        ),
    ],
)
def test_what_systemd_is_told_of_a_pod(expected: dict[str, str], version: int, it: k8s.Pod) -> None:
    facts = NodeFacts(
        "n",
        cgroup_version=version,
        pod_pids_max=64,
        huge_page_sizes=(2 * 1024**2,),
        memory=MemoryRules(reserves=True),
    )

    assert expected == properties(pod_settings(it, facts))


@pytest.mark.parametrize(
    ("expected", "quota", "period"),
    [("1%", 1000, 100_000), ("2%", 1100, 100_000), ("34%", 33_300, 100_000), ("10%", 1000, 10_000)],
)
def test_a_quota_is_no_less_than_it_should_be(expected: str, quota: int, period: int) -> None:
    assert expected == properties([Setting("cpu", "cpu.max", f"{quota} {period}")])["CPUQuota"]


@pytest.mark.parametrize(
    ("expected", "version"),
    [
        pytest.param({"CPUQuota", "CPUQuotaPeriodSec", "AllowedCPUs"}, 244, id="all"),
        pytest.param({"CPUQuota", "CPUQuotaPeriodSec"}, 243, id="no CPUs"),
        pytest.param({"CPUQuota"}, 241, id="nor periods"),
    ],
)
def test_an_older_systemd_is_only_asked_for_properties_that_it_has(expected: set[str], version: int) -> None:
    settings = [Setting("cpu", "cpu.max", "1000 50000"), Setting("cpuset", "cpuset.cpus", "0-3")]

    assert expected == properties(settings, version).keys()


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (252, "Version=252.38-1~deb12u1"),
        (257, "Version=257"),
        (239, "Version=239 (239-82.el8)"),
        (245, 'Version="v245.4-4ubuntu3"'),
        (NEWEST, "Version="),
        (NEWEST, "Version=devel"),
    ],
)
def test_version_of_systemd(expected: int, said: str) -> None:
    assert expected == version_of(said)


def test_what_systemd_does_not_know_it_is_not_told() -> None:
    assert {} == properties([Setting("hugetlb", "hugetlb.2MB.max", "0")])
