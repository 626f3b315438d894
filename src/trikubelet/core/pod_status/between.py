"""Compares two statuses of a pod: the ends of containers, and containers that came back or could not have.

The publisher of statuses makes both checks before it replaces one. A container that ended permanently may leave that
state only if its rules and policy let it run again: a status that claims otherwise was computed from a mistake, and is
dropped with an error rather than shown (upstream: checkContainerStateTransition).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import CONTAINER, EPHEMERAL_CONTAINER, INIT_CONTAINER, all_containers
from trikubelet.core.restarts import RESTART_ALL, allows_restart, is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.model import k8s


def illegal_transitions(pod: k8s.Pod, before: k8s.PodStatus, after: k8s.PodStatus) -> tuple[str, ...]:
    """Return one sentence per container that left its final state; empty if there is none. Containers with an
    unobserved end (``ContainerStatusUnknown``) are skipped, and if a rule may restart all containers any may come back.
    An init container that succeeded runs again when its pod gets a new sandbox."""
    if _may_restart_all(pod):
        return ()
    sidecars = {container.name for container in pod.spec.init_containers if is_sidecar(container)}
    init = {container.name for container in pod.spec.init_containers}
    shown = {status.name: status for status in (*after.init_container_statuses, *after.container_statuses)}
    held = {status.name: status for status in (*before.init_container_statuses, *before.container_statuses)}
    found = []
    for container in all_containers(pod):
        old, new = held.get(container.name), shown.get(container.name)
        ended = old.state.terminated if old is not None and old.state is not None else None
        if ended is None or new is None or container.name in sidecars or ended.reason == "ContainerStatusUnknown":
            continue
        if container.name in init and ended.exit_code == 0:
            continue  # initialisation starts over with each sandbox
        left = new.state is None or new.state.terminated is None
        if left and not allows_restart(pod, container, ended.exit_code):
            found.append(f"container {container.name} ended permanently (exit code {ended.exit_code}) and came back")
    return tuple(found)


def comes_back(pod: k8s.Pod, before: k8s.PodStatus, after: k8s.PodStatus) -> bool:
    """True if a container that ended permanently in one status did not in the other. API servers reject that, whatever
    the reason of the end, even for init containers that a new sandbox runs again."""
    if _may_restart_all(pod):
        return False
    ended = {one.name: one.state.terminated for one in _containers(before) if one.state is not None}
    back = {one.name for one in _containers(after) if one.state is None or one.state.terminated is None}
    return any(
        (end := ended.get(container.name)) is not None
        and container.name in back
        and not allows_restart(pod, container, end.exit_code)
        for container in all_containers(pod)
    )


def _may_restart_all(pod: k8s.Pod) -> bool:
    return any(rule.action == RESTART_ALL for c in all_containers(pod) for rule in c.restart_policy_rules)


def _containers(status: k8s.PodStatus) -> Iterator[k8s.ContainerStatus]:
    yield from (*status.init_container_statuses, *status.container_statuses)


def ends(before: k8s.PodStatus, now: k8s.PodStatus) -> list[tuple[str, int, str]]:
    """Return the container's kind, exit code and reason for each run that ended."""
    known = {end.container_id for _, end in _ended(before)}
    return [(kind, end.exit_code, end.reason) for kind, end in _ended(now) if end.container_id not in known]


def _ended(status: k8s.PodStatus) -> Iterator[tuple[str, k8s.ContainerStateTerminated]]:
    for kind, containers in (
        (INIT_CONTAINER, status.init_container_statuses),
        (CONTAINER, status.container_statuses),
        (EPHEMERAL_CONTAINER, status.ephemeral_container_statuses),
    ):
        for one in containers:
            for state in (one.last_state, one.state):
                if state is not None and state.terminated is not None and state.terminated.container_id:
                    yield kind, state.terminated
