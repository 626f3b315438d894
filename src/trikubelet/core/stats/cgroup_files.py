"""The files of one cgroup, of either version, as a ``Usage``.

Which files there are to read depends on how much is wanted; whoever reads them gives their texts by name, and leaves
out those that could not be read. A cgroup without processor time is none: it went while it was read.

cgroups v1: Documentation/admin-guide/cgroup-v1/{memory,cpuacct}.rst; v2: Documentation/admin-guide/cgroup-v2.rst and
accounting/psi.rst of the kernel. The working set is cAdvisor's, which eviction and autoscaling go by
(upstream-behaviour.md §1.15, §1.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.usage import Depth, DeviceIo, Pressure, Stall, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

Texts = dict[str, bytes]
CONTROLLERS: Final = ("cpu", "cpuacct", "memory", "pids", "blkio")
"""Those of version 1 whose trees have files that are read."""
TICK_NS: Final = 10_000_000
"""Linux shows user time in hundredths of a second, whatever its own clock is."""
_WATCHERS: Final = "crio-conmon-"
UNLIMITED: Final = 1 << 62
"""From here on a limit of version 1 is none: it writes the largest number of pages there could be."""

PRESSED: Final = ("cpu", "memory", "io")
"""The kernel counts the pressure on these."""
LIMITABLE: Final = frozenset({"cpu", "memory"})
_V1_LIMIT: Final = "memory.limit_in_bytes"
_V1_SWAP_LIMIT: Final = "memory.memsw.limit_in_bytes"
_V1_LIMITS: Final = (("memory", _V1_LIMIT), ("memory", _V1_SWAP_LIMIT))
"""A cgroup's own limits. ``memory.stat`` has those that hold for it, which may be the limits of a cgroup above."""
_V1_OF_LIMITS: Final = frozenset({("cpu", "cpu.stat"), ("memory", "memory.failcnt"), *_V1_LIMITS})
"""They tell limits and how often one was met, and nothing else; by what is limited, which is the controller's name."""
_V1_LOAD: Final = (
    ("cpuacct", "cpuacct.usage"),
    ("memory", "memory.usage_in_bytes"),
    ("memory", "memory.stat"),
    *_V1_LIMITS,
)
_V1_METRICS: Final = (
    *_V1_LOAD,
    ("pids", "pids.current"),
    ("pids", "pids.max"),
    ("cpuacct", "cpuacct.stat"),
    ("cpu", "cpu.stat"),
    *(("memory", f"memory.{name}") for name in ("max_usage_in_bytes", "kmem.usage_in_bytes", "failcnt", "oom_control")),
    ("blkio", "blkio.throttle.io_service_bytes_recursive"),
    ("blkio", "blkio.throttle.io_serviced_recursive"),
)
_V2_LOAD: Final = tuple(
    ("", name)
    for name in ("cpu.stat", "memory.current", "memory.stat", "memory.max", "memory.swap.current", "memory.swap.max")
)
_V2_CPU_AND_MEMORY: Final = (*_V2_LOAD, ("", "cpu.pressure"), ("", "memory.pressure"))
_V2_SUMMARY: Final = (*_V2_CPU_AND_MEMORY, ("", "io.pressure"), ("", "pids.current"))
_FILES: Final = {
    (1, Depth.LOAD): _V1_LOAD,
    (1, Depth.CPU_AND_MEMORY): _V1_LOAD,
    (1, Depth.SUMMARY): (*_V1_LOAD, ("pids", "pids.current")),
    (1, Depth.METRICS): _V1_METRICS,
    (2, Depth.LOAD): _V2_LOAD,
    (2, Depth.CPU_AND_MEMORY): _V2_CPU_AND_MEMORY,
    (2, Depth.SUMMARY): _V2_SUMMARY,
    (2, Depth.METRICS): (
        *_V2_SUMMARY,
        *(("", name) for name in ("memory.peak", "memory.events", "io.stat", "pids.max")),
    ),
}


def files(version: int, depth: Depth, limited: Set[str] = LIMITABLE) -> tuple[tuple[str, str], ...]:
    """Controller and name of each file to read; with version 2 there is one tree, and no controller's name.
    ``limited``: which of ``LIMITABLE`` may be. Without a limit of processors nothing is ever throttled, and without one
    of memory none is hit."""
    found = _FILES.get((version, depth), ())
    return tuple(one for one in found if one not in _V1_OF_LIMITS or one[0] in limited)


