"""What the servers may see of a node (``server.node_view.NodeView``), over the parts that ``app/node.py`` joined.

Which pods are shown: the desired ones, and those whose worker still has something to do. What is added to a static pod,
which no API server ever saw: its creation time, from the oldest object the runtime has of it, so that its age survives
a restart of the agent; and, once its manifest is gone, its deletion time. What is added to any: why it is not started
yet.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.app.tally import tally
from trikubelet.core.lifecycle import Finished, Terminated, Terminating
from trikubelet.core.names import CONFIG_SEEN, all_containers, full_name, log_directory_name, log_path
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339, rfc3339
from trikubelet.kit.disk import DISK_SECONDS_MAX, disk_in_time
from trikubelet.model import k8s
from trikubelet.model.faults import printable
from trikubelet.model.runtime import ContainerState
from trikubelet.server.node_figures import NodeFigures, Setup
from trikubelet.server.node_view import (
    LogPlace,
    ManifestFault,
    NodeNote,
    NoSuchPod,
    NotShown,
    PodWork,
    RunningContainer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trikubelet.app.member import MemberTask
    from trikubelet.app.node import Node
    from trikubelet.core.file_source import FileState
    from trikubelet.core.lifecycle import State
    from trikubelet.core.pleg_pod import UninspectedPod
    from trikubelet.core.relist import PodRecord
    from trikubelet.kit.call_figures import CallFigures
    from trikubelet.kit.distribution import Distribution
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.model.shutdown_times import ShutdownTimes
    from trikubelet.pleg.figures import Figures
    from trikubelet.pods.worker import PodWorker
    from trikubelet.ports import Clock
    from trikubelet.probes.figures import ProbeFigures
    from trikubelet.status.figures import PublishFigures
    from trikubelet.status.recorder import Event

COMPONENT = "trikubelet"
WAITS = "WaitsForRuntime"
"""The reason of a pod that is not started before the runtime has answered."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A pod as it was last shown, and what it was made from."""

    pod: k8s.Pod
    status: k8s.PodStatus | None
    state: State | None
    waits_because: str
    born_ns: int
    shown: k8s.Pod


