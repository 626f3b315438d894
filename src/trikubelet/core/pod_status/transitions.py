"""Did a container come back from an end that was final? A status that says so was computed from a mistake.

A container that ended may leave that state only when its rules and policy let it run again. Whoever publishes statuses
asks before it replaces one, and drops the new one, loudly, rather than show a history that cannot have happened
(upstream: checkContainerStateTransition).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import all_containers
from trikubelet.core.restarts import RESTART_ALL, allows_restart, is_sidecar

if TYPE_CHECKING:
    from trikubelet.model import k8s


def illegal_transitions(pod: k8s.Pod, before: k8s.PodStatus, after: k8s.PodStatus) -> tuple[str, ...]:
    """One sentence per container that left its final state; empty when all is well. Of containers that ended unseen
    (``ContainerStatusUnknown``) nothing is known, and where a rule may restart all of them any may come back. An init
    container that succeeded runs again when its pod gets a new sandbox."""
    if any(rule.action == RESTART_ALL for c in all_containers(pod) for rule in c.restart_policy_rules):
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
            continue  # initialisation begins anew with each sandbox
        left = new.state is None or new.state.terminated is None
        if left and not allows_restart(pod, container, ended.exit_code):
            found.append(f"container {container.name} ended for good (exit code {ended.exit_code}) and came back")
    return tuple(found)
