"""The virtual machines themselves, without a kubelet: if these tests fail, look at the host first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vm.kit.qemu import Image, Shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vm.kit.machine import Machine


def test_machine_runs_systemd_on_cgroup_v2_with_apparmor(new_machine: Callable[..., Machine]) -> None:
    machine = new_machine()

    assert "running\n" == machine.run("systemctl is-system-running")
    assert "cgroup2fs\n" == machine.run("stat --file-system --format=%T /sys/fs/cgroup")
    assert "Y\n" == machine.run("cat /sys/module/apparmor/parameters/enabled")
    assert "trixie\n" == machine.run(". /etc/os-release && echo $VERSION_CODENAME")


def test_machine_has_the_shape_that_was_asked_for(
    new_machine: Callable[..., Machine], image: Image, disks: Path
) -> None:
    second = image.empty_disk(disks / "second.qcow2", 64)
    machine = new_machine(Shape(cpus=4, numa_nodes=2, second_disk=second))

    listed = json.loads(machine.run("lscpu --json --extended=cpu,node"))["cpus"]
    assert [(0, 0), (1, 0), (2, 1), (3, 1)] == [(one["cpu"], one["node"]) for one in listed]
    assert f"{64 * 1024 * 1024}\n" == machine.run("blockdev --getsize64 /dev/vdb")


def test_cut_power_loses_unwritten_data_and_keeps_flushed_data(new_machine: Callable[..., Machine]) -> None:
    machine = new_machine()
    machine.run("sysctl vm.dirty_writeback_centisecs=0")  # nothing is written because time has passed
    machine.run("echo kept >/root/flushed && sync && echo lost >/root/unwritten")

    machine.cut_power()
    machine.start()

    assert "kept\n" == machine.run("cat /root/flushed")
    assert "" == machine.run("cat /root/unwritten 2>/dev/null || true")


def test_machines_do_not_see_what_another_has_written(new_machine: Callable[..., Machine]) -> None:
    first = new_machine()
    first.run("touch /root/written && sync")
    first.power_off()

    assert "absent\n" == new_machine().run("ls /root/written 2>/dev/null || echo absent")
