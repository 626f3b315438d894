"""The limits of cgroups whose resources are reserved from pods, row by row."""

import pytest

from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.containers.reserved_cgroups import ReservedCgroup, reserved_settings

GIB = 1024**3
ALL = {"cpu": 500, "memory": GIB, "pid": 900, "ephemeral-storage": GIB}


def reserved(amounts: dict[str, int], *, compressible: bool = False) -> ReservedCgroup:
    return ReservedCgroup("System", "/system.slice", amounts, only_compressible=compressible)


@pytest.mark.parametrize(
    ("expected", "version", "qos", "it"),
    [
        pytest.param(
            {"cpu.shares": "512", "memory.limit_in_bytes": str(GIB), "pids.max": "900"}, 1, True, reserved(ALL), id="v1"
        ),
        pytest.param(
            {"cpu.weight": "20", "memory.max": str(GIB), "pids.max": "900", "memory.min": str(GIB)},
            2,
            True,
            reserved(ALL),
            id="v2, protected from reclaim",
        ),
        pytest.param(
            {"cpu.weight": "20", "memory.max": str(GIB), "pids.max": "900"},
            2,
            False,
            reserved(ALL),
            id="v2, without Memory QoS",
        ),
        pytest.param({"cpu.weight": "20"}, 2, True, reserved(ALL, compressible=True), id="CPU time alone"),
        pytest.param({"pids.max": "900"}, 2, True, reserved({"pid": 900}), id="others are left alone"),
        pytest.param({}, 2, True, reserved({"memory": GIB}, compressible=True), id="no CPU time is reserved"),
    ],
)
def test_limits_of_a_cgroup_are_the_amounts_reserved_for_it(
    expected: dict[str, str], version: int, qos: bool, it: ReservedCgroup
) -> None:
    facts = NodeFacts("n", cgroup_version=version, memory=MemoryRules(qos=qos))

    assert expected == {setting.file: setting.value for setting in reserved_settings(it, facts)}


@pytest.mark.parametrize(
    ("expected", "driver", "path"),
    [
        (("system.slice",), "systemd", "/system.slice"),
        (("system.slice",), "systemd", "system"),
        (("kube.slice", "kube-reserved.slice"), "systemd", "/kube.slice/kube-reserved.slice"),
        (("kube", "reserved"), "cgroupfs", "/kube/reserved/"),
        (("system.slice",), "cgroupfs", "system.slice"),
    ],
)
def test_path_of_a_reserved_cgroup_in_the_spelling_of_the_driver(
    expected: tuple[str, ...], driver: str, path: str
) -> None:
    assert expected == ReservedCgroup("System", path, ALL).parts(driver)
