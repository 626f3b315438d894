"""The kernel's files of one cgroup, as two kernels write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trikubelet.core.stats.cgroup_files import container_cgroup, files, usage
from trikubelet.model.usage import Depth, DeviceIo, Pressure, Stall, Usage

V1_STAT = b"""cache 1
rss 2
swap 9
hierarchical_memory_limit 4096000
hierarchical_memsw_limit 4096000
total_cache 3000000
total_rss 4000000
total_mapped_file 500000
total_pgfault 700
total_pgmajfault 8
total_inactive_file 1000000
total_active_file 400000
"""
V1 = {
    "cpuacct.usage": b"1234567890\n",
    "cpuacct.stat": b"user 100\nsystem 23\n",
    "cpu.stat": b"nr_periods 10\nnr_throttled 3\nthrottled_time 250000000\nnr_bursts 4\nburst_time 5000000\n",
    "memory.usage_in_bytes": b"8000000\n",
    "memory.stat": V1_STAT,
    "memory.limit_in_bytes": b"67108864\n",
    "memory.memsw.limit_in_bytes": b"67109888\n",
    "memory.max_usage_in_bytes": b"9000000\n",
    "memory.kmem.usage_in_bytes": b"200000\n",
    "memory.failcnt": b"12\n",
    "memory.oom_control": b"oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "pids.current": b"5\n",
    "pids.max": b"1024\n",
    "blkio.throttle.io_service_bytes_recursive": b"8:0 Read 4096\n8:0 Write 512\n8:0 Total 4608\nTotal 4608\n",
    "blkio.throttle.io_serviced_recursive": b"8:0 Read 2\n8:0 Write 1\n8:0 Total 3\nTotal 3\n",
}
V2 = {
    "cpu.stat": b"usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n"
    b"nr_periods 10\nnr_throttled 3\nthrottled_usec 250000\nnr_bursts 4\nburst_usec 5000\n",
    "memory.current": b"8000000\n",
    "memory.stat": b"anon 4000000\nfile 3000000\nfile_mapped 500000\ninactive_file 1000000\n"
    b"active_file 400000\npgfault 700\npgmajfault 8\nkernel 200000\n",
    "memory.max": b"67108864\n",
    "memory.swap.current": b"4096\n",
    "memory.peak": b"9000000\n",
    "memory.swap.max": b"67109888\n",
    "memory.events": b"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n",
    "pids.current": b"5\n",
    "pids.max": b"1024\n",
    "cpu.pressure": b"some avg10=1.50 avg60=0.25 avg300=0.00 total=77\n",
    "memory.pressure": b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
    b"full avg10=0.50 avg60=0.00 avg300=0.00 total=2\n",
    "io.stat": b"8:0 rbytes=4096 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n7:0 \n",
}
BOTH = {
    "at_ns": 42,
    "memory_bytes": 8_000_000,
    "working_set_bytes": 7_000_000,
    "rss_bytes": 4_000_000,
    "faults": 700,
    "major_faults": 8,
    "limit_bytes": 64 << 20,
    "processes": 5,
    "periods": 10,
    "throttled_periods": 3,
    "throttled_ns": 250_000_000,
    "burst_periods": 4,
    "burst_ns": 5_000_000,
    "threads_max": 1024,
    "active_file_bytes": 400_000,
    "inactive_file_bytes": 1_000_000,
    "cache_bytes": 3_000_000,
    "mapped_bytes": 500_000,
    "peak_bytes": 9_000_000,
    "kernel_bytes": 200_000,
    "swap_limit_bytes": (64 << 20) + 1024,
    "limit_hits": 12,
    "oom_kills": 2,
}
NOTHING = Stall(0.0, 0.0, 0.0, 0)


def test_version_1_is_read_whole() -> None:
    wanted = Usage(
        **BOTH,
        cpu_ns=1_234_567_890,
        user_ns=1_000_000_000,
        system_ns=230_000_000,
        io=(DeviceIo("8:0", 4096, 512, 2, 1),),
    )
    assert wanted == usage(1, V1, 42)


def test_version_2_is_read_whole() -> None:
    wanted = Usage(
        **BOTH,
        cpu_ns=1_234_567_000,
        user_ns=1_000_000_000,
        system_ns=234_567_000,
        swap_bytes=4096,
        pressure={
            "cpu": Pressure(Stall(1.5, 0.25, 0.0, 77), NOTHING),
            "memory": Pressure(Stall(0.0, 0.0, 0.0, 1), Stall(0.5, 0.0, 0.0, 2)),
        },
        io=(DeviceIo("8:0", 4096, 512, 2, 1), DeviceIo("7:0", 0, 0, 0, 0)),
    )
    assert wanted == usage(2, V2, 42)


@pytest.mark.parametrize(("version", "texts"), [(1, V1), (2, V2)])
def test_where_nothing_is_limited_nothing_is_throttled_and_no_limit_is_hit(
    version: int, texts: dict[str, bytes]
) -> None:
    read = files(version, Depth.METRICS, frozenset())
    found = usage(version, {name: texts[name] for _, name in read if name in texts}, 42, frozenset())

    whole = usage(version, texts, 42)
    assert whole is not None
    hits = 0 if version == 1 else whole.limit_hits
    limits = {} if version == 2 else {"limit_bytes": None, "swap_limit_bytes": None}
    throttling = ("periods", "throttled_periods", "throttled_ns", "burst_periods", "burst_ns")
    assert replace(whole, **dict.fromkeys(throttling), limit_hits=hits, **limits) == found
    assert (4, 0)[version - 1] == len(files(version, Depth.METRICS)) - len(read), "version 1 has files for that alone"


@pytest.mark.parametrize(
    ("version", "texts", "name", "value"),
    [
        (1, V1 | {"memory.limit_in_bytes": b"9223372036854771712\n"}, "limit_bytes", None),
        (2, V2 | {"memory.max": b"max\n"}, "limit_bytes", None),
        (1, V1 | {"memory.usage_in_bytes": b"10\n"}, "working_set_bytes", 0),
        (2, V2 | {"memory.current": b"10\n"}, "working_set_bytes", 0),
        (1, V1 | {"memory.stat": V1_STAT + b"total_swap 11\n"}, "swap_bytes", 11),
        (1, {name: V1[name] for name in ("cpuacct.usage", "memory.usage_in_bytes", "memory.stat")}, "user_ns", None),
        (2, {name: V2[name] for name in ("cpu.stat", "memory.current", "memory.stat")}, "pressure", {}),
        (2, V2 | {"cpu.stat": b"usage_usec 1\nuser_usec 1\nsystem_usec 0\n"}, "throttled_ns", None),
        (2, V2 | {"pids.current": b""}, "processes", None),
        (1, V1 | {"pids.max": b"max\n"}, "threads_max", None),
        (2, V2 | {"pids.max": b"max\n"}, "threads_max", None),
        (2, V2 | {"cpu.stat": b"usage_usec 1\nuser_usec 1\nsystem_usec 0\n"}, "burst_ns", None),
        (2, V2 | {"memory.events": b""}, "oom_kills", None),
        (1, V1 | {"memory.oom_control": b"oom_kill_disable 0\nunder_oom 0\n"}, "oom_kills", None),
        (1, V1 | {"memory.memsw.limit_in_bytes": b"9223372036854771712\n"}, "swap_limit_bytes", None),
        (1, V1 | {"memory.memsw.limit_in_bytes": b""}, "swap_limit_bytes", None),
        (2, V2 | {"memory.swap.max": b"max\n"}, "swap_limit_bytes", None),
    ],
)
def test_what_is_not_told_is_not_zero(version: int, texts: dict[str, bytes], name: str, value: object) -> None:
    found = usage(version, {file: text for file, text in texts.items() if text}, 42)

    assert found is not None
    assert value == getattr(found, name)


@pytest.mark.parametrize(
    ("version", "texts"),
    [
        (1, {}),
        (2, {}),
        (1, {name: text for name, text in V1.items() if name != "cpuacct.usage"}),
        (2, {name: text for name, text in V2.items() if name != "memory.current"}),
        (2, V2 | {"cpu.stat": b"usage_usec"}),
        (2, V2 | {"memory.stat": b"anon 1\n"}),
    ],
)
def test_a_cgroup_that_goes_while_it_is_read_is_none(version: int, texts: dict[str, bytes]) -> None:
    assert usage(version, texts, 42) is None


def test_the_deeper_the_look_the_more_files_and_where_there_are_no_cgroups_none() -> None:
    for version in (1, 2):
        counts = [len(files(version, depth)) for depth in Depth]
        assert sorted(counts) == counts
    assert {name for _, name in files(1, Depth.METRICS)} == V1.keys()
    assert {name for _, name in files(2, Depth.METRICS)} == {*V2, "io.pressure"}
    assert () == files(0, Depth.METRICS)


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ("abc", ["cgroup.procs", "def", "abc"]),
        ("cri-containerd-abc.scope", ["cpu.stat", "cri-containerd-def.scope", "cri-containerd-abc.scope"]),
        ("crio-abc.scope", ["crio-conmon-abc.scope", "crio-abcd.scope", "crio-abc.scope"]),
        ("crio-abc", ["crio-conmon-abc", "crio-abcd", "crio-abc"]),
        (None, ["xabc", "abc.scope", "abcd", "crio-conmon-abc"]),
    ],
)
def test_a_containers_cgroup_is_called_after_it(found: str | None, names: list[str]) -> None:
    assert found == container_cgroup(names, "abc")
