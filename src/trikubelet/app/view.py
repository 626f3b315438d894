"""The node as the servers see it (``server.node_view.NodeView``), made from the parts in ``app/node.py``.

``ShownPods`` finds pods, ``ContainerRuns`` their containers; everything else is read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.app.container_runs import ContainerRuns
from trikubelet.app.shown_pods import ShownPods
from trikubelet.app.tally import tally
from trikubelet.core.names import full_name
from trikubelet.core.timestamps import rfc3339
from trikubelet.model import k8s
from trikubelet.model.faults import printable
from trikubelet.server.node_figures import NodeFigures, Setup
from trikubelet.server.node_view import (
    LogPlace,
    ManifestFault,
    ManifestNote,
    NodeNote,
    ObjectNote,
    PodWork,
    RunningContainer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trikubelet.app.member import MemberTask
    from trikubelet.app.node import Node
    from trikubelet.core.file_source import FileState
    from trikubelet.core.manifest.objects import ManifestObject
    from trikubelet.core.pleg_pod import UninspectedPod
    from trikubelet.kit.call_figures import CallFigures
    from trikubelet.kit.distribution import Distribution
    from trikubelet.model.shutdown_times import ShutdownTimes
    from trikubelet.pleg.figures import Figures
    from trikubelet.pods.worker import PodWorker
    from trikubelet.ports import Clock
    from trikubelet.probes.figures import ProbeFigures
    from trikubelet.status.figures import PublishFigures
    from trikubelet.status.recorder import Event

COMPONENT = "trikubelet"


class View:
    """Owns no state but that of its parts (``NodeView``)."""

    def __init__(
        self,
        node: Node,
        clock: Clock,
        node_name: str,
        pod_logs: str,
        manifests: Callable[[], Mapping[str, FileState]],
        setup: Callable[[], Setup] = Setup,
        member: MemberTask | None = None,
        calls: Sequence[CallFigures] = (),
    ) -> None:
        """``pod_logs``: the directory of the pods' log directories; ``manifests``: the current state of each manifest
        file; a pod without a line in it was kept from an earlier reading; ``setup``: returns the agent's build and
        settings, for metrics; ``member``: the node's part in a cluster, if any."""
        self._node = node
        self._node_name = node_name
        self._manifests = manifests
        self._setup = setup
        self._member = member
        self._calls = calls
        self._pods = ShownPods(node, clock)
        self._runs = ContainerRuns(node, self._pods, pod_logs)

    def pods(self) -> Sequence[k8s.Pod]:
        """Return every pod with its newest status. An unchanged pod is the same object as in the last call."""
        return self._pods.all()

    def named(self, namespace: str, name: str) -> k8s.Pod:
        """Return the pod of that name, as it is shown. Raises NoSuchPod."""
        return self._pods.named(namespace, name)

    def running(self) -> Sequence[k8s.Pod]:
        """Return the pods with a running container, desired or not, as the runtime has them."""
        return self._pods.running()

    async def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        """Return the log of a container's newest run, or of the one before. Raises NotShown or NoSuchPod."""
        return await self._runs.log(namespace, name, container, previous=previous)

    def running_container(self, namespace: str, name: str, container: str, uid: str = "") -> RunningContainer:
        """Return the current run of a container. Raises NotShown or NoSuchPod."""
        return self._runs.running_container(namespace, name, container, uid)

    def running_sandbox(self, namespace: str, name: str, uid: str = "") -> str:
        """Return the id of a pod's ready sandbox. Raises NotShown or NoSuchPod."""
        return self._runs.running_sandbox(namespace, name, uid)

    def events(self) -> Sequence[k8s.Event]:
        """Return the recorded events, least recently seen first."""
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
        """Return the current faults of the manifests."""
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

    def manifests(self) -> Sequence[ManifestNote]:
        """Return the pods and objects of each manifest, in the order of their sources."""
        return [
            ManifestNote(
                printable(source),
                tuple(self._node.adoption.uid_of(pod.metadata.uid) for pod in state.pods),
                tuple(map(_object_note, state.objects)),
            )
            for source, state in sorted(self._manifests().items())
        ]

    def work(self) -> Sequence[PodWork]:
        """Return the agent's work, by pod."""
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
            statistics.syncs,
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
        """Return the node's name and problems."""
        state = self._node.runtime_state
        found = [state.unhealthy(), state.network_problem(), self._node.pleg.remark()]
        sources_not_ready = sorted(self._node.desired.sources_not_ready)
        if sources_not_ready:
            found.append(f"no data yet from the source {' and '.join(sources_not_ready)}: its pods are unknown")
        return NodeNote(self._node_name, tuple(problem for problem in found if problem))

    def pleg(self) -> Figures:
        """Return PLEG's figures."""
        return self._node.pleg.figures()

    def rejected(self) -> Mapping[str, int]:
        """Return the number of rejected pods, by reason."""
        return self._node.admission.rejected

    def preempted(self) -> Mapping[str, int]:
        """Return the number of pods preempted for critical ones, by the resource that was short."""
        return self._node.evaluation.preempted

    def shutdown_times(self) -> ShutdownTimes:
        """Return when the node's pods were last terminated because the machine shut down."""
        return self._node.shutdown.times

    def evicted(self) -> tuple[Mapping[str, int], Mapping[str, Distribution]]:
        """Return the number of evicted pods, and the age in seconds of the measurement that caused each eviction, both
        by eviction signal."""
        return self._node.eviction.evicted, self._node.eviction.stats_ages

    def images_removed(self) -> Mapping[str, int]:
        """Return the number of unused images removed, by the reason."""
        return self._node.image_garbage.removed

    def probes(self) -> Sequence[ProbeFigures]:
        """Return the results of each probe so far."""
        return self._node.probes.figures()

    def publishing(self) -> PublishFigures | None:
        """Return the progress of publishing statuses and events; None on a node without an API server."""
        return None if self._member is None else self._member.publishing()

    def calls(self) -> Sequence[CallFigures]:
        """Return the calls to the runtime, by connection and path."""
        return self._calls

    def figures(self) -> NodeFigures:
        """Return the other figures of the node's parts."""
        node, member = self._node, self._member
        return NodeFigures(
            setup=self._setup(),
            tally=tally(node, in_cluster=member is not None),
            pods=node.figures,
            startups=node.startups,
            ended=node.statuses.ended,
            pulls=node.puller.figures,
            volumes=node.volumes.figures(),
            devices=node.devices.figures,
            swept=(node.orphan_cleanup.removed, node.orphan_cleanup.stuck),
            api=None if member is None else member.asked(),
            rotations=() if member is None else member.rotations(),
        )

    def __repr__(self) -> str:
        return f"<View of {self._node_name}: {self._pods!r}>"


def _object_note(held: ManifestObject) -> ObjectNote:
    """Return an object without its values."""
    more = held.binary_data if isinstance(held, k8s.ConfigMap) else held.string_data
    meta = held.metadata
    return ObjectNote(
        type(held).__name__,
        meta.namespace,
        meta.name,
        tuple(sorted({*held.data, *more})),
        held.type if isinstance(held, k8s.Secret) else "",
        bool(held.immutable),
        dict(meta.labels),
    )
