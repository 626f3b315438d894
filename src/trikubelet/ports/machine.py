"""Ports of the machine (``host``, ``volumes``): its clock, and the resources that a pod has besides its containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from trikubelet.core.containers.env_file import EnvFile
    from trikubelet.core.containers.reserved_cgroups import ReservedCgroup
    from trikubelet.model import k8s
    from trikubelet.model.credential_plugin import CredentialPlugin
    from trikubelet.model.csi import DriverInfo, VolumeStats
    from trikubelet.model.image_archives import Archive
    from trikubelet.model.pull_records import PulledRecord
    from trikubelet.model.registry import Login
    from trikubelet.model.runtime_config import Mount
    from trikubelet.model.shutdown_times import ShutdownTimes
    from trikubelet.model.usage import Depth, FsUsage, NodeGauges, PodGauges, PodPlace, Usage
    from trikubelet.model.volume_figures import VolumeFigures
    from trikubelet.ports.cluster import Claims, PodObjects
    from trikubelet.ports.pod_services import Events


class Clock(Protocol):
    """Wall time. Monotonic time is ``trio.current_time()``; in tests both follow the same virtual clock."""

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""
        ...


HostIps = Callable[[], tuple[str, ...]]
"""Returns the node's current addresses, the primary first; empty while it has none."""


class HostNetwork(Protocol):
    """The addresses of the machine. Only DNS queries wait."""

    def routed(self) -> Sequence[str]:
        """Return the addresses that the default routes send from."""
        ...

    def has(self, address: str) -> bool:
        """True if the machine has the address."""
        ...

    async def named(self, name: str) -> Sequence[str] | None:
        """Return the addresses that DNS has for a name; None if DNS does not answer now."""
        ...


class ShutdownSession(Protocol):
    """A session with the service that shuts the machine down. Every method raises OSError, which ends the session."""

    async def delay_seconds(self) -> float:
        """Return the longest delay of a shutdown, in seconds."""
        ...

    async def allow_delay(self, seconds: float) -> None:
        """Set the machine's longest delay of a shutdown. The service may ignore it without an error: read it again."""
        ...

    async def inhibit(self) -> Callable[[], None]:
        """Request a delay of the next shutdown and return the function that ends it, which may be called once and
        outlives the session."""
        ...

    async def is_shutting_down(self) -> bool:
        """True if the machine is shutting down."""
        ...

    async def next(self) -> bool:
        """Wait for the next announcement since the session began. Return true if the machine shuts down, and false if
        that was cancelled."""
        ...


class ShutdownManager(Protocol):
    """The service that shuts the machine down and announces it."""

    def connect(self) -> AbstractAsyncContextManager[ShutdownSession]:
        """Return a session, for the length of the block. Raises OSError."""
        ...


class ShutdownRecords(Protocol):
    """The times at which the node's pods last ended for a shutdown, kept across it. A disk may hang: reading times out,
    but writing does not, because a late write would overwrite the next one."""

    async def read(self) -> ShutdownTimes:
        """Return the last written times; zeros if there are none, or they cannot be read, which is logged."""
        ...

    async def write(self, times: ShutdownTimes) -> None:
        """Write the times. Raises OSError."""
        ...


class FileWatcher(Protocol):
    """Notifications of changes."""

    def watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[frozenset[str]]]:
        """Yield an item for each change at the path: the names that were unlinked there, without those that were
        renamed away or over. Raises only OSError: on entry if the path cannot be watched, or while an earlier start of
        a watch hangs, and later if it cannot be watched any more."""
        ...


