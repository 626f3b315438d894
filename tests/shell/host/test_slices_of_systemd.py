"""Slices of systemd: what its tool is asked for, and what is made of its answers."""

from pathlib import Path

import pytest

from shell.slicekit import Systemctl
from trikubelet.core.containers.cgroup_values import Setting
from trikubelet.host.slices import Slices

SHARE, MORE = Setting("cpu", "cpu.weight", "39"), Setting("cpu", "cpu.weight", "79")
LIMIT = Setting("memory", "memory.max", "1024")
KEPT = "CPUAccounting=yes IOAccounting=yes MemoryAccounting=yes TasksAccounting=yes"


@pytest.fixture
def systemctl(tmp_path: Path) -> Systemctl:
    return Systemctl(tmp_path)


async def test_a_slice_is_set_and_started_and_later_told_what_changed(systemctl: Systemctl) -> None:
    await systemctl.slices.hold("a.slice", [SHARE])
    assert [f"set-property --runtime a.slice {KEPT} CPUWeight=39", "start a.slice"] == systemctl.asked()

    await systemctl.slices.hold("a.slice", [SHARE])
    await systemctl.slices.hold("a.slice", [LIMIT])
    await systemctl.slices.hold("a.slice", [MORE])
    expected = ["set-property --runtime a.slice MemoryMax=1024", "set-property --runtime a.slice CPUWeight=79"]
    assert expected == systemctl.asked()


async def test_what_failed_is_reported_again(systemctl: Systemctl) -> None:
    systemctl.fail("Unknown assignment")
    with pytest.raises(OSError, match=r"systemctl set-property --runtime a\.slice .*Unknown assignment"):
        await systemctl.slices.hold("a.slice", [SHARE])
    systemctl.fail("")
    systemctl.asked()

    await systemctl.slices.hold("a.slice", [SHARE])
    assert 2 == len(systemctl.asked())


async def test_a_slice_that_is_released_leaves_nothing_and_can_come_again(systemctl: Systemctl) -> None:
    await systemctl.slices.hold("a.slice", [SHARE])
    (systemctl.control / "a.slice.d").mkdir(parents=True)
    (systemctl.control / "a.slice.d" / "50-CPUWeight.conf").write_text("")
    (systemctl.control / "b.slice.d").mkdir()
    systemctl.asked()
    await systemctl.slices.release("a.slice")
    assert ["stop a.slice"] == systemctl.asked()
    assert ["b.slice.d"] == [one.name for one in systemctl.control.iterdir()]

    await systemctl.slices.hold("a.slice", [SHARE])
    assert "start a.slice" in systemctl.asked()


async def test_a_slice_is_known_that_systemd_was_told_of_by_this_agent_or_another(systemctl: Systemctl) -> None:
    await systemctl.slices.hold("a.slice", [SHARE])
    (systemctl.control / "b.slice.d").mkdir(parents=True)
    units = ("a.slice", "b.slice", "c.slice")
    assert [True, True, False] == [systemctl.slices.is_known(unit) for unit in units]

    for unit in units:
        await systemctl.slices.release(unit)
    assert not any(systemctl.slices.is_known(unit) for unit in units)


async def test_one_that_systemd_does_not_have_is_released_already(systemctl: Systemctl) -> None:
    systemctl.fail("Failed to stop a.slice: Unit a.slice not loaded.")
    await systemctl.slices.release("a.slice")

    systemctl.fail("Failed to stop a.slice: Connection timed out")
    with pytest.raises(OSError, match="Connection timed out"):
        await systemctl.slices.release("a.slice")


async def test_a_machine_without_systemctl_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be started"):
        await Slices((str(tmp_path / "nothing"),), tmp_path).hold("a.slice", [])


async def test_an_older_systemd_is_not_asked_for_properties_it_does_not_have(systemctl: Systemctl) -> None:
    systemctl.set_version("239 (239-82.el8)")
    cpus = Setting("cpuset", "cpuset.cpus", "0-3")
    await systemctl.slices.hold("a.slice", [SHARE, cpus])
    assert [f"set-property --runtime a.slice {KEPT} CPUWeight=39", "start a.slice"] == systemctl.asked()


async def test_slices_below_one_are_not_stopped_before_their_services(systemctl: Systemctl) -> None:
    for _ in range(2):
        await systemctl.slices.loosen("a.slice")

    found = {path.relative_to(systemctl.units).as_posix() for path in systemctl.units.rglob("*.conf")}
    assert {"a.slice.d/10-trikubelet.conf", "a-.slice.d/10-trikubelet.conf"} == found
    for name in found:
        assert "[Unit]\nDefaultDependencies=no\n" in (systemctl.units / name).read_text()
