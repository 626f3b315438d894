"""A limit of the number of processes in a container, if the machine supports it: the pids controller.

The kernel's per-user limit does not apply to root: a fork bomb in a container of an agent run as root needs a cgroup.
Each container gets one, below a cgroup of ours next to the agent's own; version 1 and 2 of cgroups both have the
controller. Without permission to make cgroups there is none, and RLIMIT_NPROC counts (``spec``), which applies to users
other than root. A killed agent leaves empty cgroups; the next one removes them: rmdir fails for a cgroup in use.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.host.mounts import parse_mountinfo, read_mountinfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.host.mounts import MountPoint

log = logging.getLogger(__name__)

PROCESSES_PER_CONTAINER_MAX = 1024
"""Far more than a pod of this machine's programs needs, far less than what would overload the machine."""
_PREFIX: Final = "trikubelet-embedded-"


def why_unlimited(proc: Path = Path("/proc")) -> str:
    """Return why an agent of this process's user cannot limit the processes of a container; "" if it can. Makes
    nothing. Raises OSError."""
    below = _below(proc)
    if below is None:
        return "no cgroup has the controller pids"
    return "" if os.access(below, os.W_OK, effective_ids=True) else f"{below} is not writable"


def _below(proc: Path) -> Path | None:
    """Return the cgroup in which one for the containers is made; None without the controller. Raises OSError."""
    # Names of cgroups are bytes to the kernel, like paths of mounts.
    cgroups = (proc / "self/cgroup").read_bytes().decode(errors="surrogateescape")
    return _own_cgroup(cgroups, parse_mountinfo(read_mountinfo(proc / "self/mountinfo")))


class ProcessLimits:
    """Owns the cgroups of this runtime's containers. Its calls write to a kernel file system and do not block."""

    def __init__(self, pid: int, processes_max: int, proc: Path = Path("/proc")) -> None:
        """``pid``: of the agent, part of the name. Never fails: without the controller there are no cgroups."""
        self._processes_max = processes_max
        self._root: Path | None = None
        try:
            below = _below(proc)
            if below is not None:
                _sweep(below, proc)
                self._root = _make(below / f"{_PREFIX}{pid}")
        except OSError as error:
            log.info("containers have no limit of processes but the user's: no pids cgroup (%s)", error)

    @property
    def available(self) -> bool:
        """True if containers get a limit of their own."""
        return self._root is not None

    def make(self, container_id: str) -> str:
        """Make a cgroup for one container and return its directory; empty if there is none."""
        if self._root is None:
            return ""
        try:
            made = self._root / container_id[:16]
            made.mkdir(exist_ok=True)
            (made / "pids.max").write_text(str(self._processes_max))
        except OSError as error:
            log.warning("no limit of the processes of container %s: %s", container_id, error)
            return ""
        return str(made)

    def remove(self, container_id: str) -> None:
        """Remove the cgroup of a container that has ended."""
        if self._root is not None:
            with suppress(OSError):  # one of its processes hangs in the kernel: the next agent removes it
                (self._root / container_id[:16]).rmdir()

    def close(self) -> None:
        """Remove the runtime's cgroup, because the runtime has ended."""
        if self._root is not None:
            _remove(self._root)
            self._root = None


def _own_cgroup(cgroups: str, mounts: Iterable[MountPoint]) -> Path | None:
    """Return the directory of this process's cgroup in the hierarchy with the pids controller; None without one. Inside
    a container the path may not exist: then it is the top of the mounted hierarchy."""
    paths = {}
    for line in cgroups.rstrip("\n").split("\n"):
        _, controllers, path = line.split(":", 2)
        paths[controllers] = path
    unified: Path | None = None
    for mount in mounts:
        mounted = Path(mount.path)
        if mount.fs_type == "cgroup" and "pids" in mount.fs_options.split(","):
            path = next((p for controllers, p in paths.items() if "pids" in controllers.split(",")), "/")
            found = mounted / path.lstrip("/")
            return found if found.is_dir() else mounted
        if mount.fs_type == "cgroup2":
            found = mounted / paths.get("", "/").lstrip("/")
            found = found if found.is_dir() else mounted
            # In version 2 a cgroup with processes can have no children with controllers, except at the top: so a
            # sibling is used.
            unified = found if found == mounted else found.parent
    if unified is None or "pids" not in (unified / "cgroup.subtree_control").read_text().split():
        return None
    return unified


def _make(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    control = root / "cgroup.subtree_control"
    if control.exists():
        control.write_text("+pids")
    return root


def _sweep(below: Path, proc: Path) -> None:
    for left in below.glob(f"{_PREFIX}*"):
        if not (proc / left.name.removeprefix(_PREFIX)).exists():  # its agent has gone
            _remove(left)


def _remove(root: Path) -> None:
    with suppress(OSError):
        for child in root.iterdir():
            if child.is_dir():
                with suppress(OSError):
                    child.rmdir()
        root.rmdir()
