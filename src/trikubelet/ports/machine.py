"""What is asked of the machine (``host``, ``volumes``): its clock, and what a pod has there besides its containers."""

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
        """Nanoseconds since the Unix epoch."""
        ...


HostIps = Callable[[], tuple[str, ...]]
"""The node's addresses at this moment, the primary first; none while it has none."""


class HostNetwork(Protocol):
    """Which addresses the machine has. Only DNS is waited for."""

    def routed(self) -> Sequence[str]:
        """The addresses that the default routes send from."""
        ...

    def has(self, address: str) -> bool:
        """Whether an address is the machine's."""
        ...

    async def named(self, name: str) -> Sequence[str] | None:
        """The addresses that DNS has for a name; None where it does not answer now."""
        ...


class ShutdownSession(Protocol):
    """A conversation with who shuts the machine down. Every method raises OSError, after which it is over."""

    async def delay_seconds(self) -> float:
        """So long the machine waits, at most, for those that ask for a delay."""
        ...

    async def allow_delay(self, seconds: float) -> None:
        """Have the machine's settings allow that much from now on. Who is not heeded is not told: ask again."""
        ...

    async def inhibit(self) -> Callable[[], None]:
        """Ask for a delay of the next shutdown; what is returned ends it, may be called once, and outlives the
        session."""
        ...

    async def is_shutting_down(self) -> bool:
        """Whether the machine goes down now."""
        ...

    async def next(self) -> bool:
        """Wait for the next announcement since the session began: whether the machine goes down, or does not after
        all."""
        ...


class ShutdownManager(Protocol):
    """Who shuts the machine down, and tells of it before."""

    def connect(self) -> AbstractAsyncContextManager[ShutdownSession]:
        """A session, for the length of the block. Raises OSError."""
        ...


class ShutdownRecords(Protocol):
    """When the node's pods ended for a shutdown last, kept across it. A disk may hang: reading gives up, and
    writing takes as long as it takes, for what is given up may still come after what is written next."""

    async def read(self) -> ShutdownTimes:
        """As it was written last; zeros where it never was, or cannot be read, which is logged."""
        ...

    async def write(self, times: ShutdownTimes) -> None:
        """Keep it. Raises OSError."""
        ...


class FileWatcher(Protocol):
    """Notices of changes."""

    def watch(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[frozenset[str]]]:
        """An item for each time something changed at the path: the names that were unlinked there, without those that
        were renamed away or over. Raises OSError and nothing else: on entry when it cannot
        be watched, or not yet again since an earlier beginning hangs, and later when it cannot be watched any more."""
        ...


