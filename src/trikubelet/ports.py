"""The ports: what the agent's own packages ask of each other and of the world, as Protocols.

The packages of layer 5 (pods, pleg, images, volumes, status, …) do not import one another; they meet here and are
joined in ``app/compose.py``. Adapters (``cri``, ``kube``, ``host``) implement the lower half against the real world,
``testing`` implements it in memory, and one contract suite per port holds both to the same behaviour.

No method takes a timeout: the caller holds the cancel scope. Every method that talks to a runtime raises the errors
of ``model.runtime_errors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from trikubelet.core.relist import PodRecord
    from trikubelet.model import k8s
    from trikubelet.model.objects import ObjectRef
    from trikubelet.model.runtime import (
        ContainerEvent,
        ContainerStatus,
        ExecResult,
        ImageInfo,
        PodObservation,
        RuntimeInfo,
        SandboxStatus,
    )
    from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig


class Clock(Protocol):
    """Wall time. Monotonic time is ``trio.current_time()``; in tests both follow the same virtual clock."""

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        ...


class Runtime(Protocol):
    """A container runtime, as the CRI's RuntimeService has it."""

    async def info(self) -> RuntimeInfo:
        """Who the runtime is and how it is: ``Version`` and ``Status``."""
        ...

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded ``ListPodSandbox`` reply, in one or more chunks; of one pod when ``pod_uid`` is given."""
        ...

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        """The undecoded ``ListContainers`` reply, in one or more chunks; of one pod when ``pod_uid`` is given."""
        ...

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        """One sandbox. Raises NotFound."""
        ...

    async def container_status(self, container_id: str) -> ContainerStatus:
        """One container. Raises NotFound."""
        ...

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox; its id."""
        ...

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox, its containers by force, and release its network. Stopping twice is not an error."""
        ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers. Removing an unknown one is not an error."""
        ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create, without starting, a container; its id."""
        ...

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""
        ...

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Stop signal, then SIGKILL after the grace. Returns when the container has stopped."""
        ...

    async def remove_container(self, container_id: str) -> None:
        """Remove a container. Removing an unknown one is not an error."""
        ...

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        """Run a command in a container to its end; the runtime kills it after ``limit_seconds`` (0: never)."""
        ...

    async def reopen_log(self, container_id: str) -> None:
        """Make the runtime reopen the container's log file, after a rotation."""
        ...

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[ContainerEvent]]:
        """The runtime's container events. Raises NotImplementedByRuntime on entry or at the first item."""
        ...


class Images(Protocol):
    """The CRI's ImageService."""

    async def image_status(self, image: str) -> ImageInfo | None:
        """The image of that name or id, or None when the node does not have it."""
        ...

    async def pull_image(self, image: str, sandbox: SandboxConfig | None = None) -> str:
        """Pull an image; the reference to create containers with."""
        ...

    async def list_images(self) -> Sequence[ImageInfo]:
        """Every image on the node."""
        ...

    async def remove_image(self, image: str) -> None:
        """Remove an image. Removing an unknown one is not an error."""
        ...


class PodCache(Protocol):
    """The newest observation of each pod. PLEG writes it; pod workers wait on it."""

    def get(self, uid: str) -> PodObservation:
        """What is known now; an empty observation for an unknown pod."""
        ...

    async def newer_than(self, uid: str, time: float) -> PodObservation:
        """Wait until the pod was observed after ``time`` (Trio's clock). Raises what its inspection raised."""
        ...


class RuntimePods(Protocol):
    """What the runtime was last seen to hold, pod by pod. PLEG knows."""

    @property
    def has_listed(self) -> bool:
        """Whether the runtime was listed successfully at least once."""
        ...

    def pods(self) -> Sequence[PodRecord]:
        """Every pod of which a sandbox or a container exists, wanted or not."""
        ...

    def may_have(self, uid: str) -> bool:
        """Whether anything of the pod exists, as far as is known; true for every pod before the first list."""
        ...


class Relister(Protocol):
    """The PLEG's side door for those who just changed something."""

    def look_at(self, uid: str) -> None:
        """Ask for an on-demand relist of one pod, soon. Never blocks; asking twice is asking once."""
        ...


class ImagePuller(Protocol):
    """Decides whether an image must be pulled, pulls it within the node's limits, remembers failures."""

    async def ensure(self, pod: k8s.Pod, container: k8s.Container, sandbox: SandboxConfig) -> ImageInfo:
        """The image, present on the node. Raises ``model.errors.ImageUnavailable``."""
        ...


