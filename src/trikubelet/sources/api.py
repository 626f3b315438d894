"""The API server's pods for this node, as a source like any other: whole snapshots in a slot.

The informer keeps the pods. This source leaves out mirror pods, because the node has their static pods anyway, and
marks the others as coming from the API server. Nothing is published before the server has answered, because its desired
pods are unknown until then. The code that joins the cluster creates it only once the node's own object was received,
too: pods are admitted by its labels (like upstream, upstream-behaviour.md §1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.names import API_SOURCE, CONFIG_SEEN, CONFIG_SOURCE, is_mirror
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
    """Return a pod of the API server, marked as such whatever its own annotation is. Raises msgspec.ValidationError."""
    pod = decode_object(raw, k8s.Pod)
    annotations = pod.metadata.annotations | {CONFIG_SOURCE: API_SOURCE}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


class ApiSource:
    """Publishes the informer's pods in the source's slot. Owns the time at which this agent first saw each of them,
    which it adds as upstream's annotation."""

    def __init__(self, pods: ApiPods, slot: Slot[Snapshot], clock: Clock) -> None:
        self._pods = pods
        self._slot = slot
        self._clock = clock
        self._marked: dict[tuple[str, str], tuple[k8s.Pod, k8s.Pod]] = {}
        """By namespace and name: the informer's pod, and the published one."""

    def changed(self, _: Collection[tuple[str, str]]) -> None:
        """Publish the informer's pods, which have changed. Never blocks."""
        if self._pods.has_synced:
            before, marked = self._marked, {}
            for key, pod in self._pods.objects.items():
                held = before.get(key)
                if held is not None and held[0] is pod:
                    marked[key] = held  # the same object again, by which the mux knows that nothing changed
                elif not is_mirror(pod):
                    marked[key] = (pod, self._with_time(pod, held))
            self._marked = marked
            pods = tuple(passed for _, passed in marked.values())
            undecodable = {
                ObjectRef(PODS.kind, name, namespace, fault.uid): fault.why
                for (namespace, name), fault in self._pods.faults().items()
            }
            self._slot.put(Snapshot(pods, undecodable=undecodable))

    def _with_time(self, pod: k8s.Pod, held: tuple[k8s.Pod, k8s.Pod] | None) -> k8s.Pod:
        """Return the pod with the time at which it was first seen: now, unless it was published under this UID
        before."""
        is_known = held is not None and held[1].metadata.uid == pod.metadata.uid
        seen = held[1].metadata.annotations[CONFIG_SEEN] if held and is_known else rfc3339_nano(self._clock.now_ns())
        annotations = pod.metadata.annotations | {CONFIG_SEEN: seen}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        return msgspec.structs.replace(pod, metadata=metadata)
