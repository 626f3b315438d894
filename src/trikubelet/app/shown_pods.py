"""The pods as the servers show them, made from the parts in ``app/node.py``.

Shown are the desired pods, and those whose worker still has work. A static pod, which no API server has seen, gets a
creation time, from the oldest object of it on the runtime, so that its age survives a restart of the agent; and, once
its manifest is gone, a deletion time. Any pod that is not started yet gets the reason.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.lifecycle import Finished, Terminated, Terminating
from trikubelet.core.names import CONFIG_SEEN, full_name
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339, rfc3339
from trikubelet.model import k8s
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime import PodObservation
from trikubelet.server.node_view import NoSuchPod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trikubelet.app.node import Node
    from trikubelet.core.lifecycle import State
    from trikubelet.core.relist import PodRecord
    from trikubelet.pods.worker import PodWorker
    from trikubelet.ports import Clock

WAITS = "WaitsForRuntime"
"""The reason of a pod that is not started before the runtime has answered."""
WAITS_FOR_END = "WaitsForEarlierPod"
"""The reason of a pod that is not started before another one with its name or UID has ended."""


class _Seen(Frozen):
    """A pod as it was last shown, and its inputs."""

    pod: k8s.Pod
    status: k8s.PodStatus | None
    state: State | None
    waits: tuple[str, str]
    born_ns: int
    shown: k8s.Pod


class ShownPods:
    """Owns the pods as they were last shown, so that an unchanged pod stays the same object."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._seen: dict[tuple[str, str], _Seen] = {}  # by UID and full name

    def all(self) -> Sequence[k8s.Pod]:
        """Return every pod with its newest status. An unchanged pod is the same object as in the last call."""
        now = {(pod.metadata.uid, full_name(pod)): self._see(pod, worker) for pod, worker in self._present()}
        self._seen = now
        return [seen.shown for seen in now.values()]

    def _present(self) -> Iterator[tuple[k8s.Pod, PodWorker | None]]:
        workers = {(worker.pod.metadata.uid, full_name(worker.pod)): worker for worker in self._node.workers}
        for pod in self._node.desired:
            yield pod, workers.pop((pod.metadata.uid, full_name(pod)), None)
        for worker in workers.values():
            if not isinstance(worker.state, Finished):
                yield worker.pod, worker

    def _see(self, pod: k8s.Pod, worker: PodWorker | None) -> _Seen:
        uid = pod.metadata.uid
        status = (None if _is_of_another(self._node, pod) else self._node.statuses.get(uid)) or pod.status
        state = None if worker is None else worker.state
        waits = self._waits(pod)
        before = self._seen.get((uid, full_name(pod)))
        born_ns = _born_ns(pod, observed(self._node, pod), 0 if before is None else before.born_ns)
        if (
            before is not None
            and before.pod is pod
            and before.status is status
            and before.state == state
            and before.waits == waits
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
            status=_waiting(status, *waits) if waits[0] else status,
        )
        return _Seen(pod, status, state, waits, born_ns, shown)

    def _waits(self, pod: k8s.Pod) -> tuple[str, str]:
        """Return why the pod is not started yet, as reason and message; empty for one that does not wait so."""
        if why := self._node.admission.waits_because(pod):
            said = (
                "The container runtime has not answered yet; unless its answer changes this, the pod will be rejected"
            )
            return WAITS, f"{said}: {why}"
        why = self._node.workers.earlier.waits_because(pod)
        return (WAITS_FOR_END, f"Not started yet: {why}") if why else ("", "")

    def _asked_to_go_ns(self, uid: str, before: _Seen | None) -> int:
        """Return when the pod began to terminate: by the node's event, or now."""
        if before is not None and before.shown.metadata.deletion_timestamp:
            return parse_rfc3339(before.shown.metadata.deletion_timestamp)
        killing = [event.last_seen for event in self._node.events.about(uid) if event.reason == "Killing"]
        return max(killing, default=self._clock.now_ns())

    def running(self) -> Sequence[k8s.Pod]:
        """Return the pods with a running container, desired or not, as the runtime has them."""
        return [self._as_it_runs(record) for record in self._node.pleg.running(())]

    def _as_it_runs(self, record: PodRecord) -> k8s.Pod:
        running = self._node.cache.get(record.uid).running
        return k8s.Pod(
            metadata=k8s.ObjectMeta(name=record.name, namespace=record.namespace, uid=record.uid),
            spec=k8s.PodSpec(containers=tuple(k8s.Container(name=one.name, image=one.image) for one in running)),
        )

    def named(self, namespace: str, name: str) -> k8s.Pod:
        """Return the pod of that name. Raises NoSuchPod."""
        instances = [pod for pod in self.all() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name)]
        if not instances:
            raise NoSuchPod(f'pod "{name}" is not on this node (namespace "{namespace}")')
        # While an older instance of the same name is still terminating, it is the one with containers and logs.
        return next((pod for pod in instances if observed(self._node, pod).containers), instances[0])

    def __repr__(self) -> str:
        return f"<ShownPods: {len(self._seen)}>"


def observed(node: Node, pod: k8s.Pod) -> PodObservation:
    """Return the runtime's state of a shown pod; an empty one if its UID belongs to a pod of another name there, for
    whose end this one waits."""
    uid = pod.metadata.uid
    return PodObservation(uid) if _is_of_another(node, pod) else node.cache.get(uid)


def _is_of_another(node: Node, pod: k8s.Pod) -> bool:
    earlier = node.workers.earlier
    return earlier.has_another(pod) or earlier.orphan_under_uid(pod) is not None


def _born_ns(pod: k8s.Pod, observed: PodObservation, known_ns: int) -> int:
    """Return the pod's creation time as far as known; 0 if unknown."""
    found = [known_ns, *(sandbox.created_at for sandbox in observed.sandboxes)]
    found += [container.created_at for container in observed.containers]
    with suppress(ValueError):  # a pod of the API server has its own creation time
        found.append(parse_rfc3339(pod.metadata.annotations.get(CONFIG_SEEN, "")))
    return min((when for when in found if when > 0), default=0) // SECOND_NS * SECOND_NS


def _waiting(status: k8s.PodStatus | None, reason: str, message: str) -> k8s.PodStatus:
    """Return the status of a pod that is not started yet, shown here only and never published: an API server may know
    the pod as running, and it may be."""
    return msgspec.structs.replace(status or k8s.PodStatus(phase="Pending"), reason=reason, message=message)
