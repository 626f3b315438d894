"""Decides when the API server may hear that a pod has ended: after the end is on the disk.

A StatefulSet's next pod may start elsewhere on that word. If the end were lost in a power cut, this node would start
the old one from its store. A disk that does not take the record must not keep pods for ever either: after a limit the
server hears of the end all the same, and the operator of the missing record. (docs/decisions/0046)
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.core.pod_status import Patch, Remove
from trikubelet.core.pod_status.phase import TERMINAL
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

END_WAIT_SECONDS_MAX: Final = 60.0


class End(Frozen):
    """The end of one pod. ``asked_at``: when the server was first to hear of it, in seconds."""

    asked_at: float
    is_recorded: bool = False


class Confirmation(Enum):
    """The answer to a writer that is about to confirm an end."""

    WAITS = "waits"
    CONFIRMED = "confirmed"
    LATE = "late"


def confirms_end(step: Patch | Remove) -> bool:
    """True if the write tells the server that a pod has ended. A patch does so only with a terminal phase in its body:
    an end that is held back is not sent."""
    if isinstance(step, Remove):
        return True
    status = step.body.get("status")
    return _phase(status) in TERMINAL if isinstance(status, dict) else False


def confirmation(end: End, now: float) -> Confirmation:
    """Return whether the server may hear of the end now."""
    if end.is_recorded:
        return Confirmation.CONFIRMED
    return Confirmation.LATE if now - end.asked_at >= END_WAIT_SECONDS_MAX else Confirmation.WAITS


def _phase(status: Mapping[str, object]) -> object:
    return status.get("phase")
