"""The observer: follows one agent through a simulated world, and reports violations to the witness.

    every call to the runtime, as it comes in    no start after terminating, or before the init containers have
                                                  succeeded in this sandbox · no healthy desired container is stopped ·
                                                  no container before its preStop hook or its grace period has ended
                                                  no container without its volumes, no volume is removed before it
                                                  no variable that is in no manifest · no container is restarted
                                                  repeatedly without its backoff, whatever it exits of
                                                  no static pod next to a running one of its name
    every status that is published               one version per change · restart counts and phases never go back ·
                                                  ready only by the last decisive probe results
    after every step of any task                 finished means no containers · queues and memory within bounds
    when an agent has ended                      no task without an owner · it touched nothing after its end

The rules about calls are in ``testing.start_rules`` and ``testing.stop_rules``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.core.lifecycle import Finished, StopReason, Terminated, Terminating
from trikubelet.core.names import is_same_pod, is_static, namespaced_name
from trikubelet.testing.probe_truth import Answers, is_ready
from trikubelet.testing.start_rules import StartRules
from trikubelet.testing.stop_rules import StopRules
from trikubelet.testing.truth import is_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.app.node import Node
    from trikubelet.core.lifecycle import State
    from trikubelet.model.k8s import Container, ContainerStatus, Pod, PodStatus
    from trikubelet.pods.worker import PodWorker
    from trikubelet.testing.memory_host import MemoryVolumes
    from trikubelet.testing.scenario import Wanted
    from trikubelet.testing.settings import Settings
    from trikubelet.testing.witness import Witness
    from trikubelet.testing.world import World

STARTS = frozenset({"RunPodSandbox", "CreateContainer", "StartContainer"})
STOPS = frozenset({"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"})
ENDING = (Terminating, Terminated, Finished)
UPDATE_GRACE_SECONDS = 5.0
"""How long an agent may act on a source's earlier state."""