class Volumes(Protocol):
    """Sets up and takes down what a pod's ``spec.volumes`` name."""

    def use_objects(self, objects: PodObjects) -> None:
        """Where the objects are that volumes are filled from. Called before any volume is set up."""
        ...

    def use_claims(
        self, claims: Claims, node: Callable[[], k8s.Node | None], changed: Callable[[], None], events: Events
    ) -> None:
        """The node has joined a cluster: from now on there are claims. ``node``: this one, as the API server has it;
        ``changed`` is called when ``in_use`` or ``drivers`` may say something else; ``events``: what is to be reported
        of claims and volumes while they are used."""
        ...

    def node_changed(self) -> None:
        """This node's object is not what it was: something may have been attached to it."""
        ...

    def in_use(self) -> Collection[str]:
        """Unique names of the volumes that a controller has to attach to this node, or must not detach."""
        ...

    def drivers(self) -> Mapping[str, DriverInfo]:
        """The CSI drivers that are registered now, by name."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Whatever of volumes no pod waits for, until cancelled."""
        ...

    async def set_up(self, pod: k8s.Pod) -> Mapping[str, str]:
        """Make every volume ready and its files up to date, as many as can be; volume name → host path, of a block
        volume the device's, "" for an image, which the runtime mounts. Idempotent. Has an end of its own. Raises
        ``model.errors.VolumeFailed`` with a message for each that is not ready."""
        ...

    async def read_env_file(self, volume_path: str, path: str, keys: Collection[str]) -> EnvFile:
        """The wanted values of a file of variables in a volume that is set up: the volume's host path, and the file's
        below it. What a container put there is not trusted: nothing leads out of the volume, nothing but a plain file
        is read, and parsing it holds nobody up. Of a volume one is read at a time. Raises OSError (EFBIG for one that
        is larger than such files may be, EBUSY while another is read)."""
        ...

    async def resolve(self, pod: k8s.Pod, container: k8s.Container, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        """The container's mounts, of which those of ``volumeMounts`` come first, with host paths in place of sub-paths;
        what is missing of these is made. Confirms that each volume is still as it was asked for. Called before a
        container is made; idempotent. Raises ``model.errors.PodSyncError`` with the reason
        CreateContainerConfigError."""
        ...

    async def tear_down(self, uid: str) -> None:
        """Unmount and remove every volume of the pod. Idempotent. Raises ``model.errors.VolumeFailed``."""
        ...

    def figures(self) -> VolumeFigures:
        """Which volumes are ready and how long that took; whoever asks only looks."""
        ...

    def places(self, uid: str) -> Mapping[str, str]:
        """Where each of the pod's volumes is that lies below the agent's root directory and is ready, by its name."""
        ...

    async def volume_stats(self, uid: str, path: str) -> VolumeStats | None:
        """What its driver says of the pod's volume at this place; None where no driver does, so that it is to be
        measured. Has an end of its own. Raises ``model.plugins.PluginFailed``."""
        ...

    def groups(self, uid: str) -> tuple[int, ...]:
        """The groups that volumes which are set up want the pod's containers to be in, beside those of its spec."""
        ...

    def progress(self, uid: str) -> Mapping[str, str]:
        """How each of the pod's volumes was left, in words for operators, by the volumes' names; nothing for a pod that
        has none, or none yet."""
        ...


class PodCgroups(Protocol):
    """The cgroups of this node's pods: one per pod below its class's, so that its limits hold for all its containers
    together. The kernel answers at once, unless it must free memory first; systemd, whose they may be, does not."""

    async def ensure(self, pod: k8s.Pod, *, beside: k8s.Pod | None = None) -> None:
        """Make the pod's cgroup and bring its values up to date; ``beside``: the pod as it was, for which they must
        suffice as well. Idempotent; before the sandbox is made, and whenever the pod changed. Raises
        ``model.errors.CgroupFailed``."""
        ...

    async def remove(self, uid: str) -> None:
        """Remove the pod's cgroup, killing what is left in it: only once none of its containers should run. Idempotent.
        Raises ``model.errors.CgroupFailed`` while something in it has not ended yet; try again."""
        ...

    async def limit_all(self) -> bool:
        """Limit all pods together; False if pods have no cgroups of their own. Idempotent. Raises
        ``model.errors.CgroupFailed`` if the kernel does not take the limits, as while the pods use more."""
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
        """UIDs of pods that have a cgroup, wanted or not."""
        ...


class Gauges(Protocol):
    """What the kernel of this machine has measured. Every call blocks, ``disk`` and ``directory`` perhaps for ever
    where a server is away: all are called in threads."""

    def pods(self, places: Sequence[PodPlace], depth: Depth) -> Sequence[PodGauges]:
        """Each pod and what it has of containers, in the order of the places."""
        ...

    def cgroup(self, path: str, depth: Depth) -> Usage | None:
        """One cgroup by its path below the root of the trees; None where there is none."""
        ...

    def own_cgroup(self) -> str:
        """The path of the cgroup this process is in; ``/`` where it has none of its own."""
        ...

    def device(self, path: str) -> str:
        """What the file system that a path is on was mounted from, as ``/dev/sda1``; empty where the kernel does not
        say. Raises OSError."""
        ...

    def node(self, depth: Depth) -> NodeGauges:
        """The machine. Raises OSError."""
        ...

    def disk(self, path: str) -> FsUsage:
        """The file system a path is on. Raises OSError."""
        ...

    def directory(self, path: str, counted: Callable[[int, int], None] | None = None) -> FsUsage:
        """A directory with all below it; of one that is a mount of its own, the file system. ``counted``: called again
        and again while a large one is counted, in the thread, with bytes and inodes so far. Raises OSError, also for
        what is no directory."""
        ...

    def files(self, path: str) -> FsUsage:
        """The bytes and inodes of a plain file, or of the plain files directly in a directory. Raises OSError."""
        ...


class ContainerLogs(Protocol):
    """The files of containers' logs, while they are written: a log by its path, as the runtime says it, and what was
    rotated away as its parts (``core.log_rotation``). Nothing is renamed or removed that is not below the pods' logs.
    All raise OSError, with ETIMEDOUT where the disk does not answer, which may still do then what it was asked, and
    with EBUSY until it has. Compressing takes as long as it takes."""

    async def sizes(self, paths: Sequence[str]) -> Sequence[int | OSError | None]:
        """How long, in bytes, each file being written is; None where there is none, 0 where there is not even a
        directory, so that nobody could open one, or no path, and an OSError for what is no file. Raises OSError where
        the disk does not answer."""
        ...

    async def free_bytes(self) -> int:
        """The bytes that are free where the pods' logs are."""
        ...

    async def parts(self, path: str) -> Collection[str]:
        """What was rotated away, and what was left half done. Raises OSError with EFBIG for a directory of so many
        files that they are not all looked at: which names are free is not known then."""
        ...

    async def remove(self, path: str, part: str) -> None:
        """Remove a part. Idempotent."""
        ...

    async def set_aside(self, path: str, part: str) -> None:
        """Rename the file being written to a part that is not there."""
        ...

    async def put_back(self, path: str, part: str) -> None:
        """Undo ``set_aside``, unless the runtime has opened a new file meanwhile, or both are gone."""
        ...

    async def compress(self, path: str, part: str) -> None:
        """Put a compressed part in place of a plain one, whole or not at all. One that is gone, or goes meanwhile,
        stays gone."""
        ...


class PullRecords(Protocol):
    """What is written down of images that were pulled, over restarts. All raise OSError."""

    async def pulled(self, image_ref: str) -> PulledRecord | None:
        """The record of an image, by the runtime's id; None where there is none. Raises ValueError for one that cannot
        be read."""
        ...

    async def all_pulled(self) -> Sequence[PulledRecord]:
        """Every record that can be read."""
        ...

    async def keep(self, record: PulledRecord) -> None:
        """Put a record in place of the image's last one."""
        ...

    async def forget(self, image_ref: str) -> None:
        """Remove an image's record. Idempotent."""
        ...

    async def intend(self, image: str) -> None:
        """Note, by its name, that an image is about to be pulled. Idempotent."""
        ...

    async def is_intended(self, image: str) -> bool:
        """Whether that is noted and not settled yet."""
        ...

    async def intents(self) -> Sequence[str]:
        """Every image that is."""
        ...

    async def settle(self, image: str) -> None:
        """What was intended has happened, or has not and will not. Idempotent."""
        ...


class NodeLogins(Protocol):
    """The logins to image registries that the node has of its own, for every pod on it."""

    async def configured(self) -> Mapping[str, Login]:
        """Those in docker's configuration files, by the places they are for (``core.keyring``)."""
        ...

    async def ask(self, plugin: CredentialPlugin, request: bytes) -> bytes:
        """What a credential plugin answers. Raises ``model.errors.LoginUnavailable``."""
        ...
