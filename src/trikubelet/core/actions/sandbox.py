"""Decides if the pod's sandbox must be recreated, and what is started in the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.actions.records import PodActions
from trikubelet.core.restarts import NEVER, allows_restart, init_exit_code, is_sidecar, policy
from trikubelet.model.runtime import ContainerState, SandboxState

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import PodObservation


class SandboxNeed(NamedTuple):
    """The need for a new sandbox, the attempt it would have (or the present one has), and the present one's id; "" if
    cleanup needs none. ``why``: the reason in upstream's words, "" without a need."""

    recreate: bool
    attempt: int
    sandbox_id: str
    why: str = ""


def sandbox_need(pod: Pod, observed: PodObservation) -> SandboxNeed:
    """Compare the newest sandbox with what the pod needs (upstream: PodSandboxChanged)."""
    if not observed.sandboxes:
        return SandboxNeed(recreate=True, attempt=0, sandbox_id="", why="no pod sandbox exists")
    newest = observed.sandboxes[0]
    ready = sum(sandbox.state is SandboxState.READY for sandbox in observed.sandboxes)
    following = newest.attempt + 1
    if ready > 1:
        why = "multiple pod sandboxes are ready and need to be reconciled"
        return SandboxNeed(recreate=True, attempt=following, sandbox_id=newest.id, why=why)
    if newest.state is not SandboxState.READY:
        why = "pod sandbox is not ready"
        return SandboxNeed(recreate=True, attempt=following, sandbox_id=newest.id, why=why)
    host_network = bool(pod.spec.host_network)
    if newest.host_network != host_network:
        why = "network namespace mode changed and sandbox needs to be recreated"
        return SandboxNeed(recreate=True, attempt=following, sandbox_id="", why=why)
    if not host_network and not newest.ips:
        why = "pod sandbox has no IP address"
        return SandboxNeed(recreate=True, attempt=following, sandbox_id=newest.id, why=why)
    return SandboxNeed(recreate=False, attempt=newest.attempt, sandbox_id=newest.id)


def plan_new_sandbox(pod: Pod, observed: PodObservation, need: SandboxNeed) -> PodActions:
    """Return the actions when the sandbox must go. It is not recreated for a pod that has nothing left to run."""
    end = PodActions(kill_pod=True, attempt=need.attempt, sandbox_id=need.sandbox_id)
    names = {container.name for container in pod.spec.containers}
    if need.attempt != 0 and observed.containers and _never_restarts(pod) and not _has_unrun(pod, observed):
        return end
    to_start = tuple(
        index for index, container in enumerate(pod.spec.containers) if not _has_ended(pod, observed, container)
    )
    if not to_start and any(status.name in names for status in observed.containers):
        return end
    if pod.spec.init_containers:
        return PodActions(True, True, need.sandbox_id, need.attempt, init_to_start=(0,))
    return PodActions(True, True, need.sandbox_id, need.attempt, to_start=to_start)


def _never_restarts(pod: Pod) -> bool:
    return not any(_is_restartable(pod, container) for container in pod.spec.containers)


def _has_unrun(pod: Pod, observed: PodObservation) -> bool:
    """True if a regular container still waits for its one run, and no init container prevents that. Ending such a pod
    would leave it Pending forever: it never ran, so it cannot have failed (upstream leaves it)."""
    for container in pod.spec.init_containers:
        status = observed.latest(container.name)
        if status is None or is_sidecar(container) or status.state is ContainerState.CREATED:
            continue
        if status.state is not ContainerState.EXITED or init_exit_code(status.exit_code, status.reason) != 0:
            return False
    latest = [observed.latest(container.name) for container in pod.spec.containers]
    return any(status is None or status.state is ContainerState.CREATED for status in latest)


def _is_restartable(pod: Pod, container: Container) -> bool:
    """True if the container may run again after some exit code; a rule may allow that where the policy does not."""
    return policy(pod, container) != NEVER or bool(container.restart_policy_rules)


def _has_ended(pod: Pod, observed: PodObservation, container: Container) -> bool:
    """True if the container has ended permanently and is not started again in a new sandbox."""
    status = observed.latest(container.name)
    if status is None:
        return False
    if status.state is ContainerState.EXITED:
        return not allows_restart(pod, container, status.exit_code)
    # It runs in the old sandbox and will be killed with it: that was its one run.
    return status.state is ContainerState.RUNNING and not _is_restartable(pod, container)
