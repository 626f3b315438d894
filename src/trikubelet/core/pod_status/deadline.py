"""A pod's ``activeDeadlineSeconds``: how long it may be at work on the node, counted from its start time.

``generate`` fails the pod when the time is over; its worker then stops what runs. Whoever decides when to look at a pod
again asks how much is left, so that the end does not wait for the next resync (upstream: active_deadline.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod

DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


def deadline_left(pod: Pod, start_time: str, now_ns: int) -> float | None:
    """Seconds until the pod's time is over, 0 when it is; None for a pod that has no deadline or has not started.
    ``start_time`` is its status's. Raises ValueError when that is not RFC 3339."""
    seconds = pod.spec.active_deadline_seconds
    if seconds is None or not start_time:
        return None
    return max(0.0, seconds - (now_ns - parse_rfc3339(start_time)) / SECOND_NS)
