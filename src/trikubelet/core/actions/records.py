"""The records of a plan."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import field

from trikubelet.core.names import as_container
from trikubelet.core.restarts import is_sidecar
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.core.resize.progress import Resize
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation


class Verdict(Enum):
    """The conclusion of a probe about a container."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class Verdicts(Frozen):
    """Probe verdicts by container id. A missing container has not been probed yet. ``restarts``: the ids of containers
    that an operator wants restarted; ``resized``: of those that a resize recreates."""

    liveness: Mapping[str, Verdict] = field(default_factory=dict)
    startup: Mapping[str, Verdict] = field(default_factory=dict)
    readiness: Mapping[str, Verdict] = field(default_factory=dict)
    restarts: frozenset[str] = frozenset()
    resized: frozenset[str] = frozenset()

    def is_started(self, container: Container, container_id: str) -> bool:
        """True if the running container has started, as far as its startup probe tells."""
        return container.startup_probe is None or self.startup.get(container_id) is Verdict.SUCCESS

    def is_ready(self, container: Container, container_id: str) -> bool:
        """True if the running container has started and is ready, as far as its probes tell."""
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
"""The Killing event's message for a resize."""


class Kill(Frozen):
    """One container to stop. ``message``: that of the Killing event."""

    status: ContainerStatus
    reason: KillReason
    message: str


class Reset(Frozen):
    """One container to remove so that its pod starts over; ``kill``: it runs and is stopped first, at once.
    ``is_cause``: an exit of this container triggered the restart, so it is kept until its back-off is over."""

    status: ContainerStatus
    kill: bool
    is_cause: bool = False


class Start(NamedTuple):
    """One container to start. ``target``: the container whose processes an ephemeral one shares; ``is_asked``: an
    operator wants it restarted, and at once; ``is_awaited``: while it cannot start, later ones are not started."""

    container: Container
    target: str = ""
    is_asked: bool = False
    is_awaited: bool = False


class PodActions(Frozen):
    """The actions, in the order of their execution: reset, or kill the pod or some containers, then sandbox, ephemeral,
    init, regular; ``to_resize``, running containers whose amounts change, at any time. The ``…_to_start`` fields are
    indices into the pod's spec. ``attempt`` counts the pod's sandboxes."""

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
        """True if the pod is in its desired state, except for amounts of running containers."""
        starts = self.ephemeral_to_start or self.init_to_start or self.to_start
        return not (self.kill_pod or self.create_sandbox or self.to_reset or self.to_kill or starts)

    def starts(self, pod: Pod) -> Iterator[Start]:
        """Yield the containers to start, in order."""
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
        """Return the running containers that these actions do not end."""
        ending = {*(kill.status.id for kill in self.to_kill), *(reset.status.id for reset in self.to_reset)}
        return () if self.kill_pod else tuple(one for one in observed.running if one.id not in ending)