class Volumes(Protocol):
    """Sets up and tears down the volumes of a pod's ``spec.volumes``."""

    def use_objects(self, objects: PodObjects) -> None:
        """Set the source of objects for volumes. Called before any volume is set up."""
        ...

    def use_claims(
        self, claims: Claims, node: Callable[[], k8s.Node | None], changed: Callable[[], None], events: Events
    ) -> None:
        """Set the source of claims, because the node has joined a cluster. ``node``: this one, as the API server has
        it; ``changed``: is called when ``in_use`` or ``drivers`` may have changed; ``events``: receives events about
        claims and volumes in use."""
        ...

    def node_changed(self) -> None:
        """Note a change of this node's object: a volume may have been attached."""
        ...

    def in_use(self) -> Collection[str]:
        """Return the unique names of the volumes that a controller must attach to this node, or must not detach."""
        ...

    def drivers(self) -> Mapping[str, DriverInfo]:
        """Return the currently registered CSI drivers, by name."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the background work on volumes until cancelled."""
        ...

    async def set_up(self, pod: k8s.Pod) -> Mapping[str, str]:
        """Set up every volume and update its files, as many as possible. Return host paths by volume name: of a block
        volume the device's, "" for an image, which the runtime mounts. Idempotent. Has its own deadline. Raises
        ``model.errors.VolumeFailed`` with a message for each volume that is not ready."""
        ...

    async def read_env_file(self, volume_path: str, path: str, keys: Collection[str]) -> EnvFile:
        """Return the requested values of an environment file in a volume that is set up: the volume's host path, and
        the file's below it. Its content is not trusted: no path leads out of the volume, only a regular file is read,
        and parsing does not block the event loop. One file of a volume is read at a time. Raises OSError (EFBIG for a
        file beyond the limit, EBUSY while another is read)."""
        ...

    async def resolve(self, pod: k8s.Pod, container: k8s.Container, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """Return the container's mounts, those of ``volumeMounts`` first, with host paths in place of sub-paths;
        missing ones are created. Checks that each volume is still in the requested state. Called before a container is
        created; idempotent. Raises ``model.errors.PodSyncError`` with the reason CreateContainerConfigError."""
        ...

    async def tear_down(self, uid: str) -> None:
        """Unmount and remove every volume of the pod. Idempotent. Raises ``model.errors.VolumeFailed``."""
        ...

    def figures(self) -> VolumeFigures:
        """Return the states of volumes and the durations of their set-up. Read-only."""
        ...

    def places(self, uid: str) -> Mapping[str, str]:
        """Return the places of the pod's ready volumes below the agent's root directory, by name."""
        ...

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        """Return the driver's statistics of the pod's volume at this place; None without a driver, so that the caller
        measures it. Has its own deadline. Raises ``model.plugins.PluginFailed``."""
        ...

    def groups(self, uid: str) -> tuple[int, ...]:
        """Return the supplemental groups that the pod's volumes require, in addition to those of its spec."""
        ...

    def progress(self, uid: str) -> Mapping[str, str]:
        """Return the state of each of the pod's volumes, in words for operators, by the volumes' names; empty for a pod
        without volumes."""
        ...


class PodCgroups(Protocol):
    """The cgroups of this node's pods: one per pod below its QoS class's, so that its limits apply to all its
    containers together. The kernel answers at once, unless it must free memory first; systemd, if it manages them, does
    not."""

    async def ensure(self, pod: k8s.Pod, *, beside: k8s.Pod | None = None) -> None:
        """Create the pod's cgroup and update its values; ``beside``: the pod before a resize, for which they must
        suffice as well. Idempotent; called before the sandbox is created, and whenever the pod changed. Raises
        ``model.errors.CgroupFailed``."""
        ...

    async def remove(self, uid: str) -> None:
        """Remove the pod's cgroup and kill the processes in it: called only once none of its containers should run.
        Idempotent. Raises ``model.errors.CgroupFailed`` while a process in it has not ended yet; retry."""
        ...

    async def limit_all(self) -> bool:
        """Limit all pods together; False if pods have no cgroups of their own. Idempotent. Raises
        ``model.errors.CgroupFailed`` if the kernel rejects the limits, for example while the pods use more."""
        ...

    async def allow_online_cpus(self) -> None:
        """Let all pods use the CPUs that came online since the last call. Idempotent; once ``limit_all`` returned True.
        Raises ``model.errors.CgroupFailed``."""
        ...

    async def limit_reserved(self, cgroup: ReservedCgroup) -> bool:
        """Limit other programs to the resources reserved for them; False if pods have no cgroups of their own.
        Idempotent. Raises ``model.errors.CgroupFailed``, also if the cgroup does not exist."""
        ...

    def leftovers(self) -> frozenset[str]:
        """Return the UIDs of pods that have a cgroup, desired or not."""
        ...


class Gauges(Protocol):
    """The kernel's measurements of this machine. Every call blocks, and ``disk`` and ``directory`` may hang with a
    remote file system: all are called in threads."""

    def pods(self, places: Sequence[PodPlace], depth: Depth) -> Sequence[PodGauges]:
        """Return the usage of each pod and its containers, in the order of the places."""
        ...

    def cgroup(self, path: str, depth: Depth) -> Usage | None:
        """Return the usage of one cgroup by its path below the root of the trees; None if it does not exist."""
        ...

    def own_cgroup(self) -> str:
        """Return the path of this process's cgroup; ``/`` if it has none of its own."""
        ...

    def device(self, path: str) -> str:
        """Return the device of a path's file system, like ``/dev/sda1``; empty if the kernel does not report it. Raises
        OSError."""
        ...

    def node(self, depth: Depth) -> NodeGauges:
        """Return the machine's usage. Raises OSError."""
        ...

    def disk(self, path: str) -> FsUsage:
        """Return the usage of a path's file system. Raises OSError."""
        ...

    def directory(self, path: str, counted: Callable[[int, int], None] | None = None) -> FsUsage:
        """Return the usage of a directory with everything below it; if it is a mount of its own, that of the file
        system. ``counted``: called repeatedly while a large one is counted, in the thread, with bytes and inodes so
        far. Raises OSError, also if it is not a directory."""
        ...

    def files(self, path: str) -> FsUsage:
        """Return the bytes and inodes of a regular file, or of the regular files directly in a directory. Raises
        OSError."""
        ...


class ContainerLogs(Protocol):
    """The files of containers' logs while they are written: a log by its path, as the runtime reports it, and its
    rotated parts (``core.log_rotation``). Only files below the pods' logs are renamed or removed. All methods raise
    OSError, with ETIMEDOUT if the disk does not answer (the operation may still happen then), and with EBUSY until it
    has. Compressing has no time limit."""

    async def sizes(self, paths: Sequence[str]) -> Sequence[int | OSError | None]:
        """Return the size in bytes of each file being written; None if it does not exist, 0 if its directory or path
        does not exist, so that no process can open it, and an OSError if it is not a file. Raises OSError if the disk
        does not answer."""
        ...

    async def free_bytes(self) -> int:
        """Return the free bytes on the disk of the pods' logs."""
        ...

    async def parts(self, path: str) -> Collection[str]:
        """Return the rotated parts and the unfinished ones. Raises OSError with EFBIG for a directory with too many
        files to read: then the free names are unknown."""
        ...

    async def remove(self, path: str, part: str) -> None:
        """Remove a part. Idempotent."""
        ...

    async def set_aside(self, path: str, part: str) -> None:
        """Rename the file being written to a part that does not exist."""
        ...

    async def put_back(self, path: str, part: str) -> None:
        """Undo ``set_aside``, unless the runtime has opened a new file meanwhile, or both are gone."""
        ...

    async def compress(self, path: str, part: str) -> None:
        """Replace a plain part by a compressed one, whole or not at all. A part that is gone, or is removed meanwhile,
        stays gone."""
        ...


class PullRecords(Protocol):
    """The records of pulled images, kept over restarts. All methods raise OSError."""

    async def pulled(self, image_ref: str) -> PulledRecord | None:
        """Return the record of an image, by the runtime's id; None without one. Raises ValueError if it cannot be
        decoded."""
        ...

    async def all_pulled(self) -> Sequence[PulledRecord]:
        """Return every readable record."""
        ...

    async def keep(self, record: PulledRecord) -> None:
        """Replace the image's record."""
        ...

    async def forget(self, image_ref: str) -> None:
        """Remove an image's record. Idempotent."""
        ...

    async def intend(self, image: str) -> None:
        """Record, by its name, that an image is about to be pulled. Idempotent."""
        ...

    async def is_intended(self, image: str) -> bool:
        """True if a pull is recorded and not settled yet."""
        ...

    async def intents(self) -> Sequence[str]:
        """Return the names of all such images."""
        ...

    async def settle(self, image: str) -> None:
        """Remove the record of an intended pull, which has happened or will not. Idempotent."""
        ...


class ImageDirectory(Protocol):
    """The directory with archives of images, and the programs that import them into the runtime."""

    async def scan(self) -> Sequence[Archive]:
        """Return every archive in the directory, by its name; one that cannot be used has a problem. Raises OSError if
        the directory cannot be read, or does not answer in time."""
        ...

    async def run(self, command: Sequence[str]) -> None:
        """Run an import, however long it takes within a bound. Raises ImportFailed with what the program reports."""
        ...


class ImageImports(Protocol):
    """Imports images from the image directory (``images.imports``)."""

    async def bring_sandbox_images(self) -> None:
        """Import the images of sandboxes, which the runtime would pull by itself. A failure is logged."""
        ...

    async def bring(self, image: str) -> str | None:
        """Import an image that the runtime does not have; return the path of its archive, None if none has it. Raises
        ``model.errors.ImportFailed``."""
        ...


class NodeLogins(Protocol):
    """The node's own logins to image registries, for every pod on it."""

    async def configured(self) -> Mapping[str, Login]:
        """Return the logins in docker's configuration files, by the places they are for (``core.keyring``)."""
        ...

    async def ask(self, plugin: CredentialPlugin, request: bytes) -> bytes:
        """Return the answer of a credential plugin. Raises ``model.errors.LoginUnavailable``."""
        ...
