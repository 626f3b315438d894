"""A host in memory: pod directories, volumes, cgroups and a clock without a disk and without threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.errors import CgroupFailed
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Pod


class VirtualClock:
    """Wall time that follows Trio's clock (``ports.Clock``)."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return wall_ns()


class MemoryPodFiles:
    """Pod directories as sets of names (``ports.PodFiles``). Outlives the agent, like a disk."""

    def __init__(self) -> None:
        self._pods: set[str] = set()
        self._logs: dict[str, int] = {}
        self._directories: set[str] = set()

    def make_pod(self, uid: str) -> None:
        """Note the pod's directory."""
        self._pods.add(uid)

    def remove_pod(self, uid: str) -> None:
        """Forget the pod's directory."""
        self._pods.discard(uid)

    def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a directory."""
        return frozenset(self._pods)

    def write_hosts(self, uid: str, content: str) -> str:
        """Where the hosts file would be."""
        return f"/pods/{uid}/etc-hosts"

    def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """Where the termination message would be."""
        return f"/pods/{uid}/containers/{container}/{attempt}"

    def read_termination_log(self, uid: str, container: str, attempt: int, bytes_max: int) -> str:
        """Simulated containers leave no message."""
        return ""

    def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """Simulated containers write no log."""
        return ""

    def make_log_directory(self, directory: str, container: str) -> None:
        """Note the log directory."""
        self._directories.add(directory.rsplit("/", 1)[-1])

    def highest_log_attempt(self, directory: str, container: str) -> int | None:
        """The highest attempt whose log was linked."""
        return self._logs.get(f"{directory}/{container}")

    def link_log(self, link_name: str, log_path: str) -> None:
        """A container started: its log exists."""
        directory, _, name = log_path.rpartition("/")
        self._logs[directory] = max(self._logs.get(directory, 0), int(name.removesuffix(".log")))

    def log_directories(self) -> frozenset[str]:
        """Names of the pod log directories."""
        return frozenset(self._directories)

    def remove_log_directory(self, name: str) -> None:
        """Forget a pod's logs."""
        self._directories.discard(name)
        self._logs = {path: n for path, n in self._logs.items() if f"/{name}/" not in path}

    def remove_container_logs(self, log_path: str) -> None:
        """Old logs do not count for the highest attempt."""


class MemoryVolumes:
    """Volumes as names (``ports.Volumes``)."""

    def __init__(self) -> None:
        self.mounted: set[str] = set()

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Every volume has a path at once."""
        if pod.spec.volumes:
            self.mounted.add(pod.metadata.uid)
        return {volume.name: f"/volumes/{pod.metadata.uid}/{volume.name}" for volume in pod.spec.volumes}

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
