"""Combines the decisions of the subjects, in order of precedence (upstream: computePodActions)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trikubelet.core.actions.init import plan_init
from trikubelet.core.actions.records import Kill, KillReason, PodActions, Reset, Verdict, Verdicts
from trikubelet.core.actions.regular import are_over, plan_ephemeral, plan_regular
from trikubelet.core.actions.restart_all import causes, plan_resets
from trikubelet.core.actions.sandbox import plan_new_sandbox, sandbox_need
from trikubelet.core.restarts import allows_restart
from trikubelet.model.runtime import ContainerState, ContainerStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trikubelet.core.resize.progress import Resize
    from trikubelet.model import k8s
    from trikubelet.model.k8s import Pod, PodStatus
    from trikubelet.model.runtime import PodObservation


def plan(
    pod: Pod,
    observed: PodObservation,
    verdicts: Verdicts | None = None,
    *,
    shown: PodStatus | None = None,
    resizes: Sequence[Resize] = (),
) -> PodActions:
    """Return the actions that bring the pod to its desired state; an empty plan if none are needed. ``shown``: the
    status last computed, from which permanently ended containers are known when the runtime has lost their records.
    ``resizes``: the containers that run with other amounts than they are allocated."""
    recreated = frozenset(one.status.id for one in resizes if one.needs_restart)
    made = _plan(pod, observed, replace(verdicts or Verdicts(), resized=recreated), shown)
    if made.kill_pod or made.create_sandbox or made.to_reset:
        return made
    ending = {*recreated, *(kill.status.id for kill in made.to_kill)}
    return replace(made, to_resize=tuple(one for one in resizes if one.status.id not in ending))


def _plan(pod: Pod, observed: PodObservation, verdicts: Verdicts, shown: PodStatus | None) -> PodActions:
    need = sandbox_need(pod, observed)
    known = observed if shown is None else _with_ends(pod, observed, shown)
    if names := causes(pod, observed):
        # Before the sandbox: a cause left behind in a dead one would reset the pod once more in the new one.
        # Ephemeral containers do not wait for the cause's back-off, because they serve to debug it.
        return PodActions(
            sandbox_id=need.sandbox_id,
            attempt=need.attempt,
            to_reset=plan_resets(pod, observed, names),
            ephemeral_to_start=() if need.recreate else plan_ephemeral(pod, known),
        )
    observed = known
    if need.recreate:
        return plan_new_sandbox(pod, observed, need)

    end = PodActions(kill_pod=True, sandbox_id=need.sandbox_id, attempt=need.attempt)
    if are_over(pod, observed):
        # Before the init containers, which would restart a crashed sidecar first, to no use.
        return end
    ephemeral = plan_ephemeral(pod, observed)
    init = plan_init(pod, _in_sandbox(observed, need.sandbox_id), verdicts)
    if init.failed:
        return end
    present = PodActions(
        sandbox_id=need.sandbox_id,
        attempt=need.attempt,
        to_kill=tuple(init.to_kill),
        ephemeral_to_start=ephemeral,
        init_to_start=tuple(init.to_start),
    )
    if not init.initialized:
        return present
    regular = plan_regular(pod, observed, verdicts)
    if regular.kept == 0 and not regular.to_start:
        # No regular container runs or will: sidecars must not keep the pod alive.
        return end
    return PodActions(
        sandbox_id=need.sandbox_id,
        attempt=need.attempt,
        to_kill=present.to_kill + regular.to_kill,
        ephemeral_to_start=ephemeral,
        init_to_start=present.init_to_start,
        to_start=regular.to_start,
    )


def _with_ends(pod: Pod, observed: PodObservation, shown: PodStatus) -> PodObservation:
    """Return the observation with an end for each regular or ephemeral container that the runtime no longer has and
    whose shown end was permanent: removing a record must not rerun a container against its policy."""
    named = {container.name: container for container in pod.spec.containers}
    lost = [  # after an unobserved end, another run may follow
        one
        for one, reason in _ends(shown.container_statuses)
        if one.name in named
        and reason != "ContainerStatusUnknown"
        and not allows_restart(pod, named[one.name], one.exit_code)
    ]
    lost += [one for one, _ in _ends(shown.ephemeral_container_statuses)]  # they run only once
    lost = [one for one in lost if observed.latest(one.name) is None]
    return replace(observed, containers=(*observed.containers, *lost)) if lost else observed


def _ends(shown: Iterable[k8s.ContainerStatus]) -> Iterator[tuple[ContainerStatus, str]]:
    """Yield the ends among these statuses as the runtime would report them, and their reasons."""
    for status in shown:
        if status.state is not None and (ended := status.state.terminated) is not None:
            code, restarts = ended.exit_code, status.restart_count
            yield ContainerStatus("", status.name, restarts, ContainerState.EXITED, 0, exit_code=code), ended.reason


def _in_sandbox(observed: PodObservation, sandbox_id: str) -> PodObservation:
    """Return the observation without the containers of earlier sandboxes. Initialisation starts over with each sandbox,
    so earlier progress is no evidence; a container without a known sandbox counts as part of this one."""
    here = tuple(status for status in observed.containers if status.sandbox_id in ("", sandbox_id))
    return replace(observed, containers=here)


__all__ = ["Kill", "KillReason", "PodActions", "Reset", "Verdict", "Verdicts", "plan"]
