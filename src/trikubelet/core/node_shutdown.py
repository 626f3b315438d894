"""Shutdown of the machine: the order in which its pods end, and the time for each.

    shutdownGracePeriod 30 s, of which 10 s for critical pods ─► priority 0: 20 s, then 2000000000: 10 s
    shutdownGracePeriodByPodPriority                          ─► its entries, the lowest priority first

Pods of a group end together; the next group begins when the last one has ended, or its time is over. Reasons and
messages are upstream's (nodeshutdown_manager.go).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from trikubelet.core.admission import Rejection
from trikubelet.core.names import SYSTEM_CRITICAL_PRIORITY
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model import k8s
    from trikubelet.model.kubelet_configuration import KubeletConfiguration

REASON: Final = "Terminated"
MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
NOT_READY: Final = "node is shutting down"
"""Why the node is not ready during a shutdown."""
REJECTION: Final = Rejection("NodeShutdown", "Pod was rejected as the node is shutting down.")


class ShutdownGroup(Frozen):
    """Pods with at least this priority, and less than the next group's, have ``seconds`` to end."""

    priority: int
    seconds: int


def shutdown_groups(configuration: KubeletConfiguration) -> tuple[ShutdownGroup, ...]:
    """Return the groups in the order in which they end; none if the node must not wait for its pods."""
    entries = configuration.shutdown_grace_period_by_pod_priority
    if entries:
        found = [ShutdownGroup(one.priority, one.shutdown_grace_period_seconds) for one in entries]
        return tuple(sorted(found, key=lambda group: group.priority)) if any(one.seconds for one in found) else ()
    total = int(configuration.shutdown_grace_period)
    critical = int(configuration.shutdown_grace_period_critical_pods)
    if total <= 0:
        return ()
    return ShutdownGroup(0, total - critical), ShutdownGroup(SYSTEM_CRITICAL_PRIORITY, critical)


def delay_seconds(groups: Sequence[ShutdownGroup]) -> int:
    """Return how long the machine must wait for all groups."""
    return sum(group.seconds for group in groups)


def group_of(pod: k8s.Pod, groups: Sequence[ShutdownGroup]) -> int:
    """Return the index of the pod's group; a pod below the lowest priority ends with the first."""
    return max(0, bisect_right([group.priority for group in groups], pod.spec.priority or 0) - 1)


def grace_seconds(pod: k8s.Pod, group: ShutdownGroup) -> int:
    """Return the pod's own grace, or the time of its group if that is less."""
    own = pod.spec.termination_grace_period_seconds
    return group.seconds if own is None else min(own, group.seconds)
