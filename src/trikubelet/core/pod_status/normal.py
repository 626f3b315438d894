"""A status in the form the API server keeps: times of whole seconds, termination messages within their limit.

Applied before a status is compared with the server's or sent to it. Otherwise a status with finer times would always
differ from itself, and a pod with many long messages would outgrow its object (upstream: normalizeStatus).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.timestamps import parse_rfc3339, rfc3339
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterable

TERMINATION_MESSAGES_BYTES_MAX = 12 * 1024
_EMPTY = k8s.ContainerState()


def normalize(pod: k8s.Pod, status: k8s.PodStatus) -> k8s.PodStatus:
    """Return the status in that form. The termination messages of a pod have 12 KiB together, an equal share for each
    container; a message is cut between characters. An invalid time, which can only come from the server, is kept,
    because it must not keep the rest from being published."""
    spec = pod.spec
    containers = len(spec.containers) + len(spec.init_containers) + len(spec.ephemeral_containers)
    share = TERMINATION_MESSAGES_BYTES_MAX // max(1, containers)
    return replace(
        status,
        start_time=_seconds(status.start_time),
        conditions=tuple(map(_condition, status.conditions)),
        container_statuses=_statuses(status.container_statuses, share),
        init_container_statuses=_statuses(status.init_container_statuses, share),
        ephemeral_container_statuses=_statuses(status.ephemeral_container_statuses, share),
    )


@lru_cache(maxsize=4096)
def _seconds(time: str) -> str:
    # Nearly all times are those of the last status, and parsing them is most of the cost of normalizing.
    try:
        return rfc3339(parse_rfc3339(time)) if time else ""
    except ValueError:
        return time


def _condition(condition: k8s.PodCondition) -> k8s.PodCondition:
    return replace(
        condition,
        last_probe_time=_seconds(condition.last_probe_time),
        last_transition_time=_seconds(condition.last_transition_time),
    )


def _statuses(statuses: Iterable[k8s.ContainerStatus], share: int) -> tuple[k8s.ContainerStatus, ...]:
    return tuple(
        replace(status, state=_state(status.state, share), last_state=_state(status.last_state, share))
        for status in statuses
    )


def _state(state: k8s.ContainerState | None, share: int) -> k8s.ContainerState | None:
    if state is None or state == _EMPTY:
        return None  # the server writes {} for a missing state
    running, terminated = state.running, state.terminated
    if running is not None:
        running = replace(running, started_at=_seconds(running.started_at))
    if terminated is not None:
        terminated = replace(
            terminated,
            started_at=_seconds(terminated.started_at),
            finished_at=_seconds(terminated.finished_at),
            message=terminated.message.encode()[:share].decode(errors="ignore"),
        )
    return replace(state, running=running, terminated=terminated)
