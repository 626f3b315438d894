"""Finds the obstacle to a pod's start, for a caller that does not wait forever (``trikubelet run``).

A node retries forever, because an operator may fix the fault. A caller that runs one pod to its end must know if that
end can come, and if the obstacle can go away by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.core.restarts import BACKS_OFF, RUN_CONTAINER_ERROR

if TYPE_CHECKING:
    from trikubelet.model import k8s

_STAYS: Final = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})
"""Faults in the pod and the objects it uses: the next try fails alike."""
_MAY_GO: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
        *("CreateContainerError", RUN_CONTAINER_ERROR),
    }
)
"""Faults outside the pod: a registry or a runtime may answer differently the next time."""
_NEVER_RAN: Final = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons with which a runtime ends a container whose process it could not start."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle to a pod's start. ``about``: the container, or ""; ``may_go``: it can go away by itself."""

    about: str
    reason: str
    message: str
    may_go: bool

    def __str__(self) -> str:
        about = f"container {self.about}: " if self.about else ""
        return f"{about}{self.reason}: {self.message}" if self.message else f"{about}{self.reason}"


def obstacle(pod: k8s.Pod, sync_error: str) -> Obstacle | None:
    """Return the obstacle to the start of the pod or one of its containers; None without one. A container that has run
    is no obstacle, however it ended. ``sync_error``: why the pod's last sync failed, as ``Reason: message``."""
    if pod.status is None:
        return None
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for status in statuses:
        if (found := _of_container(status)) is not None:
            return found
    if sync_error and all(map(_is_untouched, statuses)):
        reason, _, message = sync_error.partition(": ")
        return Obstacle("", reason, message, may_go=True)
    return None


def _of_container(status: k8s.ContainerStatus) -> Obstacle | None:
    waiting = status.state.waiting if status.state is not None else None
    if waiting is None:
        return None
    ended = status.last_state.terminated if status.last_state is not None else None
    if waiting.reason in BACKS_OFF and ended is not None and ended.reason in _NEVER_RAN:
        return Obstacle(status.name, ended.reason, ended.message, may_go=True)
    if waiting.reason in _STAYS | _MAY_GO:
        return Obstacle(status.name, waiting.reason, waiting.message, may_go=waiting.reason in _MAY_GO)
    return None


def _is_untouched(status: k8s.ContainerStatus) -> bool:
    """True if the container was never started."""
    return status.last_state is None and (status.state is None or status.state.waiting is not None)
