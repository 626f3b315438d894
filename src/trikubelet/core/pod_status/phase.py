"""The pod's phase, computed from its container statuses (upstream: getPhase).

Init containers come first: while a plain one is pending the pod is Pending; one that failed and may not run again fails
the pod. A sidecar holds the pod back only until it was created; regular containers start after it, and hold the pod
back themselves. While a sidecar runs the pod runs, so a terminal phase is never shown with a live container. A
sidecar's exit never counts; the regular containers decide.

While a pod starts over (RestartAllContainers) no end is permanent, whatever the policy: the agent removed the
containers. That holds until each container was created again, as its status shows: until then it waits, and has no id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.names import all_containers, is_static
from trikubelet.core.restarts import RESTART_ALL, allows_restart, init_exit_code, is_sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Container, ContainerStateTerminated, ContainerStatus, Pod

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = frozenset({SUCCEEDED, FAILED})


class _Count(msgspec.Struct):
    """Counts of plain init containers, of regular containers alone, and of regular ones together with sidecars."""

    pending_init: int = 0
    failed_init: int = 0
    failed_init_for_good: int = 0

    stopped: int = 0
    succeeded: int = 0
    restartable: int = 0

    waiting: int = 0
    running: int = 0
    unknown: int = 0


def phase(pod: Pod, statuses: Mapping[str, ContainerStatus], *, is_ending: bool, is_starting_over: bool = False) -> str:
    """Return the phase. ``is_ending``: the worker began to stop the pod, so stopped containers stay so;
    ``is_starting_over``: a container whose exit restarts all still exists."""
    count, may_start_over = _Count(), not is_ending and _may_start_over(pod)
    for container in pod.spec.init_containers:
        status = statuses.get(container.name)
        if is_sidecar(container):
            _count_sidecar(count, status)
        elif not (is_starting_over and status is not None and last_exit(status) is not None):
            _count_init(count, pod, container, status, may_start_over=may_start_over)
    for container in pod.spec.containers:
        status = statuses.get(container.name)
        goes_on = may_start_over and (is_starting_over or _is_taken_away(status))
        _count_regular(count, pod, container, status, is_ending=is_ending, goes_on=goes_on)
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
    """Return the container's end, or its last one while it waits; None while it runs and before its first end."""
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


def _count_init(
    count: _Count, pod: Pod, container: Container, status: ContainerStatus | None, *, may_start_over: bool
) -> None:
    exit_ = last_exit(status) if status is not None else None
    code = init_exit_code(exit_.exit_code, exit_.reason) if exit_ is not None else 0
    waits = status is not None and status.state is not None and status.state.waiting is not None
    if exit_ is None or (waits and code == 0) or (may_start_over and _is_taken_away(status)):
        count.pending_init += 1  # one that waits after it had succeeded runs once more, in a new sandbox
    elif code != 0:
        count.failed_init += 1
        count.failed_init_for_good += not allows_restart(pod, container, code)


def _count_regular(
    count: _Count, pod: Pod, container: Container, status: ContainerStatus | None, *, is_ending: bool, goes_on: bool
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
        # A waiting container is not done, even if its last run succeeded.
        count.succeeded += state.terminated is not None and exit_.exit_code == 0
        is_recreated = not is_ending and _is_recreated(status, exit_)
        count.restartable += goes_on or is_recreated or allows_restart(pod, container, exit_.exit_code)


def _is_recreated(status: ContainerStatus, exit_: ContainerStateTerminated) -> bool:
    """True if a new container, not the one that ended, waits for its start.

    A failed liveness probe or an edit recreates it whatever the policy for the last exit code; an agent that is stopped
    between creation and start leaves it for the next one to start.
    """
    waits = status.state is not None and status.state.waiting is not None
    return waits and bool(status.container_id) and status.container_id != exit_.container_id


def _may_start_over(pod: Pod) -> bool:
    return any(rule.action == RESTART_ALL for one in all_containers(pod) for rule in one.restart_policy_rules)


def _is_taken_away(status: ContainerStatus | None) -> bool:
    """True if the container must be recreated after all were removed: it waits without an id. After an unobserved loss
    the policy decides, as in any pod."""
    if status is None or status.state is None or status.state.waiting is None or status.container_id:
        return False
    ended = last_exit(status)
    return ended is None or ended.reason != "ContainerStatusUnknown"
