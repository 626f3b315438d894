"""A resize in the pod's status: pending or in progress, and the events between two statuses.

Two conditions, which exist while they are true (KEP-1287). ``PodResizePending`` has the reason why the node has not
granted the spec's resources; ``PodResizeInProgress`` means that the granted ones are not in effect yet, with any error.
Each has the generation of the spec that it is about. ``conditions`` uses both, ``pods.status_publisher`` the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.resize import messages
from trikubelet.core.resize.progress import is_under_way
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import Literal

    from trikubelet.core.resize.allocation import Allocation
    from trikubelet.core.resize.verdicts import Pending
    from trikubelet.model import k8s
    from trikubelet.model.runtime import PodObservation

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
ERROR: Final = "Error"


class ResizeFacts(Frozen):
    """A pod's resizes besides its spec: its ``allocated`` resources, None if they are not kept; the pending resize; and
    why the last one could not be carried out, or ""."""

    allocated: Allocation | None = None
    pending: Pending | None = None
    error: str = ""


def resize_conditions(
    pod: k8s.Pod, observed: PodObservation, facts: ResizeFacts, before: Container[str] = ()
) -> Iterator[tuple[str, str, str, int]]:
    """Yield type, reason, message and generation of the conditions that are true of the pod, as it is allocated.
    ``before``: types of its earlier conditions."""
    if facts.pending is not None:
        yield PENDING, facts.pending.reason, facts.pending.message, facts.pending.generation
    allocated, had = facts.allocated, IN_PROGRESS in before
    if allocated is not None and is_under_way(pod, observed, allocated, before=had):
        yield IN_PROGRESS, ERROR if facts.error else "", facts.error, allocated.generation


def happened(
    pod: k8s.Pod, before: k8s.PodStatus | None, now: k8s.PodStatus
) -> Iterator[tuple[Literal["Normal", "Warning"], str, str]]:
    """Yield type, reason and message of the events between two statuses of the pod, as it is allocated."""
    old, new = _in_progress(before), _in_progress(now)
    if new is None and old is not None:
        yield "Normal", messages.COMPLETED, messages.event_message("completed", pod, old.observed_generation or 0)
    if new is not None and new.message and (old is None or old.message != new.message):
        message = messages.event_message("error", pod, new.observed_generation or 0, new.message)
        yield "Warning", messages.ERROR, message


def _in_progress(status: k8s.PodStatus | None) -> k8s.PodCondition | None:
    conditions = status.conditions if status is not None else ()
    return next((condition for condition in conditions if condition.type == IN_PROGRESS), None)
