"""The vocabulary of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.names import as_container
from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.core.resize.progress import Resize
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation


class Verdict(Enum):
    """What a probe concluded about a container."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Probe verdicts by container id. A container that is missing has not been probed yet. ``restarts``: containers, by
    id, that an operator wants restarted; ``resized``: those that a resize recreates."""

    liveness: Mapping[str, Verdict] = field(default_factory=dict)
    startup: Mapping[str, Verdict] = field(default_factory=dict)
    readiness: Mapping[str, Verdict] = field(default_factory=dict)
    restarts: frozenset[str] = frozenset()
    resized: frozenset[str] = frozenset()

    def is_started(self, container: Container, container_id: str) -> bool:
        """Whether the container, which runs, has started as far as its startup probe goes."""
        return container.startup_probe is None or self.startup.get(container_id) is Verdict.SUCCESS

    def is_ready(self, container: Container, container_id: str) -> bool:
        """Whether the container, which runs, has started and serves, as far as its probes go."""
        serves = container.readiness_probe is None or self.readiness.get(container_id) is Verdict.SUCCESS
        return serves and self.is_started(container, container_id)


class KillReason(Enum):
    """Why a container is killed; the probe-level grace period applies to the probe reasons."""

    HASH_CHANGED = "its definition changed"
    LIVENESS = "its liveness probe failed"
    STARTUP = "its startup probe failed"
    ASKED = "an operator asked for it"
    RESIZED = "its resize requires a restart"
    UNKNOWN_STATE = "its state is unknown"
    POST_START = "its postStart hook failed"


RESIZED_MESSAGE: Final = "Container {} resize requires restart"
"""What the Killing event says then."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One container to stop. ``message`` is what the Killing event says."""

    status: ContainerStatus
    reason: KillReason
    message: str


@dataclass(frozen=True, slots=True)
class Reset:
    """One container to take away so that its pod starts over; ``kill``: it runs and is stopped first, at once.
    ``is_cause``: an exit of this container asks for that, so it stays until no back-off of it runs any more."""

    status: ContainerStatus
    kill: bool
    is_cause: bool = False


class Start(NamedTuple):
    """One container to start. ``target``: the container whose processes an ephemeral one shall see; ``is_asked``: an
    operator wants it again, and now; ``is_awaited``: while it cannot start, none after it is started."""

    container: Container
    target: str = ""
    is_asked: bool = False
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class PodActions:
    """What to do, in the order it is done: reset, or kill the pod or some containers, then sandbox, ephemeral, init,
    regular; ``to_resize``, containers that are changed as they run, at any time. The ``…_to_start`` fields are indices
    into the pod's spec. ``attempt`` counts the pod's sandboxes."""

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    attempt: int = 0
    to_reset: tuple[Reset, ...] = ()
    to_kill: tuple[Kill, ...] = ()
    ephemeral_to_start: tuple[int, ...] = ()
    init_to_start: tuple[int, ...] = ()
    to_start: tuple[int, ...] = ()
    to_resize: tuple[Resize, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the pod is as it should be, but for amounts of containers that run."""
        starts = self.ephemeral_to_start or self.init_to_start or self.to_start
        return not (self.kill_pod or self.create_sandbox or self.to_reset or self.to_kill or starts)

    def starts(self, pod: Pod) -> Iterator[Start]:
        """The containers to start, in order."""
        asked = {kill.status.name for kill in self.to_kill if kill.reason is KillReason.ASKED}
        for index in self.ephemeral_to_start:
            ephemeral = pod.spec.ephemeral_containers[index]
            yield Start(as_container(ephemeral), ephemeral.target_container_name, ephemeral.name in asked)
        for index in self.init_to_start:
            container = pod.spec.init_containers[index]
            yield Start(container, "", container.name in asked, is_awaited=not is_sidecar(container))
        for index in self.to_start:
            container = pod.spec.containers[index]
            yield Start(container, "", container.name in asked)

    def staying(self, observed: PodObservation) -> tuple[ContainerStatus, ...]:
        """The containers that run and that this does not end."""
        ending = {*(kill.status.id for kill in self.to_kill), *(reset.status.id for reset in self.to_reset)}
        return () if self.kill_pod else tuple(one for one in observed.running if one.id not in ending)
