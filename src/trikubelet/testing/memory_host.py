"""A host in memory: pod directories, volumes, cgroups and a clock without a disk and without threads."""

from __future__ import annotations

import errno
import gzip
import posixpath
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.env_file import BYTES_MAX, read_env_file
from trikubelet.core.log_rotation import PACKED, is_part
from trikubelet.core.names import ATTEMPT_DIGITS_MAX, LOGGED_ATTEMPTS_MAX, path_uid
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.host.logs import end_of_log
from trikubelet.model.errors import CgroupFailed, StillMounted, VolumeFailed
from trikubelet.model.pod_notes import check_size
from trikubelet.testing.world import wall_ns
from trikubelet.volumes.fake import FakeVolumes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from trikubelet.core.containers.env_file import EnvFile
    from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
    from trikubelet.core.containers.volume_files import Files
    from trikubelet.model.csi import VolumeStats
    from trikubelet.model.k8s import Container, Pod, Volume
    from trikubelet.model.pod_notes import NodeNote, Note
    from trikubelet.model.runtime_config import Mount
    from trikubelet.testing.chance import Problems


class MemoryHostNetwork:
    """A machine's addresses (``ports.HostNetwork``), as a test sets them. ``held``: those it has besides those its
    routes send from; ``names``: the answers of DNS; ``dns_seconds``: their delay."""

    def __init__(self, *routes: str) -> None:
        self.routes: Sequence[str] = routes
        self.held: Collection[str] = ()
        self.names: Sequence[str] | None = ()
        self.dns_seconds = 0.0

    def routed(self) -> Sequence[str]:
        """Return those of ``routes``."""
        return self.routes

    def has(self, address: str) -> bool:
        """True if it is one of either."""
        return address in self.routes or address in self.held

    async def named(self, name: str) -> Sequence[str] | None:
        """Return the answer of DNS for any name."""
        await trio.sleep(self.dns_seconds)
        return self.names


class VirtualClock:
    """Wall time that follows Trio's clock (``ports.Clock``), but for jumps on request."""

    def __init__(self) -> None:
        self._ahead_ns = 0

    def jump(self, seconds: float) -> None:
        """Set the clock forward by that time, or back."""
        self._ahead_ns += round(seconds * SECOND_NS)

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        return wall_ns() + self._ahead_ns


