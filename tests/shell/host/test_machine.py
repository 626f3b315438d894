"""The topology of a machine, read from trees of files made as sysfs has them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.machines import ALL, EPYC_7451, GIB, A, B, machine, write_sysfs
from trikubelet.host.machine import read_machine
from trikubelet.model.errors import StartFailed
from trikubelet.model.machine import Cpu, Machine, NumaNode

if TYPE_CHECKING:
    from pathlib import Path

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("name", ALL)
def test_machine_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    write_sysfs(tmp_path, ALL[name])
    assert ALL[name] == read_machine(tmp_path)


def test_this_machine_is_read() -> None:
    found = read_machine()
    assert {cpu.numa_node for cpu in found.cpus.values()} <= found.numa_nodes.keys()
    assert sum(node.memory_bytes for node in found.numa_nodes.values()) > 0


def test_offline_cpus_do_not_count_in_cores_and_caches(tmp_path: Path) -> None:
    write_sysfs(tmp_path, A)
    write(tmp_path / CPUS / "online", "1-7\n")
    found = read_machine(tmp_path)
    assert [1, 2, 3, 4, 5, 6, 7] == list(found.cpus)
    assert Cpu(core=4, socket=0, numa_node=0, uncore=1) == found.cpus[4]


@pytest.mark.parametrize("name", ["sys/fs/cgroup/cpuset.cpus.effective", "sys/fs/cgroup/cpuset/cpuset.effective_cpus"])
def test_only_cpus_that_the_cgroups_may_use_are_read(tmp_path: Path, name: str) -> None:
    write_sysfs(tmp_path, B)
    write(tmp_path / name, "2,4,8,10\n")
    found = read_machine(tmp_path)
    assert [2, 4, 8, 10] == list(found.cpus)
    assert [0, 1] == list(found.numa_nodes)  # the second one has memory


def test_cgroup_without_a_list_restricts_nothing(tmp_path: Path) -> None:
    write_sysfs(tmp_path, A)
    write(tmp_path / "sys/fs/cgroup/cpuset.cpus.effective", "\n")
    assert read_machine(tmp_path) == A


def test_kernel_without_numa_has_one_node(tmp_path: Path) -> None:
    write_sysfs(tmp_path, A)
    shutil.rmtree(tmp_path / NODES)
    write(tmp_path / "proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 5 kB\n")
    write(tmp_path / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n")
    assert Machine(A.cpus, {0: NumaNode(GIB, {2 * 1024**2: 3}, {0: 10})}) == read_machine(tmp_path)


def test_socket_stands_for_a_cache_that_is_not_shown(tmp_path: Path) -> None:
    write_sysfs(tmp_path, EPYC_7451)
    for cpu in EPYC_7451.cpus:
        shutil.rmtree(tmp_path / CPUS / f"cpu{cpu}/cache/index2")
    write(tmp_path / CPUS / "cpu5/cache/index9/level", "4\n")  # a level without the CPUs that share it
    assert {0, 24} == {cpu.uncore for cpu in read_machine(tmp_path).cpus.values()}


def test_machine_without_sockets_has_one(tmp_path: Path) -> None:
    write_sysfs(tmp_path, A)
    for cpu in A.cpus:
        write(tmp_path / CPUS / f"cpu{cpu}/topology/physical_package_id", "-1\n")
    assert read_machine(tmp_path) == A


def test_node_without_cpus_and_memory_is_left_out(tmp_path: Path) -> None:
    described = machine(cores=2, memory_gib={0: 1, 1: 0})
    write_sysfs(tmp_path, described)
    assert [0] == list(read_machine(tmp_path).numa_nodes)


def test_huge_pages_and_distances_belong_to_their_node(tmp_path: Path) -> None:
    nodes = {node: replace(memory, huge_pages={GIB: node + 1}) for node, memory in B.numa_nodes.items()}
    write_sysfs(tmp_path, replace(B, numa_nodes=nodes))
    found = read_machine(tmp_path).numa_nodes
    assert [{GIB: 1}, {GIB: 2}] == [node.huge_pages for node in found.values()]
    assert {0: 32, 1: 10} == found[1].distances


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (f"{CPUS}/online", "", "lists no CPU"),
        (f"{CPUS}/online", "0-x", "cpu/online: invalid part '0-x'"),
        (f"{CPUS}/cpu1/topology/physical_package_id", "one", "cpu1/topology/physical_package_id: invalid literal"),
        (f"{NODES}/node0/meminfo", "", "node0/meminfo has no MemTotal"),
    ],
)
def test_damaged_file_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    write_sysfs(tmp_path, A)
    write(tmp_path / name, text)
    with pytest.raises(StartFailed, match=f"^cannot read the topology of the machine: .*{message}"):
        read_machine(tmp_path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="cpu/online: No such file or directory"):
        read_machine(tmp_path)
