"""The reports of a container runtime: the records every layer above ``cri/`` reasons with.

Adapters parse the wire into these at the edge; nothing here knows protobuf. All are frozen: a reader may keep one as
long as it likes. They have the fields of a status that are read and no more, because PodCache has one for everything
there is on the node. Times are nanoseconds since the Unix epoch, as the CRI has them; 0 means "has not happened". The
CRI's own names and numbers are kept (cri-v1: ContainerState, PodSandboxState).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NO_PROGRAM: Final = "NoProgram"
"""The reason of a container that was made, and of which a start was given up before its program was to run: nothing of
it runs, nor ever will."""

AGENT_STOPPED: Final = "AgentStopped"
"""The embedded runtime's reason for a container that ended because the agent stopped."""

Record = TypeVar("Record", "SandboxStatus", "ContainerStatus")


class Undecoded(Frozen, Generic[Record], eq=False):
    """A reply as it came to the question for ``id``, for those who may not need to decode it, and the adapter's way to
    do so. Replies that say the same have different bytes: not to be compared."""

    id: str
    raw: bytes
    decoder: Callable[[bytes], Record]

    def decode(self) -> Record:
        """Return the reply's content. Raises RuntimeFailure when it cannot be read, or is of another thing."""
        return self.held(self.decoder(self.raw))

    def held(self, record: Record) -> Record:
        """The record, if it is of what was asked for. Raises RuntimeFailure else: whatever it says is not so there."""
        if record.id != self.id:
            raise RuntimeFailure(
                f"asked for the status of {self.id}, the runtime returned that of {record.id}", "INTERNAL"
            )
        return record


class StatusReplies(NamedTuple):
    """Many statuses, of what there still was when it was asked for, each kind in the order of the asking."""

    sandboxes: Sequence[Undecoded[SandboxStatus]]
    containers: Sequence[Undecoded[ContainerStatus]]


class ContainerState(IntEnum):
    """The CRI's container states, by wire number."""

    CREATED = 0
    RUNNING = 1
    EXITED = 2
    UNKNOWN = 3


class SandboxState(IntEnum):
    """The CRI's pod sandbox states, by wire number."""

    READY = 0
    NOTREADY = 1


class SandboxStatus(Frozen):
    """One pod sandbox as ``PodSandboxStatus`` reported it. ``ips`` has the primary address first; it is empty for
    host-network pods and for sandboxes whose network is gone. ``host_network`` mirrors the namespace mode."""

    id: str
    uid: str
    name: str
    namespace: str
    attempt: int
    state: SandboxState
    created_at: int
    ips: tuple[str, ...] = ()
    host_network: bool = False
    runtime_handler: str = ""


