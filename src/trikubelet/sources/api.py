"""The pods the API server has for this node, as a source like any other: whole snapshots into a slot.

The informer keeps the pods; this only leaves out the mirrors, which are pictures of pods the node has anyway, and marks
where the others came from. Nothing is put before the server was heard: until then nobody knows what it wants. Whoever
joins the node to its cluster calls this only once the node's own object was heard of, too: by its labels pods are
admitted (upstream waits likewise, upstream-behaviour.md §1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.names import API_SOURCE, CONFIG_SEEN, CONFIG_SOURCE, is_mirror, namespaced_name
from trikubelet.core.timestamps import rfc3339_nano
from trikubelet.model import k8s
from trikubelet.model.api import PODS
from trikubelet.model.decoding import decode_object
from trikubelet.model.objects import ObjectRef
from trikubelet.sources.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.kit.slot import Slot
    from trikubelet.ports import ApiPods, Clock


def decode_pod(raw: bytes) -> k8s.Pod:
    """A pod of the API server, marked as such whatever it says of itself. Raises msgspec.ValidationError."""
    pod = decode_object(raw, k8s.Pod)
    annotations = pod.metadata.annotations | {CONFIG_SOURCE: API_SOURCE}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


class ApiSource:
    """Puts the informer's pods into the source's slot. Owns when this agent first saw each of them, which it adds as
    upstream's annotation."""

    def __init__(self, pods: ApiPods, slot: Slot[Snapshot], clock: Clock) -> None:
        self._pods = pods
        self._slot = slot
        self._clock = clock
        self._marked: dict[tuple[str, str, str], tuple[k8s.Pod, k8s.Pod]] = {}
        """By UID, namespace and name: the pod as the informer has it, and as it is passed on."""

    def changed(self, _: Collection[tuple[str, str]]) -> None:
        """The informer's pods are others than before. Never blocks."""
        if self._pods.has_synced:
            marked = (self._mark(pod) for pod in self._pods.objects.values() if not is_mirror(pod))
            self._marked = {(pod.metadata.uid, *namespaced_name(pod)): (pod, passed) for pod, passed in marked}
            pods = tuple(passed for _, passed in self._marked.values())
            undecodable = {
                ObjectRef(PODS.kind, name, namespace, fault.uid): fault.why
                for (namespace, name), fault in self._pods.faults().items()
            }
            self._slot.put(Snapshot(pods, undecodable=undecodable))

    def _mark(self, pod: k8s.Pod) -> tuple[k8s.Pod, k8s.Pod]:
        before = self._marked.get((pod.metadata.uid, *namespaced_name(pod)))
        if before is not None and before[0] is pod:
            return before  # the same object again, by which the mux knows that nothing changed
        seen = before[1].metadata.annotations[CONFIG_SEEN] if before else rfc3339_nano(self._clock.now_ns())
        annotations = pod.metadata.annotations | {CONFIG_SEEN: seen}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        return pod, msgspec.structs.replace(pod, metadata=metadata)