class MemoryPodFiles:
    """Pod directories and logs as names and bytes (``ports.PodFiles``). Outlives the agent, like a disk.

    ``content``: the files' content, by path; a test writes a container's files there. Nothing else makes a log file
    here, so linking one makes it. ``pods`` and ``directories`` (of logs): the existing ones; a test may start with
    some. ``volumes``: pods with a volume in there are still mounted. ``immutable``: paths of files that cannot be
    removed; a test writes it.
    """

    def __init__(self, volumes: MemoryVolumes | None = None) -> None:
        self.content: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.immutable: set[str] = set()
        self._volumes = volumes
        self.pods: set[str] = set()
        self.directories: set[str] = set()
        self.removed: frozenset[str] = frozenset()
        self.unknown: frozenset[str] = frozenset()

    # ---- pod directories ----

    async def make_pod(self, uid: str) -> None:
        """Note the pod's directory."""
        await trio.lowlevel.checkpoint()
        self.pods.add(uid)

    async def remove_pod(self, uid: str) -> None:
        """Forget the pod's directory and its content."""
        if self._volumes is not None and uid in self._volumes.mounted:
            raise StillMounted(f"/pods/{uid}/volumes is still mounted")
        self._forget(f"/pods/{uid}/")
        self.pods.discard(uid)
        await trio.lowlevel.checkpoint()  # not before it: anything recreated meanwhile would be removed

    async def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a directory."""
        await trio.lowlevel.checkpoint()
        return frozenset(self.pods)

    def removed_pods(self) -> frozenset[str]:
        """Those noted last."""
        return self.removed

    def note_removed(self, uids: Collection[str]) -> None:
        """Keep the UIDs."""
        self.removed = frozenset(uids)

    def unknown_pods(self) -> frozenset[str]:
        """Those noted last; a test may start with some."""
        return self.unknown

    async def note_unknown(self, uids: Collection[str]) -> None:
        """Keep the UIDs."""
        await trio.lowlevel.checkpoint()
        self.unknown = frozenset(uids)

    async def write_hosts(self, uid: str, content: str) -> str:
        """Keep the hosts file."""
        await trio.lowlevel.checkpoint()
        path = f"/pods/{uid}/etc-hosts"
        self.content[path] = content.encode()
        return path

    def noted(self, uid: str, note: Note) -> bytes:
        """The pod's checkpoint of that kind."""
        return self.content.get(f"/pods/{uid}/{note.value}", b"")

    def noted_of_all(self, note: Note) -> dict[str, bytes]:
        """Every pod's checkpoint of that kind."""
        found = ((uid, self.noted(uid, note)) for uid in self.pods)
        return {uid: content for uid, content in found if content}

    def note(self, uid: str, note: Note, content: bytes) -> None:
        """Store a checkpoint of the pod."""
        check_size(note, content)
        self.content[f"/pods/{uid}/{note.value}"] = content

    def forget_note(self, uid: str, note: Note) -> None:
        """Remove that checkpoint."""
        self.content.pop(f"/pods/{uid}/{note.value}", None)

    def node_note(self, note: NodeNote) -> bytes:
        """Return the note of all pods."""
        return self.content.get(f"/{note.value}", b"")

    async def keep_node_note(self, note: NodeNote, content: bytes) -> None:
        """Store it."""
        await trio.lowlevel.checkpoint()
        self.content[f"/{note.value}"] = content

    async def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """An empty termination message, unless there is one."""
        await trio.lowlevel.checkpoint()
        path = f"/pods/{uid}/containers/{container}/{attempt}"
        self.content.setdefault(path, b"")
        return path

    async def read_termination_log(self, uid: str, container: str, file: str, bytes_max: int) -> str:
        """The end of the termination message."""
        await trio.lowlevel.checkpoint()
        written = self.content.get(f"/pods/{uid}/containers/{container}/{file}", b"")
        return written[max(0, len(written) - bytes_max) :].decode(errors="replace")

    # ---- logs ----

    async def make_log_directory(self, directory: str, container: str) -> None:
        """Note the log directory."""
        await trio.lowlevel.checkpoint()
        self.directories.add(directory)

    async def log_attempts(self, directory: str, container: str) -> Sequence[int]:
        """Return the attempts that have logs, highest first, within the bound."""
        await trio.lowlevel.checkpoint()
        start = f"{directory}/{container}/"
        names = [path.removeprefix(start).split(".") for path in self.content if path.startswith(start)]
        found = {first for first, *rest in names if first.isdecimal() and rest[:1] == ["log"]}
        attempts = sorted({int(first) for first in found if len(first) <= ATTEMPT_DIGITS_MAX}, reverse=True)
        return attempts[:LOGGED_ATTEMPTS_MAX]

    async def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """The end of a log, with its newest rotated part."""
        await trio.lowlevel.checkpoint()
        newest = max((name for name in self.content if name.startswith(f"{path}.")), default="")
        older = b"" if newest.endswith(PACKED) else self.content.get(newest, b"")
        whole = older + self.content.get(path, b"")
        return end_of_log(whole, lines_max, bytes_max, is_cut=False).decode(errors="replace")

    async def link_log(self, link_name: str, log_path: str) -> None:
        """A container started: its log exists."""
        await trio.lowlevel.checkpoint()
        self.content.setdefault(log_path, b"")
        self.links[link_name] = log_path

    async def log_directories(self) -> frozenset[str]:
        """Names of the pod log directories."""
        await trio.lowlevel.checkpoint()
        return self.log_names

    @property
    def log_names(self) -> frozenset[str]:
        """Return the same, for a test that only reads."""
        return frozenset(directory.rsplit("/", 1)[-1] for directory in self.directories)

    async def remove_log_directory(self, name: str) -> None:
        """Forget a pod's logs."""
        for directory in [one for one in self.directories if one.endswith(f"/{name}")]:
            self._forget(f"{directory}/")
            self.directories.discard(directory)
        await trio.lowlevel.checkpoint()

    async def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """Remove the legacy links whose log is gone, except those of living containers."""
        await trio.lowlevel.checkpoint()
        self.links = {
            link: path
            for link, path in self.links.items()
            if path in self.content or link.removesuffix(".log").rpartition("-")[2] in container_ids
        }

    async def remove_container_logs(self, log_path: str) -> None:
        """Forget a container's log and its rotated parts; nothing outside the pods' logs."""
        if self.has_log_below(log_path):
            self._forget(log_path)
        await trio.lowlevel.checkpoint()

    def has_log_below(self, log_path: str) -> bool:
        """True if the path leads below a pod's log directory."""
        path = posixpath.normpath(log_path)
        return any(path.startswith(f"{directory}/") for directory in self.directories)

    def _forget(self, start: str) -> None:
        for path in self.immutable & self.content.keys():
            if path.startswith(start):
                raise PermissionError(errno.EPERM, "Operation not permitted", path)
        self.content = {path: said for path, said in self.content.items() if not path.startswith(start)}
        self.links = {link: path for link, path in self.links.items() if not path.startswith(start)}