def usage(version: int, texts: Mapping[str, bytes], at_ns: int, limited: Set[str] = LIMITABLE) -> Usage | None:
    """What the files say, None where they are no cgroup's. ``at_ns``: when they were read; ``limited``: as they were
    chosen by."""
    try:
        return _v1(texts, at_ns, limited) if version == 1 else _v2(texts, at_ns, limited)
    except (KeyError, ValueError):  # gone, or half gone, while it was read
        return None


def container_cgroup(names: Iterable[str], container_id: str) -> str | None:
    """Which child of a pod's cgroup is a container's: called by its id, by the runtime and it (``crio-ID``), or a scope
    of systemd's (``cri-containerd-ID.scope``, ``crio-ID.scope``). That of who watches a container (``crio-conmon-ID``)
    is none."""
    ends = (f"-{container_id}", f"-{container_id}.scope")
    return next(
        (name for name in names if name == container_id or (name.endswith(ends) and not name.startswith(_WATCHERS))),
        None,
    )


def _v1(texts: Mapping[str, bytes], at_ns: int, limited: Set[str]) -> Usage:
    memory, usage_bytes = _Pairs(texts["memory.stat"]), int(texts["memory.usage_in_bytes"])
    cpu, cpuacct = _Pairs(texts.get("cpu.stat", b"")), _Pairs(texts.get("cpuacct.stat", b""))
    return Usage(
        at_ns=at_ns,
        cpu_ns=int(texts["cpuacct.usage"]),
        memory_bytes=usage_bytes,
        working_set_bytes=max(0, usage_bytes - memory[b"total_inactive_file"]),
        rss_bytes=memory[b"total_rss"],
        faults=memory[b"total_pgfault"],
        major_faults=memory[b"total_pgmajfault"],
        swap_bytes=memory.get(b"total_swap"),  # only where swap is accounted for
        limit_bytes=_v1_limit(texts, _V1_LIMIT),
        swap_limit_bytes=_v1_limit(texts, _V1_SWAP_LIMIT),
        processes=_number(texts, "pids.current"),
        user_ns=_ticks_ns(cpuacct.get(b"user")),
        system_ns=_ticks_ns(cpuacct.get(b"system")),
        periods=cpu.get(b"nr_periods"),
        throttled_periods=cpu.get(b"nr_throttled"),
        throttled_ns=cpu.get(b"throttled_time"),
        burst_periods=cpu.get(b"nr_bursts"),  # since Linux 5.14
        burst_ns=cpu.get(b"burst_time"),
        threads_max=_number(texts, "pids.max"),
        active_file_bytes=memory.get(b"total_active_file"),
        inactive_file_bytes=memory[b"total_inactive_file"],
        cache_bytes=memory[b"total_cache"],
        mapped_bytes=memory[b"total_mapped_file"],
        peak_bytes=_number(texts, "memory.max_usage_in_bytes"),
        kernel_bytes=_number(texts, "memory.kmem.usage_in_bytes"),
        limit_hits=_number(texts, "memory.failcnt") if "memory" in limited else 0,
        oom_kills=_Pairs(texts.get("memory.oom_control", b"")).get(b"oom_kill"),
        io=_blkio(
            texts.get("blkio.throttle.io_service_bytes_recursive", b""),
            texts.get("blkio.throttle.io_serviced_recursive", b""),
        ),
    )


