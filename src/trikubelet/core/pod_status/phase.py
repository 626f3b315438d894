"""The pod's phase, counted from its container statuses (upstream: getPhase).

Init containers come first: while a plain one is pending the pod is Pending; one that failed under policy Never fails
the pod. Sidecars count only until they have started. Then the regular ones decide; sidecars' exit codes never do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.names import is_static
from trikubelet.core.restarts import allows_restart, is_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Container, ContainerStatus, Pod

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


@dataclass(slots=True)
class _Count:
    pending_init: int = 0
    pending_sidecar: int = 0
    failed_init: int = 0
    failed_init_for_good: int = 0
    waiting: int = 0
    running: int = 0
    stopped: int = 0
    succeeded: int = 0
    restartable: int = 0
    unknown: int = 0


def phase(pod: Pod, statuses: Mapping[str, ContainerStatus], *, is_ending: bool) -> str:
    """The phase. ``is_ending``: the worker is past the point of return, so what has stopped has stopped for good."""
    count = _Count()
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            _count_sidecar(count, statuses.get(container.name))
        else:
            _count_init(count, pod, container, statuses.get(container.name))
    for container in pod.spec.containers:
        _count_regular(count, pod, container, statuses.get(container.name))
    if count.failed_init_for_good:
        return FAILED
    untouched = count.running + count.stopped == 0
    if count.pending_init or count.failed_init or (count.pending_sidecar and untouched) or count.waiting:
        return PENDING
    if count.running and not count.unknown:
        return RUNNING
    if count.stopped and not count.unknown:
        return _phase_of_stopped(pod, count, is_ending=is_ending)
    return PENDING


def _phase_of_stopped(pod: Pod, count: _Count, *, is_ending: bool) -> str:
    result = SUCCEEDED if count.stopped == count.succeeded else FAILED
    if is_ending and not is_static(pod):
        return result
    return RUNNING if count.restartable else result


def _count_sidecar(count: _Count, status: ContainerStatus | None) -> None:
    state = status.state if status else None
    if status is None or state is None:
        count.pending_sidecar += 1
    elif state.running is not None:
        count.pending_sidecar += not status.started
    elif state.waiting is not None and not (status.last_state and status.last_state.terminated):
        count.pending_sidecar += 1


def _count_init(count: _Count, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
    state = status.state if status else None
    ended = state.terminated if state else None
    if ended is None and status is not None and state is not None and state.waiting is not None and status.last_state:
        ended = status.last_state.terminated
        if ended is not None and ended.exit_code == 0:
            ended = None  # it runs once more although it had succeeded: it is pending again
    if ended is None:
        count.pending_init += 1
    elif ended.exit_code != 0:
        count.failed_init += 1
        count.failed_init_for_good += not allows_restart(pod, container, ended.exit_code)


def _count_regular(count: _Count, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
    state = status.state if status else None
    if status is None or state is None:
        count.unknown += 1
    elif state.running is not None:
        count.running += 1
    elif state.terminated is not None:
        count.stopped += 1
        count.succeeded += state.terminated.exit_code == 0
        count.restartable += allows_restart(pod, container, state.terminated.exit_code)
    elif status.last_state is not None and status.last_state.terminated is not None:
        count.stopped += 1
        count.restartable += 1
    else:
        count.waiting += 1
