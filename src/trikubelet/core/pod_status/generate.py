"""Computes a pod's status."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import field

from trikubelet.core.actions.restart_all import causes
from trikubelet.core.pod_status.amounts import given_to_all
from trikubelet.core.pod_status.conditions import conditions, known_conditions
from trikubelet.core.pod_status.containers import ContainerFacts, container_statuses, ephemeral_statuses
from trikubelet.core.pod_status.deadline import DEADLINE_EXCEEDED, DEADLINE_MESSAGE, deadline_left
from trikubelet.core.pod_status.phase import FAILED, TERMINAL, phase
from trikubelet.core.pod_status.resizing import ResizeFacts
from trikubelet.core.qos import qos_class
from trikubelet.core.timestamps import parse_rfc3339, rfc3339
from trikubelet.model import k8s
from trikubelet.model.frozen import Frozen
from trikubelet.model.pod_notes import NotedLife

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model.runtime import PodObservation


class StatusFacts(Frozen):
    """The facts for a status besides the pod and the observation. ``now`` is RFC 3339; ``is_ending``: the worker began
    to stop the pod; ``reason`` and ``message``: why the pod as a whole was ended, if it was; ``noted``: an earlier
    agent's record of it."""

    now: str
    host_ips: tuple[str, ...] = ()
    previous: k8s.PodStatus | None = None
    is_ending: bool = False
    reason: str = ""
    message: str = ""
    noted: NotedLife = field(default_factory=NotedLife)
    containers: ContainerFacts = field(default_factory=ContainerFacts)
    resize: ResizeFacts = field(default_factory=ResizeFacts)


def generate(pod: k8s.Pod, observed: PodObservation, facts: StatusFacts) -> k8s.PodStatus:
    """Return the present status of a pod with its allocated resources. A terminal phase never changes."""
    reported = pod.status or k8s.PodStatus()
    before = facts.previous or reported
    known = replace(facts.containers, attempts=facts.noted.attempts)
    if not known.previous:
        known = replace(known, previous={status.name: status for status in every_status(before)})
    if facts.resize.allocated is not None:
        known = replace(known, made=facts.resize.allocated.made)
    init, regular = _init_and_regular(pod, observed, known)
    by_name = {status.name: status for status in (*init, *regular)}
    is_starting_over = not facts.is_ending and bool(causes(pod, observed))
    now_in = phase(pod, by_name, is_ending=facts.is_ending, is_starting_over=is_starting_over)
    # The record only counts without containers: otherwise their ends and the present policy do.
    noted = facts.noted.as_status() if not observed.containers else k8s.PodStatus()
    ended = next((status for status in (before, reported, noted) if status.phase in TERMINAL), None)
    if ended is not None:
        now_in, before = ended.phase, ended
    # The reason of a phase does not apply to the next one.
    why = before if before.phase == now_in else k8s.PodStatus()
    start_time = before.start_time or reported.start_time or facts.noted.start_time or _first_seen(observed, facts.now)
    if now_in not in TERMINAL and deadline_left(pod, start_time, parse_rfc3339(facts.now)) == 0:
        now_in, why = FAILED, k8s.PodStatus(reason=DEADLINE_EXCEEDED, message=DEADLINE_MESSAGE)
    if now_in in TERMINAL or facts.is_ending:  # nothing is created again; the phase accounts for that already
        init, regular = _init_and_regular(pod, observed, replace(known, is_over=True))
        by_name = {status.name: status for status in (*init, *regular)}
    ips = _addresses(pod, observed, facts)
    allocated = facts.resize.allocated
    own = pod.spec.resources if allocated is None else allocated.pod_made
    resources, requests = given_to_all(pod, (*init, *regular), own)
    return k8s.PodStatus(
        phase=now_in,
        reason=facts.reason or why.reason,
        message=facts.message or why.message,
        conditions=conditions(
            pod, by_name, now_in, observed, known_conditions(pod, facts.previous), facts.now, facts.resize
        ),
        init_container_statuses=init,
        container_statuses=regular,
        ephemeral_container_statuses=ephemeral_statuses(pod, observed, known),
        host_ip=facts.host_ips[0] if facts.host_ips else "",
        host_ips=tuple(k8s.HostIP(ip=ip) for ip in facts.host_ips),
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(k8s.PodIP(ip=ip) for ip in ips),
        start_time=start_time,
        qos_class=qos_class(pod),
        observed_generation=pod.metadata.generation,
        resources=resources,
        allocated_resources=requests,
    )


def _init_and_regular(
    pod: k8s.Pod, observed: PodObservation, known: ContainerFacts
) -> tuple[tuple[k8s.ContainerStatus, ...], tuple[k8s.ContainerStatus, ...]]:
    init = container_statuses(pod, pod.spec.init_containers, observed, known, init=True)
    return init, container_statuses(pod, pod.spec.containers, observed, known, init=False)


def every_status(status: k8s.PodStatus) -> Iterator[k8s.ContainerStatus]:
    """Yield the statuses of all containers; their names are unique within a pod."""
    yield from status.init_container_statuses
    yield from status.container_statuses
    yield from status.ephemeral_container_statuses


def _first_seen(observed: PodObservation, now: str) -> str:
    """Return when the pod began if no status shows it: with its oldest sandbox, so that it does not become younger when
    the agent restarts, as API servers do not keep a static pod's start. Sandboxes of earlier instances do not count,
    because their activeDeadlineSeconds would be applied to this one."""
    own = (sandbox for sandbox in observed.sandboxes if sandbox.id not in observed.earlier)
    made = [sandbox.created_at for sandbox in own if sandbox.created_at > 0]
    return min(rfc3339(min(made)), now) if made else now


def _addresses(pod: k8s.Pod, observed: PodObservation, facts: StatusFacts) -> tuple[str, ...]:
    if pod.spec.host_network and observed.sandboxes:
        return facts.host_ips
    return observed.ips
