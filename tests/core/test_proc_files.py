"""The machine as /proc has it."""

from __future__ import annotations

import pytest

from trikubelet.core.eviction.observations import observe
from trikubelet.core.eviction.thresholds import MEMORY
from trikubelet.core.stats.proc_files import PRESSURE_FILES, disks, interfaces, machine, of_machine, primary
from trikubelet.model.stats_snapshot import NodeUsed
from trikubelet.model.usage import Disk, Interface, NodeGauges, Pressure, Stall, Usage

TEXTS = {
    "stat": b"cpu  100 20 30 4000 500 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 0\n"
    b"cpu1 1 2 3 4 5 6 7 8 9 0\nintr 5 6\nbtime 1700000000\n",
    "meminfo": b"MemTotal: 1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\nAnonPages: 50 kB\n"
    b"SwapTotal: 80 kB\nSwapFree: 30 kB\nHugePages_Total: 0\n",
    "vmstat": b"pgfault 77\npgmajfault 3\n",
    "loadavg": b"0.10 0.20 0.30 2/345 6789\n",
    "sys/kernel/pid_max": b"32768\n",
    "sys/kernel/threads-max": b"62000\n",
}
NET_DEV = b"""Inter-|   Receive                                                |  Transmit (cut)
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
  veth1: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0
  eth0:4274303002 158270 1 2 0 0 0 0 12278274 107701 3 4 0 0 0 0
"""
ETH0 = Interface("eth0", 4274303002, 158270, 1, 2, 12278274, 107701, 3, 4)
ENS3 = ETH0._replace(name="ens3")
VETH = Interface("veth1", 1, 2, 3, 4, 5, 6, 7, 8)


def test_the_machine_is_read_and_time_in_which_nothing_was_done_is_not_used() -> None:
    usage = Usage(
        at_ns=9,
        cpu_ns=(100 + 20 + 30 + 6 + 7 + 8) * 10_000_000,
        memory_bytes=600 * 1024,
        working_set_bytes=500 * 1024,
        rss_bytes=50 * 1024,
        faults=77,
        major_faults=3,
        swap_bytes=50 * 1024,
        processes=345,
    )
    wanted = NodeGauges(usage, 1000 * 1024, 80 * 1024, 2, 1_700_000_000 * 10**9, 32768, (ETH0,))
    assert wanted == machine(TEXTS, 9, (ETH0,))


def test_preallocated_huge_pages_are_not_available() -> None:
    """The kernel takes them out of the free memory, and no process has them in its set yet."""
    reserved = TEXTS["meminfo"].replace(b"MemFree: 400 kB", b"MemFree: 300 kB").replace(b"Total: 0", b"Total: 1")
    node = NodeUsed("n", machine(TEXTS, 9)), NodeUsed("n", machine({**TEXTS, "meminfo": reserved}, 9))
    assert [500 * 1024, 400 * 1024] == [observe(one)[MEMORY].available for one in node]


@pytest.mark.parametrize("name", TEXTS)
def test_a_machine_without_one_of_the_files_is_none(name: str) -> None:
    with pytest.raises((KeyError, ValueError, IndexError)):
        machine(TEXTS | {name: b""}, 9)


DISKSTATS = b"""   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9
   8       0 sda 11 12 13 14 21 22 23 24 5 6 7 1 2 3 4
   8      16 sdb 0 0 0 0 0 0 0 0 0 0 0
 253       0 dm-0 1 0 8 1 0 0 0 0 0 1 1
"""


def test_disks_are_read_but_for_those_in_memory_or_files_and_those_that_did_nothing() -> None:
    sda = Disk("8:0", "sda", 11, 12, 13, 14, 21, 22, 23, 24, 5, 6, 7)
    assert (sda, Disk("253:0", "dm-0", 1, 0, 8, 1, 0, 0, 0, 0, 0, 1, 1)) == disks(DISKSTATS)
    assert () == disks(b"")


def test_interfaces_are_read_without_the_loopback() -> None:
    assert (VETH, ETH0) == interfaces(NET_DEV)
    assert () == interfaces(b"")


def test_the_pressure_of_the_machine_is_read_where_the_kernel_counts_it() -> None:
    some = b"some avg10=1.00 avg60=0.50 avg300=0.00 total=7\n"
    told = machine(TEXTS | {"pressure/cpu": some, "pressure/memory": some + some.replace(b"some", b"full")}, 9)

    stall, none = Stall(1.0, 0.5, 0.0, 7), Stall(0.0, 0.0, 0.0, 0)
    assert {"cpu": Pressure(stall, none), "memory": Pressure(stall, stall)} == told.usage.pressure
    assert {} == machine(TEXTS | dict.fromkeys(PRESSURE_FILES, b""), 9).usage.pressure


def test_the_machines_own_are_those_that_do_not_lead_to_a_pod_and_bridges_are_among_them() -> None:
    of_pods = tuple(VETH._replace(name=name) for name in ("veth1", "cali1", "lxc1", "docker0", "nerdctl0"))
    bridge = VETH._replace(name="cni0")

    assert (ETH0, bridge) == of_machine((*of_pods, ETH0, bridge))


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (ETH0, (VETH, ETH0)),
        (VETH, (VETH,)),
        (None, ()),
        (ENS3, (VETH._replace(name="cni0"), VETH._replace(name="flannel.1"), ENS3)),
        (ETH0, (ENS3, ETH0)),
    ],
)
def test_one_interface_stands_for_all(first: Interface | None, found: tuple[Interface, ...]) -> None:
    assert first == primary(found)
