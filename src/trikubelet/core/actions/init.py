"""Init containers and sidecars: decides which of them to start, and if the pod is initialised.

The walk goes from the last to the first, because the newest evidence counts: the last init container that has a status
shows how far the pod got, and earlier plain ones are never run again, even if the runtime has forgotten them. Sidecars
before that point must run, in any case. A regular container that was created or runs proves that initialisation was
complete; one that exited proves nothing, since it may have exited in a sandbox before a reboot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.actions.records import RESIZED_MESSAGE, Kill, KillReason, Verdict, Verdicts
from trikubelet.core.container_hash import is_made_from
from trikubelet.core.restarts import allows_restart, init_exit_code, is_sidecar
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation


class InitPlan:
    """Collects the decisions of one walk. ``failed``: an init container failed permanently, so the pod must end."""

    def __init__(self) -> None:
        self.initialized = False
        self.failed = False
        self.to_start: list[int] = []
        self.to_kill: list[Kill] = []

    def start(self, index: int) -> None:
        """Start an init container; the walk goes backwards, the starts go forwards."""
        self.to_start.insert(0, index)

    def replace(self, index: int, status: ContainerStatus, reason: KillReason, message: str) -> None:
        """Stop a container and start it again."""
        self.to_kill.append(Kill(status, reason, message))
        self.start(index)


def plan_init(pod: Pod, observed: PodObservation, verdicts: Verdicts) -> InitPlan:
    """Walk the init containers of a pod whose sandbox exists."""
    plan = InitPlan()
    containers = pod.spec.init_containers
    regular = {container.name for container in pod.spec.containers}
    over = {ContainerState.CREATED, ContainerState.RUNNING}
    plan.initialized = not containers or any(s.name in regular and s.state in over for s in observed.containers)
    reached = plan.initialized
    for index in range(len(containers) - 1, -1, -1):
        container, status = containers[index], observed.latest(containers[index].name)
        if reached:
            if is_sidecar(container):
                _keep_sidecar(plan, index, container, status, verdicts)
            continue
        if status is None:
            continue
        reached = True
        if is_sidecar(container):
            _frontier_sidecar(plan, index, container, status, verdicts, last=index == len(containers) - 1)
        else:
            _frontier_plain(plan, index, pod, container, status, last=index == len(containers) - 1)
        if plan.failed:
            return plan
    if not reached:
        plan.start(0)
    plan.to_start.sort()
    return plan


def _frontier_plain(
    plan: InitPlan, index: int, pod: Pod, container: Container, status: ContainerStatus, *, last: bool
) -> None:
    """Decide when the newest init container with a status is a plain one."""
    exit_code = init_exit_code(status.exit_code, status.reason)
    match status.state:
        case ContainerState.RUNNING:
            return
        case ContainerState.CREATED:
            plan.start(index)
        case ContainerState.EXITED if exit_code == 0:
            plan.initialized = last
            if not last:
                plan.start(index + 1)
        case ContainerState.EXITED:
            if _may_run_again(pod, container, exit_code):
                plan.start(index)
            else:
                plan.failed = True
        case ContainerState.UNKNOWN:
            # It may still run: it counts as failed, and is stopped to be sure.
            if _may_run_again(pod, container, 1):
                message = f"Init container {container.name} is in unknown state, try killing it before restart"
                plan.replace(index, status, KillReason.UNKNOWN_STATE, message)
            else:
                plan.failed = True


def _may_run_again(pod: Pod, container: Container, exit_code: int) -> bool:
    """True if it may run again. A plain init container is done when it succeeds, so Always equals OnFailure."""
    return allows_restart(pod, container, exit_code)


def _frontier_sidecar(
    plan: InitPlan, index: int, container: Container, status: ContainerStatus, verdicts: Verdicts, *, last: bool
) -> None:
    """Decide when the newest init container with a status is a sidecar: once it has started, the next one may start."""
    if status.state is not ContainerState.RUNNING:
        _keep_sidecar(plan, index, container, status, verdicts)
        return
    startup = verdicts.startup.get(status.id, Verdict.UNKNOWN) if container.startup_probe else Verdict.SUCCESS
    if startup is Verdict.FAILURE:
        message = f"Init container {container.name} failed startup probe"
        plan.replace(index, status, KillReason.STARTUP, message)
        return
    if startup is Verdict.UNKNOWN:
        return
    plan.initialized = last
    if not last:
        plan.start(index + 1)
    _keep_sidecar(plan, index, container, status, verdicts)


def _keep_sidecar(
    plan: InitPlan, index: int, container: Container, status: ContainerStatus | None, verdicts: Verdicts
) -> None:
    """Start a sidecar that must run, or replace it if it is not in its desired state."""
    if status is None or status.state in (ContainerState.EXITED, ContainerState.CREATED):
        plan.start(index)
    elif status.state is ContainerState.UNKNOWN:
        message = f"Init container {container.name} is in unknown state, try killing it before restart"
        plan.replace(index, status, KillReason.UNKNOWN_STATE, message)
    elif not is_made_from(container, status.hash):
        message = f"Init container {container.name} definition changed"
        plan.replace(index, status, KillReason.HASH_CHANGED, message)
    elif verdicts.liveness.get(status.id) is Verdict.FAILURE:
        message = f"Init container {container.name} failed liveness probe"
        plan.replace(index, status, KillReason.LIVENESS, message)
    elif container.startup_probe and verdicts.startup.get(status.id) is Verdict.FAILURE:
        message = f"Init container {container.name} failed startup probe"
        plan.replace(index, status, KillReason.STARTUP, message)
    elif status.id in verdicts.restarts:
        message = f"Init container {container.name}: a restart was asked for, will be restarted"
        plan.replace(index, status, KillReason.ASKED, message)
    elif status.id in verdicts.resized:
        plan.replace(index, status, KillReason.RESIZED, RESIZED_MESSAGE.format(container.name))
