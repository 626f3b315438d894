"""What the kernel was told of a container runtime's pods: files of their cgroups, in either version of those.

Called by the tests of resources, which believe neither the agent nor the runtime.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trikubelet.host.cgroups import read_hierarchies

if TYPE_CHECKING:
    from pathlib import Path

    from .daemon import Daemon


_LOOKS_MAX = 100


def told(daemon: Daemon, below: str, *words: str) -> list[str]:
    """What stands in files of its pods' cgroups: their paths begin as ``below`` says and end in one of ``words``, or in
    that and what version 1 adds (``memory.limit_in_bytes``)."""
    parent = daemon.cgroup_parent.strip("/")
    ends = (*words, *(f"{word}_in_bytes" for word in words))
    found = (path for tree in read_hierarchies().trees for path in _matching(tree, f"{parent}/{below}*"))
    return [path.read_text().strip() for path in found if path.name.partition(".")[2] in ends]


def limits(daemon: Daemon, part: str) -> tuple[int, int]:
    """The millicores and the MiB that a cgroup is limited to, of which the directory's name has this part. It must have
    a limit of processors."""
    hierarchies = read_hierarchies()
    quota, period = (
        _read(daemon, "cpu", part, "cpu.max").split()
        if hierarchies.version == 2
        else (_read(daemon, "cpu", part, name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
    )
    return int(quota) * 1000 // int(period), memory_limit(daemon, part) >> 20


def memory_limit(daemon: Daemon, part: str) -> int:
    """The bytes that such a cgroup is limited to."""
    return int(_read(daemon, "memory", part, "memory.max", "memory.limit_in_bytes"))


def _read(daemon: Daemon, controller: str, part: str, *names: str) -> str:
    """The first of these files that there is."""
    tree = read_hierarchies().of[controller] / daemon.cgroup_parent.strip("/")
    (directory,) = (one for one in _matching(tree, f"**/*{part}*") if one.is_dir())
    return next((directory / name).read_text() for name in names if (directory / name).exists()).strip()


def _matching(tree: Path, pattern: str) -> list[Path]:
    """As `Path.glob`, which gives up where a cgroup goes during the look, as those of a pod that ends do."""
    for _ in range(_LOOKS_MAX):
        with suppress(FileNotFoundError):
            return list(tree.glob(pattern))
    return list(tree.glob(pattern))
