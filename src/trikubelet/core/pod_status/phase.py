"""The pod's phase, counted from its container statuses (upstream: getPhase).

Init containers come first: while a plain one is pending the pod is Pending; one that failed and may not run again fails
the pod. A sidecar holds the pod back only until it was made; until it has started no regular container is, and those
hold the pod back themselves. While a sidecar runs the pod runs, so a terminal phase is never shown beside a live
container. How a sidecar ended never counts; the regular ones decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.names import is_static
from trikubelet.core.restarts import allows_restart, is_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Container, ContainerStateTerminated, ContainerStatus, Pod

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = frozenset({SUCCEEDED, FAILED})


@dataclass(slots=True)
class _Count:
    """Plain init containers, regular containers alone, and regular ones together with sidecars."""

    pending_init: int = 0
    failed_init: int = 0
    failed_init_for_good: int = 0

    stopped: int = 0
    succeeded: int = 0
    restartable: int = 0

    waiting: int = 0
    running: int = 0
    unknown: int = 0


def phase(pod: Pod, statuses: Mapping[str, ContainerStatus], *, is_ending: bool) -> str:
    """The phase. ``is_ending``: the worker is past the point of return, so what has stopped has stopped permanently."""
    count = _Count()
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            _count_sidecar(count, statuses.get(container.name))
        else:
            _count_init(count, pod, container, statuses.get(container.name))
    for container in pod.spec.containers:
        _count_regular(count, pod, container, statuses.get(container.name), is_ending=is_ending)
    if count.failed_init_for_good:
        return FAILED
    if count.pending_init or count.failed_init or count.waiting or count.unknown:
        return PENDING
    if count.running:
        return RUNNING
    return _phase_of_stopped(pod, count, is_ending=is_ending) if count.stopped else PENDING


def _phase_of_stopped(pod: Pod, count: _Count, *, is_ending: bool) -> str:
    result = SUCCEEDED if count.stopped == count.succeeded else FAILED
    if is_ending and not is_static(pod):
        return result
    return RUNNING if count.restartable else result


def last_exit(status: ContainerStatus) -> ContainerStateTerminated | None:
    """How the container ended, or ended last before it waits; None while it runs and before it ever ended."""
    if status.state is not None and status.state.terminated is not None:
        return status.state.terminated
    if status.state is not None and status.state.running is not None:
        return None
    return status.last_state.terminated if status.last_state is not None else None


def _count_sidecar(count: _Count, status: ContainerStatus | None) -> None:
    state = status.state if status else None
    if status is None or state is None:
        count.unknown += 1
    elif state.running is not None:
        count.running += 1
    elif last_exit(status) is None:
        count.waiting += 1


def _count_init(count: _Count, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
    exit_ = last_exit(status) if status is not None else None
    waits = status is not None and status.state is not None and status.state.waiting is not None
    if exit_ is None or (waits and exit_.exit_code == 0):
        count.pending_init += 1  # one that waits although it had succeeded runs once more, in a new sandbox
    elif exit_.exit_code != 0:
        count.failed_init += 1
        count.failed_init_for_good += not allows_restart(pod, container, exit_.exit_code)


def _count_regular(
    count: _Count, pod: Pod, container: Container, status: ContainerStatus | None, *, is_ending: bool
) -> None:
    state = status.state if status else None
    if status is None or state is None:
        count.unknown += 1
        return
    exit_ = last_exit(status)
    if state.running is not None:
        count.running += 1
    elif exit_ is None:
        count.waiting += 1
    else:
        count.stopped += 1
        # One that waits is not done, however well it ended before.
        count.succeeded += state.terminated is not None and exit_.exit_code == 0
        goes_on = not is_ending and _is_recreated(status, exit_)
        count.restartable += goes_on or allows_restart(pod, container, exit_.exit_code)


def _is_recreated(status: ContainerStatus, exit_: ContainerStateTerminated) -> bool:
    """Whether another container than the one that ended waits for its start.

    A failed liveness probe or an edit has it made whatever the policy says of the code of the one before; an agent that
    is stopped between making and starting it leaves it for the next one to start.
    """
    waits = status.state is not None and status.state.waiting is not None
    return waits and bool(status.container_id) and status.container_id != exit_.container_id