class Volumes(Protocol):
    """Sets up and takes down what a pod's ``spec.volumes`` name."""

    async def set_up(self, pod: k8s.Pod) -> Mapping[str, str]:
        """Make every volume ready; volume name → host path. Idempotent. Raises ``model.errors.VolumeFailed``."""
        ...

    async def tear_down(self, uid: str) -> None:
        """Unmount and remove every volume of the pod. Idempotent. Raises ``model.errors.VolumeFailed``."""
        ...


class PodCgroups(Protocol):
    """The cgroups of this node's pods: one per pod below its class's, so that its limits hold for all its containers
    together. The kernel answers at once, so these calls are synchronous."""

    def ensure(self, pod: k8s.Pod) -> None:
        """Make the pod's cgroup and bring its values up to date. Idempotent; before the sandbox is made, and whenever
        the pod changed. Raises ``model.errors.CgroupFailed``."""
        ...

    def remove(self, uid: str) -> None:
        """Remove the pod's cgroup, killing what is left in it: only once none of its containers should run. Idempotent.
        Raises ``model.errors.CgroupFailed`` while something in it has not ended yet; try again."""
        ...

    def leftovers(self) -> frozenset[str]:
        """UIDs of pods that have a cgroup, wanted or not."""
        ...


class PodFiles(Protocol):
    """The pod directories and log files of this node: upstream's layout under the root directory and the log
    directory. Local disk only, so these calls are synchronous; what can hang belongs to ``Volumes``."""

    def make_pod(self, uid: str) -> None:
        """The pod's directory (0750) with its parts. Idempotent."""
        ...

    def remove_pod(self, uid: str) -> None:
        """The pod's directory, when nothing is mounted below it. Raises ``model.errors.StillMounted``. Idempotent."""
        ...

    def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a pod directory."""
        ...

    def write_hosts(self, uid: str, content: str) -> str:
        """Write the managed hosts file; its host path."""
        ...

    def termination_log(self, uid: str, container: str, attempt: int) -> str:
        """Create the file behind ``terminationMessagePath`` of that attempt; its host path."""
        ...

    def read_termination_log(self, uid: str, container: str, attempt: int, bytes_max: int) -> str:
        """What the container wrote there, of a longer text the last ``bytes_max``; empty when there is none."""
        ...

    def tail_log(self, path: str, lines_max: int, bytes_max: int) -> str:
        """The last lines of a CRI log file, without the CRI's prefixes; empty when there is none."""
        ...

    def make_log_directory(self, directory: str, container: str) -> None:
        """The container's directory below the pod's log directory. Idempotent."""
        ...

    def highest_log_attempt(self, directory: str, container: str) -> int | None:
        """The highest N of the ``N.log`` files of a container, or None."""
        ...

    def link_log(self, link_name: str, log_path: str) -> None:
        """The legacy link under /var/log/containers. Idempotent."""
        ...

    def log_directories(self) -> frozenset[str]:
        """Names of the pod log directories that exist."""
        ...

    def remove_log_directory(self, name: str) -> None:
        """One pod's log directory and the legacy links that point into it. Idempotent."""
        ...

    def remove_dead_links(self, container_ids: Collection[str]) -> None:
        """The legacy links whose log is gone, but for those of ``container_ids``, whose log may be under rotation."""
        ...

    def remove_container_logs(self, log_path: str) -> None:
        """The log file of one container with its rotated parts, and the legacy links to it. The path is the runtime's
        word: one that does not lie below a pod's log directory is left alone, and that is said. Idempotent."""
        ...


class Events(Protocol):
    """The event recorder. Never blocks, never fails; bounded by its owner."""

    def record(self, about: ObjectRef, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Say what happened to an object, in upstream's reasons and words."""
        ...


class Statuses(Protocol):
    """Where a pod worker publishes the status it computed; the newest per pod counts."""

    def publish(self, uid: str, pod: k8s.Pod, status: k8s.PodStatus) -> None:
        """Set the pod's status. Never blocks."""
        ...

    def get(self, uid: str) -> k8s.PodStatus | None:
        """The status last published, or None."""
        ...

    def forget(self, uid: str) -> None:
        """The pod is finished: nothing of it is on this node any more."""
        ...