def _v2(texts: Mapping[str, bytes], at_ns: int, limited: Set[str]) -> Usage:
    memory, usage_bytes = _Pairs(texts["memory.stat"]), int(texts["memory.current"])
    cpu = _Pairs(texts["cpu.stat"])
    quota = cpu if "cpu" in limited else _Pairs(b"")
    throttled, burst = quota.get(b"throttled_usec"), quota.get(b"burst_usec")
    events = _Pairs(texts.get("memory.events", b""))
    return Usage(
        at_ns=at_ns,
        cpu_ns=cpu[b"usage_usec"] * 1000,
        memory_bytes=usage_bytes,
        working_set_bytes=max(0, usage_bytes - memory[b"inactive_file"]),
        rss_bytes=memory[b"anon"],
        faults=memory[b"pgfault"],
        major_faults=memory[b"pgmajfault"],
        swap_bytes=_number(texts, "memory.swap.current"),
        limit_bytes=_number(texts, "memory.max"),
        swap_limit_bytes=_number(texts, "memory.swap.max"),
        pressure=pressures({name: texts.get(f"{name}.pressure", b"") for name in PRESSED}),
        processes=_number(texts, "pids.current"),
        user_ns=cpu[b"user_usec"] * 1000,
        system_ns=cpu[b"system_usec"] * 1000,
        periods=quota.get(b"nr_periods"),
        throttled_periods=quota.get(b"nr_throttled"),
        throttled_ns=None if throttled is None else throttled * 1000,
        burst_periods=quota.get(b"nr_bursts"),  # since Linux 5.14
        burst_ns=None if burst is None else burst * 1000,
        threads_max=_number(texts, "pids.max"),
        active_file_bytes=memory.get(b"active_file"),
        inactive_file_bytes=memory[b"inactive_file"],
        cache_bytes=memory[b"file"],
        mapped_bytes=memory[b"file_mapped"],
        peak_bytes=_number(texts, "memory.peak"),
        kernel_bytes=memory.get(b"kernel"),  # since Linux 5.18
        limit_hits=events.get(b"max"),
        oom_kills=events.get(b"oom_kill"),
        io=_io_stat(texts.get("io.stat", b"")),
    )


class _Pairs:
    """A file of lines of a name and a number. Of the forty in ``memory.stat`` eight are wanted: only those become
    numbers, for all of them take four times as long."""

    __slots__ = ("_texts",)

    def __init__(self, text: bytes) -> None:
        words = text.split()
        self._texts = dict(zip(words[::2], words[1::2], strict=True))

    def __getitem__(self, name: bytes) -> int:
        return int(self._texts[name])

    def get(self, name: bytes) -> int | None:
        """None where the kernel does not report it."""
        return int(self._texts[name]) if name in self._texts else None


def _ticks_ns(count: int | None) -> int | None:
    return None if count is None else count * TICK_NS


def _number(texts: Mapping[str, bytes], name: str) -> int | None:
    """A file of one number; None for one that says ``max``, or is not there."""
    text = texts.get(name, b"max").strip()
    return None if text == b"max" else int(text)


def _v1_limit(texts: Mapping[str, bytes], name: str) -> int | None:
    limit = _number(texts, name)
    return None if limit is None or limit >= UNLIMITED else limit


def pressures(texts: Mapping[str, bytes]) -> Mapping[str, Pressure]:
    """The pressure by what it is on, of which these are the texts; without what the kernel does not count."""
    found = ((name, _pressure(text)) for name, text in texts.items())
    return {name: one for name, one in found if one is not None}


def _blkio(amounts: bytes, operations: bytes) -> tuple[DeviceIo, ...]:
    """Lines such as ``8:0 Read 4096``; the last, ``Total 8192``, is of all devices."""
    of: dict[str, dict[str, int]] = {}
    for text, kind in ((amounts, "bytes"), (operations, "times")):
        for line in text.decode("ascii").splitlines():
            fields = line.split()
            if len(fields) == 3:
                of.setdefault(fields[0], {})[f"{fields[1]} {kind}"] = int(fields[2])
    names = ("Read bytes", "Write bytes", "Read times", "Write times")
    return tuple(DeviceIo(device, *(found.get(name, 0) for name in names)) for device, found in of.items())


def _io_stat(text: bytes) -> tuple[DeviceIo, ...]:
    """Lines such as ``8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0``."""
    found = []
    for line in text.decode("ascii").splitlines():
        device, *fields = line.split()
        values = {name: int(value) for name, _, value in (one.partition("=") for one in fields)}
        found.append(DeviceIo(device, *(values.get(name, 0) for name in ("rbytes", "wbytes", "rios", "wios"))))
    return tuple(found)


def _pressure(text: bytes) -> Pressure | None:
    """Lines such as ``some avg10=0.00 avg60=0.00 avg300=0.00 total=0``. The processor's has had no ``full`` in older
    kernels: nobody waits for all of it at once."""
    found: dict[str, Stall] = {}
    for line in text.decode("ascii").splitlines():
        kind, *fields = line.split()
        values = dict(one.split("=", 1) for one in fields)
        found[kind] = Stall(
            float(values["avg10"]), float(values["avg60"]), float(values["avg300"]), int(values["total"])
        )
    if "some" not in found:
        return None
    return Pressure(found["some"], found.get("full", Stall(0.0, 0.0, 0.0, 0)))
