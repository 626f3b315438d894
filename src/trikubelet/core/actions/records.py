"""The vocabulary of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.runtime import ContainerStatus


class Verdict(Enum):
    """What a probe concluded about a container."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Probe verdicts by container id. A container that is missing has not been probed yet."""

    liveness: Mapping[str, Verdict] = field(default_factory=dict)
    startup: Mapping[str, Verdict] = field(default_factory=dict)


class KillReason(Enum):
    """Why a container is killed; the probe-level grace period applies to the probe reasons."""

    HASH_CHANGED = "its definition changed"
    LIVENESS = "its liveness probe failed"
    STARTUP = "its startup probe failed"
    UNKNOWN_STATE = "its state is unknown"
    POD_ENDS = "its pod is stopped"


@dataclass(frozen=True, slots=True)
class Kill:
    """One container to stop. ``message`` is what the Killing event says."""

    status: ContainerStatus
    reason: KillReason
    message: str


@dataclass(frozen=True, slots=True)
class Reset:
    """One container to take away so that its pod begins anew; ``kill``: it runs and is stopped first, at once."""

    status: ContainerStatus
    kill: bool


@dataclass(frozen=True, slots=True)
class PodActions:
    """What to do, in the order it is done: reset, or kill the pod or some containers, then sandbox, ephemeral, init,
    regular. The ``…_to_start`` fields are indices into the pod's spec. ``attempt`` counts the pod's sandboxes."""

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    attempt: int = 0
    to_reset: tuple[Reset, ...] = ()
    to_kill: tuple[Kill, ...] = ()
    ephemeral_to_start: tuple[int, ...] = ()
    init_to_start: tuple[int, ...] = ()
    to_start: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the pod is as it should be."""
        starts = self.ephemeral_to_start or self.init_to_start or self.to_start
        return not (self.kill_pod or self.create_sandbox or self.to_reset or self.to_kill or starts)
