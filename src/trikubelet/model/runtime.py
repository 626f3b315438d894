"""What a container runtime told us: the records every layer above ``cri/`` reasons with.

Adapters parse the wire into these at the edge; nothing here knows protobuf. All are frozen: a reader may keep one as
long as it likes. Times are nanoseconds since the Unix epoch, as the CRI has them; 0 means "has not happened".
The CRI's own names and numbers are kept (cri-v1: ContainerState, PodSandboxState).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


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


@dataclass(frozen=True, slots=True)
class SandboxStatus:
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
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """One container as ``ContainerStatus`` reported it.

    ``attempt`` is the CRI metadata's, which equals the restart count the container was created with. ``hash`` is the
    spec hash from the annotation it was created with, empty when absent. ``image`` is the name that was asked for,
    ``image_ref`` what the runtime resolved it to.
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
    sandbox_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodObservation:
    """Everything the runtime has of one pod at one moment (upstream: ``PodStatus`` of the pod cache).

    ``sandboxes`` and ``containers`` are newest first. ``ips`` are those of the newest ready sandbox, or the last known
    ones when no sandbox is ready (PLEG keeps them). ``observed_at`` is Trio's monotonic time, in seconds, taken before
    the runtime was asked.
    """

    uid: str
    name: str = ""
    namespace: str = ""
    ips: tuple[str, ...] = ()
    sandboxes: tuple[SandboxStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    observed_at: float = 0.0

    def latest(self, container_name: str) -> ContainerStatus | None:
        """The newest container of that name, or None."""
        return next((c for c in self.containers if c.name == container_name), None)

    def history(self, container_name: str) -> tuple[ContainerStatus, ...]:
        """Every container of that name, newest first."""
        return tuple(c for c in self.containers if c.name == container_name)

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


@dataclass(frozen=True, slots=True)
class RuntimeCondition:
    """One condition of the CRI's ``Status``: ``RuntimeReady`` or ``NetworkReady`` (others are only kept)."""

    type: str
    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """Who the runtime is (``Version``) and how it is (``Status``)."""

    name: str
    version: str
    api_version: str
    conditions: tuple[RuntimeCondition, ...] = ()

    def condition(self, type_: str) -> RuntimeCondition | None:
        """The condition of that type, or None when the runtime did not report it."""
        return next((c for c in self.conditions if c.type == type_), None)


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """A hint from ``GetContainerEvents``: look at this pod. Never the source of a status."""

    pod_uid: str
    container_id: str
    kind: int
    created_at: int


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """One image on the node. ``uid`` is the numeric user it runs as, ``username`` the named one."""

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int = 0
    uid: int | None = None
    username: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a finished ``ExecSync`` left behind."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
