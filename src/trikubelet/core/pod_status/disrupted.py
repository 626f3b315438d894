"""The status of a pod that the node ends: preempted for a critical pod, evicted, or because of a shutdown."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from trikubelet.core.pod_status.conditions import DISRUPTION_TARGET
from trikubelet.core.pod_status.merged import unready_at_end
from trikubelet.core.pod_status.phase import FAILED
from trikubelet.model import k8s

TERMINATION_BY_KUBELET: Final = "TerminationByKubelet"


def disrupted(
    pod: k8s.Pod, shown: k8s.PodStatus, now: str, *, reason: str, message: str, why: str = ""
) -> k8s.PodStatus:
    """Return the last status as Failed, with that reason and message, and with the condition DisruptionTarget whose
    message is ``why``, by default the same. ``now`` is RFC 3339. The failure is reported to the cluster only once
    nothing of the pod runs."""
    target = k8s.PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=TERMINATION_BY_KUBELET,
        message=why or message,
        last_transition_time=now,
        observed_generation=pod.metadata.generation,
    )
    conditions = (*(one for one in shown.conditions if one.type != DISRUPTION_TARGET), target)
    return failed_by_node(replace(shown, conditions=conditions), now, reason=reason, message=message)


def failed_by_node(shown: k8s.PodStatus, now: str, *, reason: str, message: str) -> k8s.PodStatus:
    """Return the same for a pod that ends because it exceeded its own limit, without a disruption."""
    return unready_at_end(replace(shown, phase=FAILED, reason=reason, message=message), now)