class MemoryContainerLogs:
    """The logs among a host's files (``ports.ContainerLogs``). ``compressed``: the compressed parts, in order."""

    def __init__(self, files: MemoryPodFiles) -> None:
        self._files = files
        self.compressed: list[str] = []
        self.disk_bytes = 1 << 40

    async def sizes(self, paths: Sequence[str]) -> Sequence[int | OSError | None]:
        """The length of each."""
        await trio.lowlevel.checkpoint()
        return [self._size(path) for path in paths]

    async def free_bytes(self) -> int:
        """Return the free bytes: the size without ``disk_bytes`` written."""
        await trio.lowlevel.checkpoint()
        return self.disk_bytes - sum(map(len, self._files.content.values()))

    def _size(self, path: str) -> int | None:
        content = self._files.content.get(path)
        if content is None:
            return None if self._files.has_log_below(path) else 0
        return len(content)

    async def parts(self, path: str) -> frozenset[str]:
        """The rotated parts."""
        await trio.lowlevel.checkpoint()
        return self.parts_now(path)

    def parts_now(self, path: str) -> frozenset[str]:
        """Return the same, for a test that only reads."""
        start = f"{self._inside(path)}."
        found = (name.removeprefix(start) for name in self._files.content if name.startswith(start))
        return frozenset(name for name in found if is_part(name))

    async def remove(self, path: str, part: str) -> None:
        """Forget a part."""
        await trio.lowlevel.checkpoint()
        self._files.content.pop(f"{self._inside(path)}.{part}", None)

    async def set_aside(self, path: str, part: str) -> None:
        """Rename the log."""
        await trio.lowlevel.checkpoint()
        if path not in self._files.content:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._files.content[f"{self._inside(path)}.{part}"] = self._files.content.pop(path)

    async def put_back(self, path: str, part: str) -> None:
        """Rename it back, unless there is a new one."""
        await trio.lowlevel.checkpoint()
        aside = f"{self._inside(path)}.{part}"
        if aside in self._files.content and path not in self._files.content:
            self._files.content[path] = self._files.content.pop(aside)

    async def compress(self, path: str, part: str) -> None:
        """Compress the part, after a checkpoint."""
        await trio.lowlevel.checkpoint()
        plain = f"{self._inside(path)}.{part}"
        if plain in self._files.content:
            self._files.content[f"{plain}{PACKED}"] = gzip.compress(self._files.content.pop(plain))
            self.compressed.append(plain)

    def _inside(self, path: str) -> str:
        if not self._files.has_log_below(path):
            raise PermissionError(errno.EPERM, "the runtime names it, but it is in no directory of logs", path)
        return path


