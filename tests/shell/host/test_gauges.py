"""What is read of the kernel: cgroup trees of both versions and /proc as directories of plain files."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.test_cgroup_files import V1, V2
from core.test_proc_files import ETH0, NET_DEV, TEXTS, VETH
from shell.localkit import NOW_NS, StoppedClock
from trikubelet.core.stats.cgroup_files import usage
from trikubelet.host.clock import SystemClock
from trikubelet.host.gauges import HostGauges
from trikubelet.model.usage import Depth, PodGauges, PodPlace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trikubelet.model.usage import Interface

OF_V1 = ("cpuacct", "cpu", "memory", "pids", "blkio")
POD = "kubepods/podu1"


class Machine:
    """A machine below a directory, with cgroups of a version."""

    def __init__(self, root: Path, version: int) -> None:
        self.root, self.version = root, version
        self.proc = root / "proc"
        lines = [f"1 1 0:1 / {root}/unified rw - cgroup2 cgroup2 rw"]
        if version == 1:
            lines = [f"1 1 0:1 / {root}/{name} rw - cgroup cgroup rw,{name}" for name in OF_V1]
        (root / "unified").mkdir()
        (root / "unified/cgroup.controllers").write_text("cpu memory pids io")
        (root / "mountinfo").write_text("\n".join(lines))
        for name, text in TEXTS.items():
            self._write(self.proc / name, text)
        self.process("self", net="net:[1]")
        self._write(self.proc / "self/cgroup", b"3:cpu,cpuacct:/agent\n2:memory:/other\n0::/unified-agent\n")

    def _write(self, path: Path, text: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    def file(self, name: str, text: bytes) -> None:
        """A file below /proc."""
        self._write(self.proc / name, text)

    def process(self, pid: int | str, net: str) -> None:
        """A process in a network namespace."""
        self._write(self.proc / f"{pid}/net/dev", NET_DEV)
        (self.proc / f"{pid}/ns").mkdir()
        (self.proc / f"{pid}/ns/net").symlink_to(net)

    def cgroup(self, path: str, texts: Mapping[str, bytes], *pids: int) -> None:
        """A cgroup with these files."""
        procs = "".join(f"{pid}\n" for pid in pids).encode()
        for name, text in {**texts, "cgroup.procs": procs}.items():
            tree = "unified"
            if self.version == 1:
                tree = "memory" if name == "cgroup.procs" else name.partition(".")[0]
            self._write(self.root / tree / path / name, text)

    def gauges(self) -> HostGauges:
        return HostGauges(StoppedClock(), self.root / "mountinfo", self.proc)


@pytest.fixture(params=[1, 2])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def texts_of(machine: Machine) -> dict[str, bytes]:
    return V1 if machine.version == 1 else V2


def test_pods_are_read_with_the_containers_that_have_a_cgroup_in_theirs(machine: Machine) -> None:
    texts = texts_of(machine)
    machine.process(77, net="net:[77]")
    machine.cgroup(POD, texts)
    machine.cgroup(f"{POD}/c1", texts)
    machine.cgroup(f"{POD}/cri-containerd-c2.scope", texts)
    machine.cgroup(f"{POD}/box", texts, 77)
    places = [PodPlace(("kubepods", "podu1"), "box", ("c1", "c2", "c3")), PodPlace(("kubepods", "podu2"), "", ("c9",))]

    one = usage(machine.version, texts, NOW_NS)
    wanted = [PodGauges(one, {"c1": one, "c2": one}, (VETH, ETH0)), PodGauges(None, {})]
    assert wanted == machine.gauges().pods(places, Depth.METRICS)


def test_of_the_load_networks_are_not_read_nor_what_only_metrics_have(machine: Machine) -> None:
    machine.process(77, net="net:[77]")
    machine.cgroup(POD, texts_of(machine))
    machine.cgroup(f"{POD}/box", texts_of(machine), 77)

    (found,) = machine.gauges().pods([PodPlace(("kubepods", "podu1"), "box", ())], Depth.LOAD)
    assert found.pod is not None
    assert ((), 8_000_000, None, ()) == (found.interfaces, found.pod.memory_bytes, found.pod.peak_bytes, found.pod.io)


def test_a_sandbox_without_a_process_has_the_network_of_a_container(machine: Machine) -> None:
    machine.process(77, net="net:[77]")
    machine.cgroup(POD, texts_of(machine))
    machine.cgroup(f"{POD}/crio-box", texts_of(machine))
    machine.cgroup(f"{POD}/crio-c1", texts_of(machine), 77)

    (found,) = machine.gauges().pods([PodPlace(("kubepods", "podu1"), "box", ("c1",))], Depth.SUMMARY)
    assert ({"c1"}, (VETH, ETH0)) == (found.containers.keys(), found.interfaces)


@pytest.mark.parametrize(("pids", "interfaces"), [((), ()), ((78,), (ETH0,)), ((79,), ())])
def test_a_pod_on_the_nodes_network_has_the_nodes_interfaces_and_one_without_a_process_has_none(
    machine: Machine, pids: tuple[int, ...], interfaces: tuple[Interface, ...]
) -> None:
    machine.process(78, net="net:[1]")  # 79 has just ended
    machine.cgroup(POD, texts_of(machine))
    machine.cgroup(f"{POD}/box", texts_of(machine), *pids)

    (found,) = machine.gauges().pods([PodPlace(("kubepods", "podu1"), "box", ())], Depth.SUMMARY)
    assert interfaces == found.interfaces


def test_a_cgroup_is_found_by_its_path_and_the_agents_own_is_known(machine: Machine) -> None:
    machine.cgroup("agent", texts_of(machine))

    wanted = usage(machine.version, texts_of(machine), NOW_NS)
    assert wanted == machine.gauges().cgroup("/agent", Depth.METRICS)
    assert machine.gauges().cgroup("/nobody", Depth.METRICS) is None
    assert ("/agent" if machine.version == 1 else "/unified-agent") == machine.gauges().own_cgroup()


def test_the_pressure_on_the_machine_is_read_but_for_the_load(machine: Machine) -> None:
    for name in ("cpu", "memory", "io"):
        machine.file(f"pressure/{name}", b"some avg10=1.50 avg60=0.25 avg300=0.00 total=77\n")

    wanted = [set(), *[{"cpu", "memory", "io"}] * 3]
    assert wanted == [set(machine.gauges().node(depth).usage.pressure) for depth in Depth]


def test_the_machine_is_read_and_one_that_cannot_be_is_an_error(machine: Machine) -> None:
    assert ((ETH0,), 2, NOW_NS) == (
        (found := machine.gauges().node(Depth.SUMMARY)).interfaces, found.processors, found.usage.at_ns
    )  # fmt: skip
    assert replace(found.usage) == machine.gauges().node(Depth.LOAD).usage
    (machine.proc / "meminfo").unlink()
    with pytest.raises(OSError, match="cannot parse"):
        machine.gauges().node(Depth.LOAD)


def test_what_a_file_has_beyond_one_reading_is_read_too(machine: Machine) -> None:
    texts = texts_of(machine)
    devices = b"".join(b"7:%d rbytes=1 wbytes=0 rios=1 wios=0\n" % number for number in range(1000))
    if machine.version == 1:
        devices = b"".join(b"7:%d Read 1\n" % number for number in range(2000))
    name = "blkio.throttle.io_service_bytes_recursive" if machine.version == 1 else "io.stat"
    machine.cgroup("agent", {**texts, name: devices})

    found = machine.gauges().cgroup("agent", Depth.METRICS)
    assert found is not None
    assert devices.count(b"\n") <= len(found.io)


def test_cores_and_sockets_are_counted_by_processors(machine: Machine, tmp_path: Path) -> None:
    for number, (socket, core) in enumerate([(0, 0), (0, 0), (0, 1), (1, 0)]):
        topology = tmp_path / f"cpu/cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
        (topology / "core_id").write_text(f"{core}\n")
    told = HostGauges(StoppedClock(), machine.root / "mountinfo", machine.proc, tmp_path / "cpu").node(Depth.METRICS)

    assert (3, 2) == (told.cores, told.sockets)


def test_this_machine_can_be_read() -> None:
    gauges = HostGauges(SystemClock())

    assert gauges.node(Depth.SUMMARY).memory_total_bytes > 0
    assert gauges.own_cgroup().startswith("/")


# ---- disks ----


def test_a_directory_counts_what_is_below_it_once_and_follows_nothing(machine: Machine, tmp_path: Path) -> None:
    gauges, place = machine.gauges(), tmp_path / "volume"
    elsewhere = tmp_path / "elsewhere"
    for directory in (place / "deep", elsewhere):
        directory.mkdir(parents=True)
    empty = gauges.directory(str(place))
    (elsewhere / "large").write_bytes(b"x" * 100_000)
    (place / "deep/a").write_bytes(b"x" * 10_000)
    os.link(place / "deep/a", place / "again")
    (place / "out").symlink_to(elsewhere)

    found = gauges.directory(str(place))
    size = os.stat(place / "deep/a").st_blocks * 512
    link = os.lstat(place / "out").st_blocks * 512
    assert (empty.used_bytes or 0) + size + link == found.used_bytes
    assert (2, 4) == (empty.inodes_used, found.inodes_used)
    assert gauges.disk(str(tmp_path)).capacity_bytes == found.capacity_bytes


def test_files_count_with_their_blocks_whether_one_or_all_of_a_directory(machine: Machine, tmp_path: Path) -> None:
    gauges, place = machine.gauges(), tmp_path / "containers"
    place.mkdir()
    (place / "0").write_bytes(b"x" * 10_000)
    (place / "1").write_bytes(b"x" * 100_000)
    (place / "out").symlink_to(place / "1")
    (place / "below").mkdir()
    os.truncate(place / "0", 1 << 30)  # a hole takes no space

    one, both = gauges.files(str(place / "0")), gauges.files(str(place))
    assert (os.stat(place / "0").st_blocks * 512, 1) == (one.used_bytes, one.inodes_used)
    assert ((one.used_bytes or 0) + os.stat(place / "1").st_blocks * 512, 2) == (both.used_bytes, both.inodes_used)
    assert 0 == gauges.files(str(place / "out")).used_bytes
    with pytest.raises(OSError, match="none"):
        gauges.files(str(place / "none"))


def test_a_disk_is_called_as_its_mount_says(machine: Machine, tmp_path: Path) -> None:
    number = os.stat(tmp_path).st_dev
    assert "" == machine.gauges().device(str(tmp_path))
    with (machine.root / "mountinfo").open("a") as mounts:
        mounts.write(f"\n9 1 {os.major(number)}:{os.minor(number)} / /a\rb rw shared:1 - ext4 /dev/sda1 rw\n")

    assert "/dev/sda1" == machine.gauges().device(str(tmp_path))


def test_a_mount_of_its_own_is_told_as_its_file_system(machine: Machine) -> None:
    gauges = machine.gauges()

    assert gauges.disk("/proc") == gauges.directory("/proc")


def test_a_device_is_not_told_as_the_file_system_its_node_is_on(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "device").touch()

    for path in ("/dev/null", str(tmp_path / "device")):
        with pytest.raises(NotADirectoryError, match=path):
            machine.gauges().directory(path)


def test_a_directory_that_is_not_there_is_an_error(machine: Machine) -> None:
    with pytest.raises(FileNotFoundError):
        machine.gauges().directory(str(machine.root / "none"))
