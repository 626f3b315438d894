"""The range of a pod's priority in metrics about resizes (``priority_bucket``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.names import SYSTEM_CRITICAL_PRIORITY

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod

NORMAL: Final = "normal"
_FROM: Final = (
    (SYSTEM_CRITICAL_PRIORITY, "system-critical"),
    (100_000, "high"),
    (1, "medium"),
    (0, NORMAL),
    (-999, "low"),
)


def priority_bucket(pod: Pod | None) -> str:
    """Return upstream's name of the range; ``unknown`` without a pod."""
    if pod is None:
        return "unknown"
    priority = pod.spec.priority or 0
    return next((name for least, name in _FROM if priority >= least), "very-low")
