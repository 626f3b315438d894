"""Parses the files of one cgroup, of either version, into a ``Usage``.

The files to read depend on the wanted depth; the reader passes their texts by name, and leaves out unreadable ones. A
cgroup without CPU time does not count: it was removed while it was read.

cgroups v1: Documentation/admin-guide/cgroup-v1/{memory,cpuacct}.rst; v2: Documentation/admin-guide/cgroup-v2.rst and
accounting/psi.rst of the kernel. The working set is cAdvisor's, which eviction and autoscaling use
(upstream-behaviour.md §1.15, §1.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.usage import Depth, DeviceIo, Pressure, Stall, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

Texts = dict[str, bytes]
CONTROLLERS: Final = ("cpu", "cpuacct", "memory", "pids", "blkio")
"""The controllers of version 1 whose hierarchies have files that are read."""
TICK_NS: Final = 10_000_000
"""Linux reports user time in hundredths of a second, independent of its own clock."""
_WATCHERS: Final = "crio-conmon-"
UNLIMITED: Final = 1 << 62
"""A limit of version 1 of at least this much is none: the kernel writes the largest possible number of pages."""

PRESSED: Final = ("cpu", "memory", "io")
"""The resources for which the kernel counts pressure."""
LIMITABLE: Final = frozenset({"cpu", "memory"})
_V1_LIMIT: Final = "memory.limit_in_bytes"
_V1_SWAP_LIMIT: Final = "memory.memsw.limit_in_bytes"
_V1_LIMITS: Final = (("memory", _V1_LIMIT), ("memory", _V1_SWAP_LIMIT))
"""A cgroup's own limits. ``memory.stat`` has the effective ones, which may belong to a parent cgroup."""
_V1_OF_LIMITS: Final = frozenset({("cpu", "cpu.stat"), ("memory", "memory.failcnt"), *_V1_LIMITS})
"""Files that only contain limits and how often they were hit; by resource, which is the controller's name."""
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
    """Return controller and name of each file to read; version 2 has one hierarchy, and no controller's name.
    ``limited``: the resources of ``LIMITABLE`` that may be limited. Without a CPU limit there is no throttling, and a
    memory limit that does not exist is never hit."""
    found = _FILES.get((version, depth), ())
    return tuple(one for one in found if one not in _V1_OF_LIMITS or one[0] in limited)


def usage(version: int, texts: Mapping[str, bytes], at_ns: int, limited: Set[str] = LIMITABLE) -> Usage | None:
    """Return the usage in the files; None if they are no cgroup's. ``at_ns``: when they were read; ``limited``: as in
    ``files``."""
    try:
        return _v1(texts, at_ns, limited) if version == 1 else _v2(texts, at_ns, limited)
    except (KeyError, ValueError):  # removed, or partly removed, while it was read
        return None


def container_cgroup(names: Iterable[str], container_id: str) -> str | None:
    """Return the child of a pod's cgroup that belongs to a container; None if none does. Its name is the id, the
    runtime and the id (``crio-ID``), or a systemd scope (``cri-containerd-ID.scope``, ``crio-ID.scope``). The cgroup of
    a container's monitor (``crio-conmon-ID``) does not count."""
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
        swap_bytes=memory.get(b"total_swap"),  # only if swap accounting is on
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
    """A file of lines of a name and a number. ``memory.stat`` has forty, of which eight are needed: only those are
    converted, because converting all takes four times as long."""

    __slots__ = ("_texts",)

    def __init__(self, text: bytes) -> None:
        words = text.split()
        self._texts = dict(zip(words[::2], words[1::2], strict=True))

    def __getitem__(self, name: bytes) -> int:
        return int(self._texts[name])

    def get(self, name: bytes) -> int | None:
        """Return the number; None if the kernel does not report it."""
        return int(self._texts[name]) if name in self._texts else None


def _ticks_ns(count: int | None) -> int | None:
    return None if count is None else count * TICK_NS


def _number(texts: Mapping[str, bytes], name: str) -> int | None:
    """Return a file's only number; None if it is ``max``, or missing."""
    text = texts.get(name, b"max").strip()
    return None if text == b"max" else int(text)


def _v1_limit(texts: Mapping[str, bytes], name: str) -> int | None:
    limit = _number(texts, name)
    return None if limit is None or limit >= UNLIMITED else limit


def pressures(texts: Mapping[str, bytes]) -> Mapping[str, Pressure]:
    """Return the pressures by resource from these texts; without resources that the kernel does not count."""
    found = ((name, _pressure(text)) for name, text in texts.items())
    return {name: one for name, one in found if one is not None}


def _blkio(amounts: bytes, operations: bytes) -> tuple[DeviceIo, ...]:
    """Parse lines such as ``8:0 Read 4096``; the last, ``Total 8192``, is of all devices."""
    of: dict[str, dict[str, int]] = {}
    for text, kind in ((amounts, "bytes"), (operations, "times")):
        for line in text.decode("ascii").splitlines():
            fields = line.split()
            if len(fields) == 3:
                of.setdefault(fields[0], {})[f"{fields[1]} {kind}"] = int(fields[2])
    names = ("Read bytes", "Write bytes", "Read times", "Write times")
    return tuple(DeviceIo(device, *(found.get(name, 0) for name in names)) for device, found in of.items())


def _io_stat(text: bytes) -> tuple[DeviceIo, ...]:
    """Parse lines such as ``8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0``."""
    found = []
    for line in text.decode("ascii").splitlines():
        device, *fields = line.split()
        values = {name: int(value) for name, _, value in (one.partition("=") for one in fields)}
        found.append(DeviceIo(device, *(values.get(name, 0) for name in ("rbytes", "wbytes", "rios", "wios"))))
    return tuple(found)


def _pressure(text: bytes) -> Pressure | None:
    """Parse lines such as ``some avg10=0.00 avg60=0.00 avg300=0.00 total=0``. For CPU older kernels have no ``full``
    line, because system-wide it cannot happen."""
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
