"""The witness: sees what an agent does to a simulated world, and says what must never be.

    every call to the runtime, as it comes in    no start after terminating · nothing healthy that is wanted is stopped
    every status that is published               one version per change · restart counts and phases never go back
    after every step of any task                 finished means no containers · queues and memory within bounds
    when an agent has ended                      no task without an owner · it touched nothing after its end

That a pod has at most one live sandbox, and a container at most one running instance, is the ``World``'s own rule. What
the witness finds is a *violation*: it does not stop the agent, it ends the simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.core.container_hash import container_hash
from trikubelet.core.lifecycle import Finished, StopReason, Terminated, Terminating
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.testing.truth import is_over, newest

if TYPE_CHECKING:
    from trikubelet.app.node import Node
    from trikubelet.core.lifecycle import State
    from trikubelet.model.k8s import Pod, PodStatus
    from trikubelet.pods.worker import PodWorker
    from trikubelet.testing.scenario import Wanted
    from trikubelet.testing.world import World

STARTS = frozenset({"RunPodSandbox", "CreateContainer", "StartContainer"})
STOPS = frozenset({"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"})
ENDING = (Terminating, Terminated, Finished)
GRACE_FOR_NEWS_SECONDS = 5.0
"""How long an agent may act on what a source said before."""


class Witness:
    """Owns the violations that were seen, oldest first."""

    def __init__(self, world: World, wanted: Wanted) -> None:
        self._world = world
        self._wanted = wanted
        self.violations: list[str] = []
        self.broken = trio.Event()
        self._restarts: dict[tuple[str, str, float], int] = {}

    def forget_restarts(self, uid: str) -> None:
        """An agent cannot know of containers that were taken away, with their counts, before it saw them."""
        self._restarts = {key: count for key, count in self._restarts.items() if key[0] != uid}

    def blame(self, what: str) -> None:
        """Something happened that must never happen."""
        self._world.note(f"!! {what}")
        self.violations.append(what)
        self.broken.set()

    def restarts_of(self, uid: str, container: str, count: int) -> None:
        """A restart count was shown. It may begin anew only with a new life of its pod."""
        since = self._wanted.since.get(uid)
        if since is None:
            return
        key = (uid, container, since)
        before = self._restarts.get(key, 0)
        if count < before:
            self.blame(f"the restart count of {uid}/{container} went back from {before} to {count}")
        self._restarts[key] = max(before, count)


class Observer:
    """Follows one agent from its start to its end, for the witness. Owns what was last seen of its workers."""

    def __init__(self, witness: Witness, world: World, wanted: Wanted) -> None:
        self._witness = witness
        self._world = world
        self._wanted = wanted
        self._node: Node | None = None
        self._has_ended = False
        self._states: dict[str, tuple[PodWorker, State]] = {}
        self._versions: dict[str, tuple[int, PodStatus]] = {}

    def follow(self, node: Node) -> None:
        """The agent begins."""
        self._node = node
        node.statuses.watchers.append(self._on_status)

    def end(self) -> None:
        """The agent was told to end, or killed: from now on it must not touch anything."""
        self._has_ended = True

    # ---- calls ----

    def on_call(self, call: str, subject: str) -> None:
        """A call came in at the runtime."""
        assert self._node is not None
        if call not in STARTS and call not in STOPS:
            return
        if self._has_ended:
            self._witness.blame(f"an agent that has ended calls {call} {subject}")
            return
        uid = subject if call == "RunPodSandbox" else self._world.uids[subject]
        worker = self._node.workers.worker(uid)
        if call in STARTS and (worker is None or self._node.workers.is_termination_requested(uid)):
            state = type(worker.state).__name__ if worker else "unknown"
            self._witness.blame(f"{call} for pod {uid}, which is {state}")
        if call in STOPS:
            self._on_stop(call, subject, uid)

    def _on_stop(self, call: str, subject: str, uid: str) -> None:
        """Only what is broken, changed, or of a pod that ends may be stopped."""
        assert self._node is not None
        healthy = [c for c in self._world.running_of(uid) if subject in (c.id, c.sandbox_id)]
        worker = self._node.workers.worker(uid)
        if not healthy or (worker is not None and self._node.workers.is_termination_requested(uid)):
            return  # whether the pod may end is judged when it begins to
        pod = worker.pod if worker else None
        if pod is None or self._is_well(pod):
            self._witness.blame(f"{call} {subject} of pod {uid}, which is healthy and wanted")

    def _is_well(self, pod: Pod) -> bool:
        """Whether there is no reason to stop anything of the pod."""
        uid = pod.metadata.uid
        ready = [s for s in self._world.sandboxes.values() if s.uid == uid and s.state is SandboxState.READY]
        if len(ready) != 1:
            return False
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            status = newest(self._world, uid, container.name)
            if status is None:
                continue
            if status.state is ContainerState.UNKNOWN or status.sandbox_id != ready[0].id:
                return False
            if status.state is ContainerState.RUNNING and status.hash != container_hash(container):
                return False
        return not is_over(self._world, pod)

    # ---- statuses ----

    def _on_status(self, uid: str, pod: Pod, status: PodStatus, version: int) -> None:
        held = self._versions.get(uid)
        if held is not None and version != 1 and (version != held[0] + 1 or status == held[1]):
            self._witness.blame(f"status of {uid}: version {version} follows version {held[0]}, or nothing changed")
        ended = held is not None and version != 1 and held[1].phase in ("Succeeded", "Failed")
        if held is not None and ended and held[1].phase != status.phase:
            self._witness.blame(f"status of {uid}: the phase went from {held[1].phase} to {status.phase}")
        self._versions[uid] = (version, status)
        assert self._node is not None
        if self._node.workers.is_termination_requested(uid):
            return  # it may have come back, but what it shows is of the life before
        if version == 1 and uid in self._wanted.ambiguous:
            self._witness.forget_restarts(uid)
        for shown in (*status.init_container_statuses, *status.container_statuses):
            self._witness.restarts_of(uid, shown.name, shown.restart_count)

    # ---- after every step ----

    def look(self) -> None:
        """A task made a step."""
        node = self._node
        if node is None or self._has_ended:
            return
        for worker in node.workers:
            uid = worker.pod.metadata.uid
            held, before = self._states.get(uid, (worker, None))
            if worker.state is before and worker is held:
                continue
            self._states[uid] = (worker, worker.state)
            self._world.note(f"worker {uid}: {worker.state}")
            if worker is held and isinstance(before, ENDING) and not isinstance(worker.state, ENDING):
                self._witness.blame(f"pod {uid} came back from {type(before).__name__}")
            if isinstance(worker.state, Terminating) and not isinstance(before, Terminating):
                self._on_terminating(uid, worker.pod, worker.state)
            if isinstance(worker.state, Terminated | Finished) and self._world.running_of(uid):
                self._witness.blame(f"pod {uid} is {type(worker.state).__name__} and a container of it runs")

    def _on_terminating(self, uid: str, pod: Pod, state: Terminating) -> None:
        since = self._wanted.since.get(uid)
        gone = state.reason in (StopReason.REMOVED, StopReason.ORPHANED)
        if gone and since is not None and trio.current_time() - since > GRACE_FOR_NEWS_SECONDS:
            self._witness.blame(f"pod {uid} is stopped as {state.reason.name} and has been wanted all the time")
        ambiguous = uid in self._wanted.ambiguous
        if state.reason is StopReason.COMPLETED and not ambiguous and not is_over(self._world, pod):
            self._witness.blame(f"pod {uid} is stopped as COMPLETED and has not ended")

    def check_bounds(self) -> None:
        """Nothing the agent remembers may grow without end."""
        node = self._node
        if node is None or self._has_ended:
            return
        uids = {s.uid for s in self._world.sandboxes.values()} | {pod.metadata.uid for _, pod in self._wanted.all()}
        known = len(uids) + len(self._wanted.gone)
        found = {
            "events": (len(node.events.all()), node.bounds.events_kept_max),
            "pod cache": (len(node.cache), known),
            "statuses": (len(node.statuses), known),
            "workers": (len(node.workers), known),
        }
        for name, (size, bound) in found.items():
            if size > bound:
                self._witness.blame(f"{name}: {size} is more than {bound}")
