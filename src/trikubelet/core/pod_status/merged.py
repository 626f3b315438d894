"""The status for the API server: the computed status combined with the server's (upstream: mergePodStatus).

A pod's status has several writers. Conditions of other controllers, the claims of the resource-claim controller and the
fields of the scheduler are kept as the API server has them; the rest is the agent's. A terminal phase promises that
nothing of the pod runs, so it is held back while something may. A terminal phase on the server never changes again.

``equal`` decides if sending is worth it. The status writer calls these with the object it last read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.pod_status.conditions import DISRUPTION_TARGET, OWNED, SHARED
from trikubelet.core.pod_status.phase import FAILED, TERMINAL
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOT_OURS = (
    "extended_resource_claim_status",
    "node_allocatable_resource_claim_statuses",
    "nominated_node_name",
    "resize",
    "resource_claim_statuses",
)


def merge(reported: k8s.PodStatus, computed: k8s.PodStatus, *, could_run: bool, now: str) -> k8s.PodStatus:
    """Return the status to send. ``reported`` is the server's, ``computed`` the agent's; ``could_run``: a container of
    the pod may still run; ``now`` (RFC 3339): the transition time of conditions that change when sent. Merging the
    result with the same status again changes nothing."""
    ends = computed.phase in TERMINAL and reported.phase not in TERMINAL
    conditions = [c for c in reported.conditions if c.type not in OWNED]
    if ends and not could_run:
        # Published together with the end, not before: a disruption is reported only once the pod has ended.
        target = next((c for c in computed.conditions if c.type == DISRUPTION_TARGET), None)
        conditions = _with(conditions, target, now) if target is not None else conditions
    conditions += [c for c in computed.conditions if c.type in OWNED]
    merged = replace(
        computed,
        conditions=tuple(conditions),
        start_time=reported.start_time or computed.start_time,
        qos_class=reported.qos_class or computed.qos_class,  # it never changes: the server would reject another
        **{name: getattr(reported, name) for name in _NOT_OURS},
    )
    if reported.phase in TERMINAL or (ends and could_run):
        merged = replace(merged, phase=reported.phase, reason=reported.reason, message=reported.message)
    return unready_at_end(merged, now, reported.conditions)


def _with(conditions: list[k8s.PodCondition], new: k8s.PodCondition, now: str) -> list[k8s.PodCondition]:
    """Return the conditions with ``new`` in place of the one of its type, or at the end."""
    held = next((c for c in conditions if c.type == new.type), None)
    since = held.last_transition_time if held is not None and held.status == new.status else now
    new = replace(new, last_transition_time=since)
    return [new if c is held else c for c in conditions] if held is not None else [*conditions, new]


def unready_at_end(status: k8s.PodStatus, now: str, reported: Iterable[k8s.PodCondition] = ()) -> k8s.PodStatus:
    """Return the status; if its phase is terminal, with Ready and ContainersReady False: probes may not have noticed
    yet, and services must not send traffic to a pod that has ended. ``reported``: conditions whose transition times are
    kept if they were False already."""
    if status.phase not in TERMINAL:
        return status
    reason = "PodFailed" if status.phase == FAILED else "PodCompleted"
    since = {c.type: c.last_transition_time for c in reported if c.status == "False"}

    def ended(condition: k8s.PodCondition) -> k8s.PodCondition:
        if condition.type not in ("Ready", "ContainersReady") or condition.status != "True":
            return condition
        when = since.get(condition.type, now)
        return replace(condition, status="False", reason=reason, message="", last_transition_time=when)

    return replace(status, conditions=tuple(map(ended, status.conditions)))


def equal(a: k8s.PodStatus, b: k8s.PodStatus) -> bool:
    """True if two statuses agree in the fields that the agent owns. The order of conditions and of container statuses
    does not matter."""
    return _canonical(a) == _canonical(b)


def _canonical(status: k8s.PodStatus) -> k8s.PodStatus:
    ours = (c for c in status.conditions if c.type in OWNED or c.type in SHARED)
    nobodys = k8s.PodStatus()
    return replace(
        status,
        conditions=tuple(sorted(ours, key=lambda c: c.type)),
        container_statuses=_by_name(status.container_statuses),
        init_container_statuses=_by_name(status.init_container_statuses),
        ephemeral_container_statuses=_by_name(status.ephemeral_container_statuses),
        **{name: getattr(nobodys, name) for name in _NOT_OURS},
    )


def _by_name(statuses: Iterable[k8s.ContainerStatus]) -> tuple[k8s.ContainerStatus, ...]:
    return tuple(sorted(statuses, key=lambda status: status.name))