class View:
    """Owns the pods as they were last shown, so that an unchanged pod stays the same object (``NodeView``)."""

    def __init__(
        self,
        node: Node,
        clock: Clock,
        node_name: str,
        pod_logs: str,
        manifests: Callable[[], Mapping[str, FileState]],
        setup: Setup | None = None,
        member: MemberTask | None = None,
        calls: Sequence[CallFigures] = (),
    ) -> None:
        """``pod_logs``: the directory of the pods' log directories; ``manifests``: the current state of each manifest
        file; a pod without a line in it was kept from an earlier reading; ``setup``: the agent's build and settings,
        for metrics; ``member``: the node's part in a cluster, if any."""
        self._node = node
        self._clock = clock
        self._node_name = node_name
        self._pod_logs = pod_logs
        self._manifests = manifests
        self._setup = setup or Setup()
        self._member = member
        self._calls = calls
        self._seen: dict[str, _Seen] = {}

    # ---- pods ----

    def pods(self) -> Sequence[k8s.Pod]:
        """Every pod with its newest status. An unchanged pod is the same object as the last time."""
        now = {uid: self._see(uid, pod, worker) for uid, pod, worker in self._present()}
        self._seen = now
        return [seen.shown for seen in now.values()]

    def _present(self) -> Iterator[tuple[str, k8s.Pod, PodWorker | None]]:
        workers = {worker.pod.metadata.uid: worker for worker in self._node.workers}
        for pod in self._node.desired:
            uid = pod.metadata.uid
            yield uid, pod, workers.pop(uid, None)
        for uid, worker in workers.items():
            if not isinstance(worker.state, Finished):
                yield uid, worker.pod, worker

    def _see(self, uid: str, pod: k8s.Pod, worker: PodWorker | None) -> _Seen:
        status = self._node.statuses.get(uid) or pod.status
        state = None if worker is None else worker.state
        waits = self._node.admission.waits_because(pod)
        before = self._seen.get(uid)
        born_ns = _born_ns(pod, self._node.cache.get(uid), 0 if before is None else before.born_ns)
        if (
            before is not None
            and before.pod is pod
            and before.status is status
            and before.state == state
            and before.waits_because == waits
            and before.born_ns == born_ns
        ):
            return before
        meta = pod.metadata
        changes: dict[str, object] = {}
        if born_ns and not meta.creation_timestamp:
            changes["creation_timestamp"] = rfc3339(born_ns)
        if isinstance(state, Terminating | Terminated) and state.deleted and not meta.deletion_timestamp:
            changes["deletion_timestamp"] = rfc3339(self._asked_to_go_ns(uid, before))
        shown = msgspec.structs.replace(
            pod,
            api_version="v1",
            kind="Pod",
            metadata=msgspec.structs.replace(meta, **changes),
            status=_waiting(status, waits) if waits else status,
        )
        return _Seen(pod, status, state, waits, born_ns, shown)

    def _asked_to_go_ns(self, uid: str, before: _Seen | None) -> int:
        """When the pod began to terminate: by the node's event, or now."""
        if before is not None and before.shown.metadata.deletion_timestamp:
            return parse_rfc3339(before.shown.metadata.deletion_timestamp)
        killing = [event.last_seen for event in self._node.events.about(uid) if event.reason == "Killing"]
        return max(killing, default=self._clock.now_ns())

    def running(self) -> Sequence[k8s.Pod]:
        """The pods of which something runs, desired or not, as the runtime has them."""
        return [self._as_it_runs(record) for record in self._node.pleg.running(())]

    def _as_it_runs(self, record: PodRecord) -> k8s.Pod:
        running = self._node.cache.get(record.uid).running
        return k8s.Pod(
            metadata=k8s.ObjectMeta(name=record.name, namespace=record.namespace, uid=record.uid),
            spec=k8s.PodSpec(containers=tuple(k8s.Container(name=one.name, image=one.image) for one in running)),
        )

    # ---- events and states ----

    def events(self) -> Sequence[k8s.Event]:
        """The events that are remembered, last seen longest ago first."""
        return [self._event(event) for event in self._node.events.all()]

    def _event(self, event: Event) -> k8s.Event:
        about = event.about
        return k8s.Event(
            api_version="v1",
            kind="Event",
            metadata=k8s.ObjectMeta(name=f"{about.name}.{event.first_seen:x}", namespace=about.namespace or "default"),
            involved_object=k8s.ObjectReference(
                api_version="v1",
                kind=about.kind,
                name=about.name,
                namespace=about.namespace,
                uid=about.uid,
                field_path=about.field_path,
            ),
            type=event.type,
            reason=event.reason,
            message=event.message,
            count=event.count,
            first_timestamp=rfc3339(event.first_seen),
            last_timestamp=rfc3339(event.last_seen),
            source=k8s.EventSource(component=COMPONENT, host=self._node_name),
        )

    def faults(self) -> Sequence[ManifestFault]:
        """The current faults of the manifests."""
        found = []
        for _, state in sorted(self._manifests().items()):
            kept = [pod.metadata for pod in state.pods if full_name(pod) not in state.lines]
            running = tuple(f"{meta.namespace}/{meta.name}" for meta in kept)
            found += [
                ManifestFault(
                    printable(fault.source),
                    printable(fault.problem),  # it may name another file
                    fault.line,
                    fault.path,
                    fault.remedy,
                    running,
                )
                for fault in state.faults
            ]
        return found

    def work(self) -> Sequence[PodWork]:
        """What the agent is doing, pod by pod."""
        now = trio.current_time()
        unseen = {one.uid: one for one in self._node.pleg.uninspected_pods()}
        return [self._work(worker, unseen.get(worker.pod.metadata.uid), now) for worker in self._node.workers]

    def _work(self, worker: PodWorker, unseen: UninspectedPod | None, now: float) -> PodWork:
        statistics = worker.statistics()
        busy = None if statistics.busy_since is None else now - statistics.busy_since
        uid, state = worker.pod.metadata.uid, type(statistics.state).__name__
        work = PodWork(
            uid,
            state,
            statistics.attempts,
            statistics.failures,
            statistics.last_error,
            busy,
            volumes=dict(self._node.volumes.progress(uid)),
            pulls=dict(self._node.puller.progress(uid)),
        )
        if unseen is None:
            return work
        return msgspec.structs.replace(work, unseen_seconds=now - unseen.since, unseen_because=unseen.why)

    def node(self) -> NodeNote:
        """The state of the node itself."""
        state = self._node.runtime_state
        found = [state.unhealthy(), state.network_problem(), self._node.pleg.remark()]
        sources_not_ready = sorted(self._node.desired.sources_not_ready)
        if sources_not_ready:
            found.append(f"no word yet from the source {' and '.join(sources_not_ready)}: its pods are not known")
        return NodeNote(self._node_name, tuple(problem for problem in found if problem))

    def pleg(self) -> Figures:
        """The PLEG's metrics."""
        return self._node.pleg.figures()

    def rejected(self) -> Mapping[str, int]:
        """How many pods the node rejected, by reason."""
        return self._node.admission.rejected

    def preempted(self) -> Mapping[str, int]:
        """How many pods were preempted for critical ones, by the resource that was short."""
        return self._node.evaluation.preempted

    def shutdown_times(self) -> ShutdownTimes:
        """When its pods were last ended because the machine went down."""
        return self._node.shutdown.times

    def evicted(self) -> tuple[Mapping[str, int], Mapping[str, Distribution]]:
        """How many pods were evicted, and how old (seconds) the measurement was that each was evicted for; both by the
        eviction signal."""
        return self._node.eviction.evicted, self._node.eviction.stats_ages

    def images_removed(self) -> Mapping[str, int]:
        """How many unused images were removed, by the reason."""
        return self._node.image_garbage.removed

    def probes(self) -> Sequence[ProbeFigures]:
        """The results of each probe so far."""
        return self._node.probes.figures()

    def publishing(self) -> PublishFigures | None:
        """How far statuses and events are published; None on a node without an API server."""
        return None if self._member is None else self._member.publishing()

    def calls(self) -> Sequence[CallFigures]:
        """Metrics of the calls to the runtime, by path, for each connection."""
        return self._calls

    def figures(self) -> NodeFigures:
        """The other metrics of the node's parts."""
        node, member = self._node, self._member
        return NodeFigures(
            setup=self._setup,
            tally=tally(node, in_cluster=member is not None),
            pods=node.figures,
            startups=node.startups,
            ended=node.statuses.ended,
            pulls=node.puller.figures,
            volumes=node.volumes.figures(),
            swept=(node.orphan_cleanup.removed, node.orphan_cleanup.stuck),
            api=None if member is None else member.asked(),
            rotations=() if member is None else member.rotations(),
        )

    # ---- logs ----

    async def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        """The log of a container's newest run, or of the one before. Raises NotShown or NoSuchPod."""
        pod = self.named(namespace, name)
        names = _containers(pod)
        if container not in names:
            raise NotShown(f'pod "{name}" has no container "{container}"; it has {", ".join(names)}')
        uid = pod.metadata.uid
        run = _run(self._node.cache.get(uid).history(container), _is_waiting(pod, container), previous=previous)
        if run is not None and run.log_path:
            return LogPlace(os.path.join(self._log_directory(pod), run.log_path), self._is_over(uid, run.id))
        path = await self._log_on_disk(pod, container, previous=previous)
        if path is not None:
            return LogPlace(path, lambda: True)
        if previous:
            raise NotShown(f'container "{container}" of pod "{name}" has no earlier run on this node')
        why = _waits_for(pod, container)
        raise NotShown(f'container "{container}" of pod "{name}" has not started{f": {why}" if why else ""}')

    # ---- running containers ----

    def running_container(self, namespace: str, name: str, container: str, uid: str = "") -> RunningContainer:
        """The current run of a container. Raises NotShown or NoSuchPod."""
        pod = self.named(namespace, name)
        run = self._node.cache.get(pod.metadata.uid).latest(container)
        if uid not in ("", pod.metadata.uid) or run is None or run.state is not ContainerState.RUNNING:
            raise NotShown(f'container not found ("{container}")')
        terminals = [one.name for one in all_containers(pod) if one.tty]
        terminals += [one.name for one in pod.spec.ephemeral_containers if one.tty]
        return RunningContainer(run.id, container in terminals)

    def running_sandbox(self, namespace: str, name: str, uid: str = "") -> str:
        """The id of a pod's sandbox that is ready. Raises NotShown or NoSuchPod."""
        pod = self.named(namespace, name)
        sandbox = self._node.cache.get(pod.metadata.uid).ready_sandbox
        if uid not in ("", pod.metadata.uid) or sandbox is None:
            raise NotShown(f'pod not found ("{name}_{namespace}")')
        return sandbox.id

    def named(self, namespace: str, name: str) -> k8s.Pod:
        """The pod of that name. Raises NoSuchPod."""
        instances = [pod for pod in self.pods() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)]
        if not instances:
            raise NoSuchPod(f'pod "{name}" is not on this node (namespace "{namespace}")')
        # While an older instance of the same name is still terminating, it is the one with containers and logs.
        return next((pod for pod in instances if self._node.cache.get(pod.metadata.uid).containers), instances[0])

    def _log_directory(self, pod: k8s.Pod) -> str:
        meta = pod.metadata
        return os.path.join(self._pod_logs, log_directory_name(meta.namespace, meta.name, meta.uid))

    async def _log_on_disk(self, pod: k8s.Pod, container: str, *, previous: bool) -> str | None:
        """The log of a run that the runtime does not have any more. Raises NotShown where the disk cannot be read."""
        directory = self._log_directory(pod)
        try:
            attempts = await disk_in_time(
                DISK_SECONDS_MAX, partial(self._node.files.log_attempts, directory, container)
            )
        except OSError as error:
            raise NotShown(
                f"what there is in the log directory {directory} cannot be seen: {error.strerror}"
            ) from error
        wanted = attempts[1:] if previous else attempts
        return os.path.join(directory, log_path(container, wanted[0])) if wanted else None

    def _is_over(self, uid: str, container_id: str) -> Callable[[], bool]:
        def is_over() -> bool:
            return all(one.id != container_id for one in self._node.cache.get(uid).running)

        return is_over

    def __repr__(self) -> str:
        return f"<View of {self._node_name}: {len(self._seen)} pods>"


