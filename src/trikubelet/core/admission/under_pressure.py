"""Chooses the pods that a node under pressure rejects (upstream: the admit handler of the eviction manager).

A critical pod is always admitted. If only memory is short, so is a pod that is not BestEffort, or that tolerates the
taint of such a node. Any other shortage keeps all other pods out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.admission.taints import tolerates
from trikubelet.core.eviction.thresholds import MEMORY_PRESSURE
from trikubelet.core.names import is_critical
from trikubelet.core.qos import BEST_EFFORT, qos_class
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Sequence

_TAINT: Final = k8s.Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")


def is_kept_out(pod: k8s.Pod, pressures: Sequence[str]) -> bool:
    """True if a node with these pressure conditions rejects the pod."""
    if not pressures or is_critical(pod):
        return False
    if list(pressures) != [MEMORY_PRESSURE]:
        return True
    return qos_class(pod) == BEST_EFFORT and not any(tolerates(one, _TAINT) for one in pod.spec.tolerations)
