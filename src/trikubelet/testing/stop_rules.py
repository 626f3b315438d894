"""Rules of the simulation's observer for stopping containers.

No healthy desired container is stopped: not for a spec the agent did not hold, not for results its probes did not have.
No running container is stopped before its preStop hook or its grace period has ended.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from trikubelet.core.container_hash import is_made_from
from trikubelet.core.lifecycle import GRACE_SECONDS_DEFAULT, StopReason, Terminating
from trikubelet.core.names import all_containers
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.testing.acted_on import ActedOn
from trikubelet.testing.truth import is_over, newest, starts_over
from trikubelet.testing.witness import ROUNDING_SECONDS

if TYPE_CHECKING:
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.pods.worker import PodWorker
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.testing.probe_truth import Answers
    from trikubelet.testing.scenario import Wanted
    from trikubelet.testing.witness import Witness
    from trikubelet.testing.world import Command, World


class StopRules:
    """Checks the stops of one agent. Owns the specs that its workers held, and their grace periods."""

    def __init__(self, witness: Witness, world: World, wanted: Wanted, answers: Answers) -> None:
        self._witness = witness
        self._world = world
        self._wanted = wanted
        self._answers = answers
        self._acted_on = ActedOn()
        self._graces: dict[str, float] = {}
        """The shortest grace period of each pod that was ever in force: the one at the start of a hook is not known
        here."""

    def look(self, worker: PodWorker) -> None:
        """A task made a step."""
        uid = worker.pod.metadata.uid
        self._acted_on.look(worker)
        self._graces[uid] = min(self._graces.get(uid, math.inf), _grace(worker))

    def on_stop(self, call: str, subject: str, uid: str, workers: PodWorkers) -> None:
        """Check that only unhealthy or changed containers, or those of a terminating pod, are stopped."""
        healthy = [c for c in self._world.running_of(uid) if subject in (c.id, c.sandbox_id)]
        worker = workers.worker(uid)
        if not healthy or (worker is not None and workers.is_termination_requested(uid)):
            return  # whether the pod may terminate is checked when it begins to
        if worker is None or all(self._is_well(pod) for pod in self._acted_on.pods(worker)):
            self._witness.blame(f"{call} {subject} of pod {uid}, which is healthy and wanted")

    def pre_stop_runs(self, subject: str, pod: Pod) -> list[Command]:
        """The calls of a container's preStop hook, if it has one."""
        here = self._world.containers.get(subject)
        hook = _pre_stop(pod, here.status.name) if here is not None else None
        return [one for one in self._world.commands.get(subject, ()) if one.command == hook]

    def on_stop_container(self, subject: str, worker: PodWorker, pre_stop_runs: list[Command]) -> None:
        """A running container is stopped when its preStop hook or its grace period has ended."""
        here = self._world.containers.get(subject)
        runs = here is not None and here.status.state is ContainerState.RUNNING
        if here is None or not runs or _pre_stop(worker.pod, here.status.name) is None:
            return
        if isinstance(worker.state, Terminating) and worker.state.reason is StopReason.ORPHANED:
            return  # it was stopped without its spec, though it may be desired again by now
        if starts_over(self._world, worker.pod):
            return  # a restart of all containers has neither
        grace = self._graces[worker.pod.metadata.uid] - ROUNDING_SECONDS
        if grace > 0 and not any(one.is_over or trio.current_time() - one.began_at >= grace for one in pre_stop_runs):
            name = here.status.name
            self._witness.blame(f"StopContainer {subject} {name}, whose preStop hook is not over, nor its grace")

    def _is_well(self, pod: Pod) -> bool:
        """True if there is no reason to stop a container of the pod."""
        uid = pod.metadata.uid
        if starts_over(self._world, pod):
            return False
        ready = [s for s in self._world.sandboxes.values() if s.uid == uid and s.state is SandboxState.READY]
        if len(ready) != 1:
            return False
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            status = newest(self._world, uid, container.name)
            if status is None:
                continue
            if status.state is ContainerState.UNKNOWN or status.sandbox_id != ready[0].id:
                return False
            if status.state is ContainerState.RUNNING and not is_made_from(container, status.hash):
                return False
            if self._answers.must_die(container, status.id) or self._failed_after_its_start(container, status.id):
                return False
        return not is_over(self._world, pod, ambiguous=uid in self._wanted.ambiguous)

    def _failed_after_its_start(self, container: Container, id_: str) -> bool:
        hook = container.lifecycle.post_start if container.lifecycle else None
        command = hook.exec.command if hook is not None and hook.exec is not None else None
        return any(one.failed for one in self._world.commands.get(id_, ()) if one.command == command)


def _grace(worker: PodWorker) -> float:
    """The grace period in force for a pod, in seconds."""
    if isinstance(worker.state, Terminating):
        return worker.state.grace_seconds
    asked = (worker.pod.metadata.deletion_grace_period_seconds, worker.pod.spec.termination_grace_period_seconds)
    return min(seconds for seconds in (*asked, GRACE_SECONDS_DEFAULT) if seconds is not None)


def _pre_stop(pod: Pod, name: str) -> tuple[str, ...] | None:
    """The command of a container's preStop hook, if it has one."""
    hooks = (one.lifecycle.pre_stop for one in all_containers(pod) if one.name == name and one.lifecycle)
    hook = next(hooks, None)
    return hook.exec.command if hook is not None and hook.exec is not None else None