class Observer:
    """Follows one agent from its start to its end, for the witness. Owns the last seen states of its workers."""

    def __init__(
        self, witness: Witness, world: World, wanted: Wanted, volumes: MemoryVolumes, settings: Sequence[Settings]
    ) -> None:
        self._witness = witness
        self._world = world
        self._wanted = wanted
        self.answers = Answers()
        witness.answers.append(self.answers)
        self._starts = StartRules(witness, world, wanted, volumes, settings)
        self._stops = StopRules(witness, world, wanted, self.answers)
        self._node: Node | None = None
        self._has_ended = False
        self._ready_before = witness.published_ready()
        self._states: dict[str, tuple[PodWorker, State]] = {}
        self._versions: dict[str, tuple[int, PodStatus]] = {}

    def follow(self, node: Node) -> None:
        """The agent starts."""
        self._node = node
        node.statuses.changed.add(self._on_status)

    def end(self) -> None:
        """The agent was stopped or killed: from now on it must not change anything."""
        self._has_ended = True

    # ---- calls ----

    def on_call(self, call: str, subject: str) -> None:
        """A call came in at the runtime."""
        assert self._node is not None
        if call not in STARTS and call not in STOPS and call != "ExecSync":
            return
        if self._has_ended:
            self._witness.blame(f"an agent that has ended calls {call} {subject}")
            return
        uid = subject if call == "RunPodSandbox" else self._world.uids[subject]
        worker = self._node.workers.worker(uid)
        if call in STARTS and (worker is None or self._node.workers.is_termination_requested(uid)):
            state = type(worker.state).__name__ if worker else "unknown"
            self._witness.blame(f"{call} for pod {uid}, which is {state}")
        if call in STARTS and worker is not None and (other := self._running_beside(worker.pod)):
            self._witness.blame(f"{call} for pod {uid}, and a container of {other}, which has its name, runs")
        if call in STARTS and worker is not None and (other := self._running_under(worker.pod)):
            self._witness.blame(f"{call} for pod {worker.pod.metadata.name}, and {other} runs under its UID {uid}")
        if call in STARTS and uid in self._witness.over:
            self._witness.blame(f"{call} for pod {uid}, which was published as ended")
        pre_stop_runs = self._stops.pre_stop_runs(subject, worker.pod) if worker is not None else []
        if call in STOPS and not (call == "StopContainer" and pre_stop_runs):
            self._stops.on_stop(call, subject, uid, self._node.workers)
        if (
            call == "ExecSync"
            and pre_stop_runs
            and not any(pre_stop_runs[-1] is one for one in self._witness.pre_stop_runs)
        ):
            self._witness.pre_stop_runs.append(pre_stop_runs[-1])
            # With its preStop hook a container begins to terminate, which cannot be undone.
            self._stops.on_stop(call, subject, uid, self._node.workers)
        if call == "StopContainer" and worker is not None:
            self._stops.on_stop_container(subject, worker, pre_stop_runs)
        if call == "CreateContainer" and worker is not None:
            self._starts.on_create(uid, worker.pod)
        if call == "StartContainer" and worker is not None:
            self._starts.on_start(subject, worker.pod)

    def _running_beside(self, pod: Pod) -> str:
        """Return the UID of another pod of its name with a running container."""
        if not is_static(pod):
            return ""
        others = {s.uid for s in self._world.sandboxes.values() if (s.namespace, s.name) == namespaced_name(pod)}
        return next((uid for uid in sorted(others - {pod.metadata.uid}) if self._world.running_of(uid)), "")

    def _running_under(self, pod: Pod) -> str:
        """Return the name of another pod under its UID with a running container."""
        running = {one.sandbox_id for one in self._world.running_of(pod.metadata.uid)}
        boxes = [self._world.sandboxes[id_] for id_ in sorted(running) if id_ in self._world.sandboxes]
        return next((box.name for box in boxes if (box.namespace, box.name) != namespaced_name(pod)), "")

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
            return  # it may have been recreated, but this status is of the earlier instance
        if version == 1 and uid in self._wanted.ambiguous:
            self._witness.forget_restarts(uid)
        probed = {container.name: container for container in (*pod.spec.init_containers, *pod.spec.containers)}
        for shown in (*status.init_container_statuses, *status.container_statuses):
            if version == 1:
                self._witness.cap_restarts(uid, shown.name, self._world.last_attempt(uid, shown.name))
            self._witness.restarts_of(uid, shown.name, shown.restart_count)
            self._on_shown(uid, probed[shown.name], shown)

    def _on_shown(self, uid: str, container: Container, shown: ContainerStatus) -> None:
        """A container may be ready only by its last probe results; and until this agent has enough of them, if the API
        server has it as ready: an earlier agent may have died before it could publish its last results."""
        if not shown.ready or shown.state is None or shown.state.running is None:
            return
        id_ = shown.container_id.rpartition("://")[2]
        had_started = any(earlier.has_started(container, id_) for earlier in self._witness.answers[:-1])
        known = self.answers.is_ready(container, id_, had_started=had_started)
        if known is None and id_ in self._ready_before | self._witness.published_ready():
            return
        if not is_ready(self._witness.answers, container, id_):
            self._witness.blame(f"container {uid}/{container.name} is shown ready, and its probes do not say so")

    # ---- after every step ----

    def look(self) -> None:
        """A task made a step."""
        node = self._node
        if node is None or self._has_ended:
            return
        for worker in node.workers:
            uid = worker.pod.metadata.uid
            self._stops.look(worker)
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
        wanted = self._wanted.get(uid)
        if wanted is not None and not is_same_pod(wanted, pod):
            return  # the UID is another pod's by now
        since = self._wanted.since.get(uid)
        gone = state.reason in (StopReason.REMOVED, StopReason.ORPHANED)
        patience = 0.0 if uid in self._witness.unique else UPDATE_GRACE_SECONDS
        if gone and since is not None and trio.current_time() - since >= patience:
            self._witness.blame(f"pod {uid} is stopped as {state.reason.name} and has been wanted all the time")
        ambiguous = uid in self._wanted.ambiguous
        if state.reason is StopReason.COMPLETED and not ambiguous and not is_over(self._world, pod):
            self._witness.blame(f"pod {uid} is stopped as COMPLETED and has not ended")

    def check_bounds(self) -> None:
        """Check that none of the agent's records grows without bound."""
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
