"""What the servers may see of a node (``server.node_view.NodeView``), over the parts that ``app/node.py`` joined.

Which pods are shown: those a source wants, and those whose worker still has something to do. What is added to a static
pod, which no API server ever saw: when it was born, from the oldest thing the runtime was seen to have of it, so that
its age survives a restart of the agent; and, once its manifest is gone, when it was asked to go.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.core.lifecycle import Finished, Terminated, Terminating
from trikubelet.core.names import CONFIG_SEEN, all_containers, full_name, log_directory_name
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339, rfc3339
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState
from trikubelet.server.node_view import LogPlace, ManifestFault, NodeNote, NoSuchPod, NotShown, PodWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trikubelet.app.node import Node
    from trikubelet.core.file_source import FileState
    from trikubelet.core.lifecycle import State
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.pods.worker import PodWorker
    from trikubelet.ports import Clock
    from trikubelet.status.recorder import Event

_ATTEMPT = re.compile(r"(\d+)\.log")
COMPONENT = "trikubelet"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A pod as it was last shown, and from what it was put together."""

    pod: k8s.Pod
    status: k8s.PodStatus | None
    state: State | None
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
    ) -> None:
        """``pod_logs``: the directory of the pods' log directories; ``manifests``: what each manifest file says now; a
        pod without a line in it was kept from an earlier reading."""
        self._node = node
        self._clock = clock
        self._node_name = node_name
        self._pod_logs = pod_logs
        self._manifests = manifests
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
        before = self._seen.get(uid)
        born_ns = _born_ns(pod, self._node.cache.get(uid), 0 if before is None else before.born_ns)
        if (
            before is not None
            and before.pod is pod
            and before.status is status
            and before.state == state
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
            pod, api_version="v1", kind="Pod", metadata=msgspec.structs.replace(meta, **changes), status=status
        )
        return _Seen(pod, status, state, born_ns, shown)

    def _asked_to_go_ns(self, uid: str, before: _Seen | None) -> int:
        """When the pod began to stop: the node says so in an event, or it is only seen now."""
        if before is not None and before.shown.metadata.deletion_timestamp:
            return parse_rfc3339(before.shown.metadata.deletion_timestamp)
        killing = [event.last_seen for event in self._node.events.about(uid) if event.reason == "Killing"]
        return max(killing, default=self._clock.now_ns())

    # ---- what is said about them ----

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
                kind=about.kind, name=about.name, namespace=about.namespace, uid=about.uid, field_path=about.field_path
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
        """What is wrong with the manifests now."""
        found = []
        for _, state in sorted(self._manifests().items()):
            kept = [pod.metadata for pod in state.pods if full_name(pod) not in state.lines]
            running = tuple(f"{meta.namespace}/{meta.name}" for meta in kept)
            found += [
                ManifestFault(fault.source, fault.problem, fault.line, fault.path, fault.remedy, running)
                for fault in state.faults
            ]
        return found

    def work(self) -> Sequence[PodWork]:
        """What the agent is doing, pod by pod."""
        now = trio.current_time()
        return [_work(worker, now) for worker in self._node.workers]

    def node(self) -> NodeNote:
        """How the node itself is."""
        state = self._node.runtime_state
        found = [state.unhealthy(), state.network_trouble()]
        silent = sorted(self._node.desired.silent)
        if silent:
            found.append(f"no word yet from the source {' and '.join(silent)}: its pods are not known")
        return NodeNote(self._node_name, tuple(trouble for trouble in found if trouble))

    # ---- logs ----

    def log(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace:
        """The log of a container's newest run, or of the one before. Raises NotShown or NoSuchPod."""
        pod = self._named(namespace, name)
        names = _containers(pod)
        if container not in names:
            raise NotShown(f'pod "{name}" has no container "{container}"; it has {", ".join(names)}')
        uid = pod.metadata.uid
        run = _run(self._node.cache.get(uid).history(container), _is_waiting(pod, container), previous=previous)
        if run is not None and run.log_path:
            return LogPlace(os.path.join(self._log_directory(pod), run.log_path), self._is_over(uid, run.id))
        path = self._log_on_disk(pod, container, previous=previous)
        if path is not None:
            return LogPlace(path, lambda: True)
        if previous:
            raise NotShown(f'container "{container}" of pod "{name}" has no earlier run on this node')
        why = _waits_for(pod, container)
        raise NotShown(f'container "{container}" of pod "{name}" has not started{f": {why}" if why else ""}')

    def _named(self, namespace: str, name: str) -> k8s.Pod:
        lives = [pod for pod in self.pods() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)]
        if not lives:
            raise NoSuchPod(f'pod "{name}" is not on this node (namespace "{namespace}")')
        # While an older life of the same name still ends, it is the one that has something to say.
        return next((pod for pod in lives if self._node.cache.get(pod.metadata.uid).containers), lives[0])

    def _log_directory(self, pod: k8s.Pod) -> str:
        meta = pod.metadata
        return os.path.join(self._pod_logs, log_directory_name(meta.namespace, meta.name, meta.uid))

    def _log_on_disk(self, pod: k8s.Pod, container: str, *, previous: bool) -> str | None:
        """The log of a run of which the runtime has nothing any more."""
        directory = os.path.join(self._log_directory(pod), container)
        try:
            names = os.listdir(directory)
        except OSError:
            return None
        attempts = sorted((int(match[1]) for name in names if (match := _ATTEMPT.fullmatch(name))), reverse=True)
        wanted = attempts[1:] if previous else attempts
        return os.path.join(directory, f"{wanted[0]}.log") if wanted else None

    def _is_over(self, uid: str, container_id: str) -> Callable[[], bool]:
        def is_over() -> bool:
            return all(one.id != container_id for one in self._node.cache.get(uid).running)

        return is_over

    def __repr__(self) -> str:
        return f"<View of {self._node_name}: {len(self._seen)} pods>"


def _born_ns(pod: k8s.Pod, observed: PodObservation, known_ns: int) -> int:
    """When the pod first was, as far as anybody can tell; 0 when nobody can."""
    found = [known_ns, *(sandbox.created_at for sandbox in observed.sandboxes)]
    found += [container.created_at for container in observed.containers]
    with suppress(ValueError):  # a pod of the API server, which has its own birthday, was not read here
        found.append(parse_rfc3339(pod.metadata.annotations.get(CONFIG_SEEN, "")))
    return min((when for when in found if when > 0), default=0) // SECOND_NS * SECOND_NS


def _work(worker: PodWorker, now: float) -> PodWork:
    told = worker.statistics()
    busy = None if told.busy_since is None else now - told.busy_since
    uid, state = worker.pod.metadata.uid, type(told.state).__name__
    return PodWork(uid, state, told.attempts, told.failures, told.last_error, busy)


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
    """The run that is meant. One that waits to be started again has its last run both as the newest and as the one
    before: that is what its state and its last state speak of."""
    runs = [one for one in history if one.state in (ContainerState.RUNNING, ContainerState.EXITED)]
    if previous and not (waiting and runs and runs[0].state is ContainerState.EXITED):
        runs = runs[1:]
    return runs[0] if runs else None
