"""Putting a pod's status together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trikubelet.core.pod_status.conditions import conditions
from trikubelet.core.pod_status.containers import ContainerFacts, container_statuses, ephemeral_statuses
from trikubelet.core.pod_status.phase import FAILED, SUCCEEDED, phase
from trikubelet.core.qos import qos_class
from trikubelet.model import k8s

if TYPE_CHECKING:
    from trikubelet.model.runtime import PodObservation


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What a status needs besides the pod and the observation. ``now`` is RFC 3339; ``is_ending``: the worker is past
    the point of return; ``reason`` and ``message``: why the pod as a whole ended, where somebody ended it."""

    now: str
    host_ips: tuple[str, ...] = ()
    previous: k8s.PodStatus | None = None
    is_ending: bool = False
    reason: str = ""
    message: str = ""
    containers: ContainerFacts = field(default_factory=ContainerFacts)


def generate(pod: k8s.Pod, observed: PodObservation, facts: StatusFacts) -> k8s.PodStatus:
    """The status of a pod as it is now. A phase that was terminal stays what it was."""
    before = facts.previous or pod.status or k8s.PodStatus()
    init = container_statuses(pod, pod.spec.init_containers, observed, facts.containers, init=True)
    regular = container_statuses(pod, pod.spec.containers, observed, facts.containers, init=False)
    by_name = {status.name: status for status in (*init, *regular)}
    now_in = phase(pod, by_name, is_ending=facts.is_ending)
    if before.phase in (SUCCEEDED, FAILED):
        now_in = before.phase
    ips = _addresses(pod, observed, facts)
    return k8s.PodStatus(
        phase=now_in,
        reason=facts.reason or before.reason,
        message=facts.message or before.message,
        conditions=conditions(pod, by_name, now_in, observed, before.conditions, facts.now),
        init_container_statuses=init,
        container_statuses=regular,
        ephemeral_container_statuses=ephemeral_statuses(pod, observed, facts.containers),
        host_ip=facts.host_ips[0] if facts.host_ips else "",
        host_ips=tuple(k8s.HostIP(ip=ip) for ip in facts.host_ips),
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(k8s.PodIP(ip=ip) for ip in ips),
        start_time=before.start_time or facts.now,
        qos_class=qos_class(pod),
    )


def _addresses(pod: k8s.Pod, observed: PodObservation, facts: StatusFacts) -> tuple[str, ...]:
    if pod.spec.host_network and observed.sandboxes:
        return facts.host_ips
    return observed.ips
