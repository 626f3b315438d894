"""Cgroups of the node's parts: the agent's own, and one for processes that would be in the root cgroup.

``kubeletCgroups`` and ``systemCgroups`` name them. Like upstream's, they are created if they do not exist, and limit
nothing: they exist so that ``/stats/summary`` can report the usage of the parts. With version 1 a process is moved in
the trees that account for usage, and in others only if the cgroup exists already. It is never moved in systemd's own
tree, because systemd uses that tree to stop units.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.stats.cgroup_files import CONTROLLERS
from trikubelet.host.cgroups import MOUNTINFO, hand_down, read_hierarchies

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC: Final = Path("/proc")
_OTHERS: Final = ("cpuset", "devices", "freezer", "hugetlb", "net_cls", "net_prio", "perf_event", "rdma")
_V2_CONTROLLERS: Final = ("cpu", "memory", "pids", "io")
PASSES_MAX: Final = 10
"""Processes that started while others were moved are found in the next pass."""
INIT_PID: Final = 1


class PartCgroups:
    """Moves processes between cgroups. Owns nothing: the cgroups are the kernel's."""

    def __init__(self, mountinfo: Path = MOUNTINFO, proc: Path = PROC) -> None:
        """Raises OSError if the kernel's list of trees cannot be read."""
        found = read_hierarchies(mountinfo, (*CONTROLLERS, *_OTHERS, "io"))
        self._proc = proc
        self._version = found.version
        self._handed_down = [name for name in _V2_CONTROLLERS if name in found.of]
        self._trees = [*found.trees[:1]] if found.version == 2 else [*dict.fromkeys(found.of.values())]
        self._accounting = {found.of[name] for name in CONTROLLERS if name in found.of}

    def enter(self, path: str) -> None:
        """Move this process to a cgroup. Raises OSError."""
        for tree in self._trees:
            if (directory := self._directory(tree, path)) is not None and os.getpid() not in _pids(directory):
                _move(os.getpid(), directory)

    def gather(self, path: str) -> None:
        """Move the processes of the root cgroup to another one, except process 1 and kernel threads. Tries all of them,
        then raises the last OSError."""
        failure: OSError | None = None
        for tree in self._trees:
            if (directory := self._directory(tree, path)) is None:
                continue
            for pid in self._movable(tree):
                try:
                    _move(pid, directory)
                except OSError as error:
                    failure = error
        if failure is not None:
            raise failure

    def _movable(self, tree: Path) -> Iterator[int]:
        tried = {INIT_PID}
        for _ in range(PASSES_MAX):
            new = [pid for pid in _pids(tree) if pid > 0 and pid not in tried]  # 0: another pid namespace
            if not new:
                return
            tried.update(new)
            yield from (pid for pid in new if self._has_program(pid))

    def _has_program(self, pid: int) -> bool:
        """False for kernel threads, and for processes that have just ended."""
        try:
            (self._proc / str(pid) / "exe").readlink()
        except FileNotFoundError:
            return False
        except OSError:  # unreadable, because it belongs to another user; kernel threads give FileNotFoundError
            return True
        return True

    def _directory(self, tree: Path, path: str) -> Path | None:
        """Return the cgroup's directory in a tree. It is created if the tree accounts for usage; in other trees None if
        it does not exist."""
        names = [name for name in path.split("/") if name]
        directory = tree.joinpath(*names)
        if self._version == 1 and tree not in self._accounting:
            return directory if directory.is_dir() else None
        made = tree
        for name in names:
            if self._version == 2:
                hand_down(made, self._handed_down)
            made /= name
            made.mkdir(mode=0o755, exist_ok=True)
        return directory


def _pids(directory: Path) -> list[int]:
    """Return the processes in a cgroup; empty if the cgroup has no list yet."""
    file = directory / "cgroup.procs"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def _move(pid: int, directory: Path) -> None:
    """Move a process to a cgroup. Raises OSError, which names the file; a process that has ended is no error."""
    file = directory / "cgroup.procs"
    with suppress(ProcessLookupError), file.open("a") as procs:
        procs.write(str(pid) + "\n")