def _born_ns(pod: k8s.Pod, observed: PodObservation, known_ns: int) -> int:
    """The pod's creation time as far as known; 0 if unknown."""
    found = [known_ns, *(sandbox.created_at for sandbox in observed.sandboxes)]
    found += [container.created_at for container in observed.containers]
    with suppress(ValueError):  # a pod of the API server, which has its own creation time, was not read here
        found.append(parse_rfc3339(pod.metadata.annotations.get(CONFIG_SEEN, "")))
    return min((when for when in found if when > 0), default=0) // SECOND_NS * SECOND_NS


def _waiting(status: k8s.PodStatus | None, why: str) -> k8s.PodStatus:
    """The status of a pod that has no worker yet, shown here only and never published: an API server may know the pod
    as running, and it may be."""
    said = f"The container runtime has not answered yet; unless it says otherwise, the pod will be rejected: {why}"
    return msgspec.structs.replace(status or k8s.PodStatus(phase="Pending"), reason=WAITS, message=said)


def _containers(pod: k8s.Pod) -> list[str]:
    ephemeral = [one.name for one in pod.spec.ephemeral_containers]
    return [*(one.name for one in all_containers(pod)), *ephemeral]


def _statuses(pod: k8s.Pod) -> Iterable[k8s.ContainerStatus]:
    status = pod.status or k8s.PodStatus()
    return (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)


def _waits_for(pod: k8s.Pod, container: str) -> str:
    """The reason why a container waits; empty when it does not."""
    states = (status.state for status in _statuses(pod) if status.name == container)
    return next((state.waiting.reason for state in states if state is not None and state.waiting is not None), "")


def _is_waiting(pod: k8s.Pod, container: str) -> bool:
    return bool(_waits_for(pod, container))


def _run(history: Sequence[ContainerStatus], waiting: bool, *, previous: bool) -> ContainerStatus | None:
    """The newest run or the previous one. A container that waits for its restart has its last run as both: its state
    and its last state both refer to it."""
    runs = [one for one in history if one.state in (ContainerState.RUNNING, ContainerState.EXITED)]
    if previous and not (waiting and runs and runs[0].state is ContainerState.EXITED):
        runs = runs[1:]
    return runs[0] if runs else None
