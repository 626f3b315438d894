"""The kernel's usage counters, read on request: cgroups of either version, /proc, file systems, directories.

    pods(places)   <tree>/kubepods/…/pod<uid>/{cpu.stat, memory.stat, …}   and the same of each container in it
                   /proc/<a process of the pod>/net/dev                     the pod's network
    node()         /proc/{stat, meminfo, vmstat, loadavg, net/dev, pressure/*, diskstats}
    disk(path)     statvfs          directory(path)   statvfs of a mount of its own, else every file below it

All of it blocks, and file systems may hang, so it is called in threads (``ports.Gauges``). Nearly every file is read in
one system call, because their number determines the cost of a scrape.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.core.stats import cgroup_files, proc_files
from trikubelet.host.cgroups import MOUNTINFO, read_hierarchies
from trikubelet.host.tree_size import BLOCK_BYTES, tree_size
from trikubelet.model.usage import Depth, FsUsage, Interface, NodeGauges, PodGauges, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

    from trikubelet.model.usage import PodPlace
    from trikubelet.ports import Clock

PROC: Final = Path("/proc")
CPUS: Final = Path("/sys/devices/system/cpu")
_FILE_BYTES_MAX: Final = 1 << 18
_STEP_BYTES: Final = 1 << 14
"""Bytes of one read. Python allocates the requested size, and for 256 KiB malloc maps memory each time, which cost more
than all the rest of reading a file of a hundred bytes. Nearly all files are shorter than this."""
ROOT_CGROUP: Final = "/"


class HostGauges:
    """Reads this machine (``ports.Gauges``). Owns nothing."""

    def __init__(self, clock: Clock, mountinfo: Path = MOUNTINFO, proc: Path = PROC, cpus: Path = CPUS) -> None:
        self._clock = clock
        self._proc = str(proc)
        self._mountinfo = str(mountinfo)
        self._kernel = _read(f"{proc}/sys/kernel/osrelease").decode(errors="replace").strip()
        self._cores, self._sockets = _topology(cpus)
        found = read_hierarchies(mountinfo, cgroup_files.CONTROLLERS)
        self._version = found.version
        self._trees = {name: str(path) for name, path in found.of.items()}
        if found.version == 2:
            self._trees[""] = str(found.trees[0])

    def pods(self, places: Sequence[PodPlace], depth: Depth) -> Sequence[PodGauges]:
        """Return the usage of each pod, in the order of the places."""
        of_node = () if depth.is_load_alone else self._node_network()
        return [self._pod(place, depth, of_node) for place in places]

    def _pod(self, place: PodPlace, depth: Depth, of_node: tuple[Interface, ...]) -> PodGauges:
        own = "/".join(place.cgroup)
        children = self._children(own)
        groups = {
            id_: f"{own}/{name}"
            for id_ in (place.sandbox, *place.containers)
            if (name := cgroup_files.container_cgroup(children, id_)) is not None
        }
        network = () if depth.is_load_alone else self._network(groups.values(), of_node)
        groups.pop(place.sandbox, None)
        read = ((id_, self._usage(group, depth, place.limited)) for id_, group in groups.items())
        whole = self._usage(own, depth, place.limited)
        return PodGauges(whole, {id_: used for id_, used in read if used is not None}, network)

    def cgroup(self, path: str, depth: Depth) -> Usage | None:
        """Return the usage of one cgroup by its path below the root of the trees; None if it does not exist."""
        return self._usage(path.strip("/"), depth, cgroup_files.LIMITABLE)

    def own_cgroup(self) -> str:
        """Return the path of this process's cgroup; ``/`` if it has none of its own."""
        for line in _read(f"{self._proc}/self/cgroup").decode(errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            if (not controllers) if self._version == 2 else ("cpuacct" in controllers.split(",")):
                return path
        return ROOT_CGROUP

    def node(self, depth: Depth) -> NodeGauges:
        """Return the machine's usage. Raises OSError if /proc cannot be read."""
        at_ns = self._clock.now_ns()
        files = proc_files.FILES if depth is Depth.LOAD else (*proc_files.FILES, *proc_files.PRESSURE_FILES)
        texts = {name: _read(f"{self._proc}/{name}") for name in files}
        found = () if depth.is_load_alone else self._node_network()
        try:
            machine = proc_files.machine(texts, at_ns, found)
        except (KeyError, ValueError, IndexError) as error:
            raise OSError(f"cannot parse {self._proc}: {error!r}") from error
        disks = proc_files.disks(_read(f"{self._proc}/{proc_files.DISKSTATS}")) if depth is Depth.METRICS else ()
        return machine._replace(kernel=self._kernel, cores=self._cores, sockets=self._sockets, disks=disks)

    def disk(self, path: str) -> FsUsage:
        """Return the usage of a path's file system. Raises OSError."""
        found = os.statvfs(path)
        return FsUsage(
            at_ns=self._clock.now_ns(),
            used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
            inodes_used=found.f_files - found.f_ffree,
            available_bytes=found.f_bavail * found.f_frsize,
            capacity_bytes=found.f_blocks * found.f_frsize,
            inodes_free=found.f_ffree,
            inodes=found.f_files,
            file_system=os.stat(path).st_dev,
        )

    def device(self, path: str) -> str:
        """Return the device of a path's file system; empty if no mount has it. Raises OSError."""
        number = os.stat(path).st_dev
        sign = f" {os.major(number)}:{os.minor(number)} ".encode()
        mounts = _read(self._mountinfo).split(b"\n")
        line_found = next((line for line in mounts if sign in line.partition(b" - ")[0]), b"")
        return next(iter(line_found.partition(b" - ")[2].split(b" ")[1:2]), b"").decode(errors="replace")

    def directory(self, path: str, counted: Callable[[int, int], None] | None = None) -> FsUsage:
        """Return the usage of a directory with everything below it on the same file system; if it is a mount of its
        own, that of the file system. Files removed meanwhile do not count. ``counted``: as in ``tree_size``. Raises
        OSError if the directory cannot be read or is nested too deep, NotADirectoryError for anything else, such as a
        device that was mounted from /dev, whose file system is /dev's own."""
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "only directories are measured", path)
        disk = self.disk(path)
        if found.st_dev != os.lstat(os.path.dirname(path)).st_dev:
            return disk
        used, inodes = tree_size(path, counted)
        return FsUsage(
            disk.at_ns, used, inodes, disk.available_bytes, disk.capacity_bytes, disk.inodes_free, disk.inodes
        )

    def files(self, path: str) -> FsUsage:
        """Return the usage of a regular file, or of the regular files directly in a directory: blocks, as ``du`` counts
        them. No link is followed. Raises OSError."""
        found = [os.lstat(path)]
        if stat.S_ISDIR(found[0].st_mode):
            with os.scandir(path) as entries:
                found = [entry.stat(follow_symlinks=False) for entry in entries]
        plain = [one for one in found if stat.S_ISREG(one.st_mode)]
        return FsUsage(self._clock.now_ns(), sum(one.st_blocks for one in plain) * BLOCK_BYTES, len(plain))

    # ---- cgroups ----

    def _usage(self, path: str, depth: Depth, limited: Set[str]) -> Usage | None:
        at_ns = self._clock.now_ns()
        texts = {}
        for controller, file in cgroup_files.files(self._version, depth, limited):
            if (tree := self._trees.get(controller)) is not None and (text := _read(f"{tree}/{path}/{file}")):
                texts[file] = text
        return cgroup_files.usage(self._version, texts, at_ns, limited)

    def _children(self, path: str) -> list[str]:
        # In version 1, the pids tree has the fewest files of its own, and so the shortest list.
        tree = self._trees.get("") or self._trees.get("pids") or self._trees.get("memory")
        try:
            return [] if tree is None else os.listdir(f"{tree}/{path}")
        except OSError:
            return []

    def _node_network(self) -> tuple[Interface, ...]:
        # The agent is in the node's network namespace. Process 1 may belong to another user and be unreadable.
        return proc_files.of_machine(proc_files.interfaces(_read(f"{self._proc}/self/net/dev")))

    def _network(self, groups: Iterable[str], of_node: tuple[Interface, ...]) -> tuple[Interface, ...]:
        """Return the network of a pod, by the first process in its cgroups: the sandbox's, or a container's if that has
        none, as with CRI-O. A pod on the host's network has the node's."""
        tree = self._trees["" if self._version == 2 else "memory"]
        pids = next(filter(None, (_read(f"{tree}/{group}/cgroup.procs").split() for group in groups)), None)
        if pids is None:
            return ()
        pid = pids[0].decode()
        try:
            if os.readlink(f"{self._proc}/{pid}/ns/net") == os.readlink(f"{self._proc}/self/ns/net"):
                return of_node
        except OSError:  # it has just ended
            return ()
        return proc_files.interfaces(_read(f"{self._proc}/{pid}/net/dev"))


def _topology(cpus: Path) -> tuple[int, int]:
    """Return the numbers of cores and sockets; zeros if the machine does not report them."""
    names = ("physical_package_id", "core_id")
    cores = {tuple(_read(f"{one}/{name}") for name in names) for one in cpus.glob("cpu[0-9]*/topology")}
    return len(cores), len({socket for socket, _ in cores})


def _read(path: str) -> bytes:
    """Return the content of a small kernel file; empty if it does not exist, or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        text = some = os.read(fd, _STEP_BYTES)
        while len(some) == _STEP_BYTES and len(text) < _FILE_BYTES_MAX:
            text += (some := os.read(fd, _STEP_BYTES))
        return text
    except OSError:  # the cgroup has just gone, or the kernel does not count pressure
        return b""
    finally:
        os.close(fd)