class MemoryVolumes(FakeVolumes):
    """Volumes as names (``ports.Volumes``), whose files are kept: ``files``: their content, by path. ``left``: files
    that containers wrote to them, by whole path; a test writes it. ``on_gone`` is called with the UID of a pod that has
    none any more."""

    def __init__(self, problems: Problems | None = None, on_gone: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(Path("/"), NodeFacts("memory"))
        self._problems = problems
        self._on_gone = on_gone
        self.files: dict[str, Files] = {}
        self.left: dict[str, bytes] = {}
        self._tear_downs: Counter[str] = Counter()
        self._read: set[str] = set()

    @property
    def mounted(self) -> set[str]:
        """Pods that have a volume of their own."""
        return set(self.said)

    def _fill(self, path: str, files: Files) -> None:
        self.files[path] = files

    async def read_env_file(self, volume_path: str, path: str, keys: Collection[str]) -> EnvFile:
        """Return the values of a file that a container wrote. Raises FileNotFoundError, and OSError for one that is too
        large or while another of the volume is read."""
        if volume_path in self._read:
            await trio.lowlevel.checkpoint()
            raise OSError(errno.EBUSY, "an earlier read of the volume has not ended yet")
        self._read.add(volume_path)
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._read.discard(volume_path)
        content = self.left.get(f"{volume_path}/{path}")
        if content is None:
            return await super().read_env_file(volume_path, path, keys)
        if len(content) > BYTES_MAX:
            raise OSError(errno.EFBIG, f"larger than {BYTES_MAX} bytes")
        return read_env_file(content, keys)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Do nothing, after a checkpoint."""
        await trio.lowlevel.checkpoint()
        await super().run(task_status=task_status)

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        """Return None: there is no driver to report."""
        await trio.lowlevel.checkpoint()
        return await super().volume_stats(uid, path)

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Return every volume's path. Raises VolumeFailed like real volumes, also while an earlier instance's are
        removed."""
        await trio.lowlevel.checkpoint()  # not after it: volumes torn down meanwhile would be set up
        if pod.spec.volumes and self._tear_downs[pod.metadata.uid]:
            raise VolumeFailed("FailedMount", "no volume is set up yet: those of an earlier instance are being removed")
        return await super().set_up(pod)

    async def _set_up(self, pod: Pod, volume: Volume) -> str:
        await self._suffer("SetUpVolume")
        return await super()._set_up(pod, volume)

    async def resolve(self, pod: Pod, container: Container, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """Host paths in place of sub-paths, with the same problems as their volumes."""
        if any(mount.sub_path for mount in mounts):
            await self._suffer("ResolveSubPaths")
        else:
            await trio.lowlevel.checkpoint()
        return await super().resolve(pod, container, mounts)

    async def _suffer(self, call: str) -> None:
        if self._problems is not None:
            await self._problems.before(call)
        else:
            await trio.lowlevel.checkpoint()

    async def tear_down(self, uid: str) -> None:
        """Remove every volume after a while; during that none is set up."""
        self._tear_downs[path_uid(uid)] += 1
        try:
            if uid in self.said:
                await self._suffer("TearDownVolumes")
                self._on_gone(uid)
            else:
                await trio.lowlevel.checkpoint()
            await super().tear_down(uid)
        finally:
            self._tear_downs[uid] -= 1
        self.files = {path: files for path, files in self.files.items() if not path.startswith(f"/pods/{uid}/")}


class MemoryPodCgroups:
    """Pod cgroups as names (``ports.PodCgroups``). Outlives the agent, as the kernel's do."""

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.busy: set[str] = set()
        """Pods with a process that does not exit; a test writes it."""

    async def ensure(self, pod: Pod, *, beside: Pod | None = None) -> None:
        """Record that the pod has a cgroup."""
        await trio.lowlevel.checkpoint()
        self.pods.add(pod.metadata.uid)

    async def remove(self, uid: str) -> None:
        """Record that the pod has none. Raises CgroupFailed for a busy one."""
        await trio.lowlevel.checkpoint()
        path_uid(uid)
        if uid in self.busy & self.pods:
            raise CgroupFailed("FailedKillPod", f"cannot remove the cgroup of pod {uid} yet: busy")
        self.pods.discard(uid)

    async def limit_all(self) -> bool:
        """All pods are limited."""
        await trio.lowlevel.checkpoint()
        return True

    async def allow_online_cpus(self) -> None:
        """There are no CPUs."""
        await trio.lowlevel.checkpoint()

    async def limit_reserved(self, cgroup: ReservedCgroup) -> bool:
        """Every cgroup exists."""
        await trio.lowlevel.checkpoint()
        return True

    def leftovers(self) -> frozenset[str]:
        """Every pod that has one."""
        return frozenset(self.pods)