class User(NamedTuple):
    """The user as which a container's first process began."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class HeldResources(NamedTuple):
    """The limits of a container, as the runtime reports them: 0 for those it does not report, or that are not set."""

    cpu_period_us: int = 0
    cpu_quota_us: int = 0
    cpu_shares: int = 0
    memory_limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """One container as ``ContainerStatus`` reported it.

    ``attempt`` is the CRI metadata's, which equals the restart count the container was created with. ``hash`` is the
    spec hash and ``termination_path`` where it may leave a last message, both from annotations it was created with and
    empty when absent. ``image`` is the name that was asked for, ``image_ref`` what the runtime resolved it to.
    ``sandbox_id`` is reported by lists only, so PLEG fills it in. ``user`` is None where the runtime does not say; a
    container's never becomes another, so it is no change. ``resources`` is None where the runtime reports none.
    ``termination_file`` is the name that another kubelet gave the file behind ``termination_path``, in the container's
    directory of the pod; empty where it is the attempt, as this agent has it.
    """

    id: str
    name: str
    attempt: int
    state: ContainerState
    created_at: int
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_ref: str = ""
    image_id: str = ""
    log_path: str = ""
    hash: str = ""
    termination_path: str = ""
    sandbox_id: str = ""
    resources: HeldResources | None = None
    user: User | None = field(default=None, compare=False)
    termination_file: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PodObservation:
    """Everything the runtime has of one pod at one moment (upstream: ``PodStatus`` of the pod cache).

    ``sandboxes`` and ``containers`` are newest first. ``ips`` are those of the newest ready sandbox, or the last known
    ones when no sandbox is ready (PLEG keeps them). Two observations are equal when they say the same, whenever that
    was: ``observed_at`` is Trio's monotonic time, in seconds, taken before the runtime was asked. ``digests`` stand for
    the replies of which the statuses were made, in their order (``core.statuses``). ``earlier``: ids of what is of an
    earlier instance of the pod, where its containers are left out.
    """

    uid: str
    name: str = ""
    namespace: str = ""
    ips: tuple[str, ...] = ()
    sandboxes: tuple[SandboxStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    observed_at: float = field(default=0.0, compare=False)
    digests: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    earlier: frozenset[str] = frozenset()

    def latest(self, container_name: str) -> ContainerStatus | None:
        """The newest container of that name, or None."""
        return next((c for c in self.containers if c.name == container_name), None)

    def history(self, container_name: str) -> tuple[ContainerStatus, ...]:
        """Every container of that name, newest first."""
        return tuple(c for c in self.containers if c.name == container_name)

    def without_earlier(self, ids: frozenset[str]) -> PodObservation:
        """Return the observation without the containers among these, which belong to an earlier instance of the pod.
        Its sandboxes stay, because the next one needs the next number; otherwise they do not matter for this instance.
        """
        return replace(self, containers=tuple(c for c in self.containers if c.id not in ids), earlier=ids)

    @property
    def running(self) -> tuple[ContainerStatus, ...]:
        """The containers that run now."""
        return tuple(c for c in self.containers if c.state is ContainerState.RUNNING)

    @property
    def ready_sandbox(self) -> SandboxStatus | None:
        """The newest sandbox when it is ready, else None."""
        if self.sandboxes and self.sandboxes[0].state is SandboxState.READY:
            return self.sandboxes[0]
        return None


class RuntimeCondition(Frozen):
    """One condition of the CRI's ``Status``: ``RuntimeReady`` or ``NetworkReady`` (others are only kept)."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""


class RuntimeHandler(Frozen):
    """A way the runtime can run pods, chosen by a RuntimeClass, and what it can do; "" is the default one."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


class RuntimeInfo(Frozen):
    """The runtime's identity (``Version``) and state (``Status``). ``list_warning``: which of its lists do not fit in
    one message, for an operator; empty when all do. ``supplemental_groups_policy`` is None where it does not say."""

    name: str
    version: str
    api_version: str
    conditions: tuple[RuntimeCondition, ...] = ()
    list_warning: str = ""
    handlers: tuple[RuntimeHandler, ...] = ()
    supplemental_groups_policy: bool | None = None

    def condition(self, type_: str) -> RuntimeCondition | None:
        """The condition of that type, or None when the runtime did not report it."""
        return next((c for c in self.conditions if c.type == type_), None)


class NetworkSetup(Frozen):
    """Where the runtime looks for CNI configurations and plugins, and the plugins that its loaded configurations
    name."""

    configuration_dir: str
    plugin_dirs: tuple[str, ...]
    plugins: tuple[str, ...] = ()


class ContainerEvent(Frozen):
    """A hint from ``GetContainerEvents``: look at this pod. Never the source of a status."""

    pod_uid: str
    container_id: str
    kind: int
    created_at: int


class ImageInfo(Frozen):
    """One image on the node. ``uid`` is the numeric user it runs as, ``username`` the named one."""

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int = 0
    uid: int | None = None
    username: str = ""
    pinned: bool = False


class ExecResult(Frozen):
    """The result of a finished ``ExecSync``."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
