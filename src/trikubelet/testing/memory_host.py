"""A host in memory: pod directories, volumes, cgroups and a clock without a disk and without threads."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from trikubelet.host.logs import plain_lines
from trikubelet.model.errors import CgroupFailed, StillMounted, VolumeFailed
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trikubelet.model.k8s import Pod


class VirtualClock:
    """Wall time that follows Trio's clock (``ports.Clock``)."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return wall_ns()


class MemoryPodFiles:
    """Pod directories and logs as names and bytes (``ports.PodFiles``). Outlives the agent, like a disk.

    ``content`` holds what files say, by path; a test writes there what a container would. Nobody else makes a log file
    here, so linking one makes it. ``volumes``: pods with a volume in there are still mounted.
    """

    def __init__(self, volumes: MemoryVolumes | None = None) -> None:
        self.content: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self._volumes = volumes
        self._pods: set[str] = set()
        self._directories: set[str] = set()

    # ---- pod directories ----

    def make_pod(self, uid: str) -> None:
        """Note the pod's directory."""
        self._pods.add(uid)

    def remove_pod(self, uid: str) -> None:
        """Forget the pod's directory and what is in it."""
        if self._volumes is not None and uid in self._volumes.mounted:
            raise StillMounted(f"/pods/{uid}/volumes is still mounted")
        self._pods.discard(uid)
        self._forget(f"/pods/{uid}/")

    def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a directory."""
        return frozenset(self._pods)

    def write_hosts(self, uid: str, content: str) -> str:
        """Keep the hosts file."""
        path = f"/pods/{uid}/etc-hosts"
        self.content[path] = content.encode()
        return path

    def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """An empty termination message, unless there is one."""
        path = f"/pods/{uid}/containers/{container}/{attempt}"
        self.content.setdefault(path, b"")
        return path

    def read_termination_log(self, uid: str, container: str, attempt: int, bytes_max: int) -> str:
        """The end of the termination message."""
        written = self.content.get(f"/pods/{uid}/containers/{container}/{attempt}", b"")
        return written[max(0, len(written) - bytes_max) :].decode(errors="replace")

    # ---- logs ----

    def make_log_directory(self, directory: str, container: str) -> None:
        """Note the log directory."""
        self._directories.add(directory)

    def highest_log_attempt(self, directory: str, container: str) -> int | None:
        """The highest attempt that has a log."""
        start = f"{directory}/{container}/"
        logs = (path.removeprefix(start) for path in self.content if path.startswith(start))
        return max((int(name.partition(".")[0]) for name in logs), default=None)

    def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """The end of a log."""
        lines = plain_lines(self.content.get(path, b""))
        return b"".join(lines[-lines_max:])[-bytes_max:].decode(errors="replace")

    def link_log(self, link_name: str, log_path: str) -> None:
        """A container started: its log exists."""
        self.content.setdefault(log_path, b"")
        self.links[link_name] = log_path

    def log_directories(self) -> frozenset[str]:
        """Names of the pod log directories."""
        return frozenset(directory.rsplit("/", 1)[-1] for directory in self._directories)

    def remove_log_directory(self, name: str) -> None:
        """Forget a pod's logs."""
        for directory in [one for one in self._directories if one.endswith(f"/{name}")]:
            self._directories.discard(directory)
            self._forget(f"{directory}/")

    def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """The legacy links whose log is gone, but for those of living containers."""
        self.links = {
            link: path
            for link, path in self.links.items()
            if path in self.content or link.removesuffix(".log").rpartition("-")[2] in container_ids
        }

    def remove_container_logs(self, log_path: str) -> None:
        """Forget a container's log and its rotated parts; nothing outside the pods' logs."""
        path = posixpath.normpath(log_path)
        if any(path.startswith(f"{directory}/") for directory in self._directories):
            self._forget(log_path)

    def _forget(self, start: str) -> None:
        self.content = {path: said for path, said in self.content.items() if not path.startswith(start)}
        self.links = {link: path for link, path in self.links.items() if not path.startswith(start)}


class MemoryVolumes:
    """Volumes as names (``ports.Volumes``): emptyDir and hostPath, every path as it should be, at once."""

    def __init__(self) -> None:
        self.mounted: set[str] = set()
        """Pods that have an emptyDir."""

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Every volume's path. Raises VolumeFailed for a type that is not supported."""
        found = {}
        for volume in pod.spec.volumes:
            if volume.host_path is not None:
                found[volume.name] = volume.host_path.path
            elif volume.empty_dir is not None:
                self.mounted.add(pod.metadata.uid)
                found[volume.name] = f"/pods/{pod.metadata.uid}/volumes/{volume.name}"
            else:
                message = (
                    f'MountVolume.SetUp failed for volume "{volume.name}" : volumes of this type are not supported'
                )
                raise VolumeFailed("FailedMount", message)
        return found

    async def tear_down(self, uid: str) -> None:
        """Every volume is gone at once."""
        self.mounted.discard(uid)


class MemoryPodCgroups:
    """Pod cgroups as names (``ports.PodCgroups``). Outlives the agent, as the kernel's do."""

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.busy: set[str] = set()
        """Pods with a process that does not end; a test writes it."""

    def ensure(self, pod: Pod) -> None:
        """The pod has a cgroup."""
        self.pods.add(pod.metadata.uid)

    def remove(self, uid: str) -> None:
        """The pod has none. Raises CgroupFailed for a busy one."""
        if uid in self.busy & self.pods:
            raise CgroupFailed("FailedKillPod", f"the cgroup of pod {uid} cannot be removed yet: busy")
        self.pods.discard(uid)

    def leftovers(self) -> frozenset[str]:
        """Every pod that has one."""
        return frozenset(self.pods)
