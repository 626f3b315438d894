"""Regular and ephemeral containers of a pod whose sandbox exists and which is initialised."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.actions.records import RESIZED_MESSAGE, Kill, KillReason, Verdict, Verdicts
from trikubelet.core.container_hash import is_made_from
from trikubelet.core.restarts import NEVER, policy, should_restart
from trikubelet.model.runtime import ContainerState

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation


class RegularPlan(NamedTuple):
    """Indices to start, containers to kill, and the number of those that run on."""

    to_start: tuple[int, ...]
    to_kill: tuple[Kill, ...]
    kept: int


def plan_regular(pod: Pod, observed: PodObservation, verdicts: Verdicts) -> RegularPlan:
    """Decide each regular container by itself."""
    to_start: list[int] = []
    to_kill: list[Kill] = []
    kept = 0
    for index, container in enumerate(pod.spec.containers):
        status = observed.latest(container.name)
        if status is None or status.state is not ContainerState.RUNNING:
            if should_restart(pod, container, status):
                to_start.append(index)
                if status is not None and status.state is ContainerState.UNKNOWN:
                    message = f"Container {container.name} is in unknown state, try killing it before restart"
                    to_kill.append(Kill(status, KillReason.UNKNOWN_STATE, message))
            continue
        kill = _why_kill(container, status, verdicts)
        if kill is None:
            kept += 1
            continue
        # A changed definition makes a new container; a failed probe obeys the policy, because rules are about exits.
        replaces = kill.reason in (KillReason.HASH_CHANGED, KillReason.RESIZED)
        again = replaces or policy(pod, container) != NEVER
        ending = ", will be restarted" if again and kill.reason is not KillReason.RESIZED else ""
        to_kill.append(Kill(status, kill.reason, kill.message + ending))
        if again:
            to_start.append(index)
    return RegularPlan(tuple(to_start), tuple(to_kill), kept)


def are_over(pod: Pod, observed: PodObservation) -> bool:
    """True if every regular container has ended, in any sandbox, and none will run again."""
    newest = [(container, observed.latest(container.name)) for container in pod.spec.containers]
    return all(
        status is not None and status.state is ContainerState.EXITED and not should_restart(pod, container, status)
        for container, status in newest
    )


def _why_kill(container: Container, status: ContainerStatus, verdicts: Verdicts) -> Kill | None:
    if not is_made_from(container, status.hash):
        return Kill(status, KillReason.HASH_CHANGED, f"Container {container.name} definition changed")
    if verdicts.liveness.get(status.id) is Verdict.FAILURE:
        return Kill(status, KillReason.LIVENESS, f"Container {container.name} failed liveness probe")
    if verdicts.startup.get(status.id) is Verdict.FAILURE:
        return Kill(status, KillReason.STARTUP, f"Container {container.name} failed startup probe")
    if status.id in verdicts.restarts:
        return Kill(status, KillReason.ASKED, f"Container {container.name}: a restart was asked for")
    if status.id in verdicts.resized:
        return Kill(status, KillReason.RESIZED, RESIZED_MESSAGE.format(container.name))
    return None


def plan_ephemeral(pod: Pod, observed: PodObservation) -> tuple[int, ...]:
    """Return the ephemeral containers to start. Each is started once and never again. One that was created but never
    ran, because the agent was killed before the start, still gets its one start: its user waits for it (upstream leaves
    it)."""
    latest = (observed.latest(container.name) for container in pod.spec.ephemeral_containers)
    return tuple(index for index, one in enumerate(latest) if one is None or one.state is ContainerState.CREATED)
