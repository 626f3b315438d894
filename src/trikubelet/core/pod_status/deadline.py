"""A pod's ``activeDeadlineSeconds``: how long it may be active on the node, counted from its start time.

``generate`` fails the pod when the time is over; its worker then stops its containers. The scheduler of syncs uses the
remaining time, so that the end does not wait for the next resync (upstream: active_deadline.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod

DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


def deadline_left(pod: Pod, start_time: str, now_ns: int) -> float | None:
    """Return the seconds until the pod's time is over, 0 if it is; None without a deadline or before the start.
    ``start_time`` is the status's. Raises ValueError if it is not RFC 3339."""
    seconds = pod.spec.active_deadline_seconds
    if seconds is None or not start_time:
        return None
    return max(0.0, seconds - (now_ns - parse_rfc3339(start_time)) / SECOND_NS)
