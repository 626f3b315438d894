"""The pods the API server has for this node, as a source like any other: whole snapshots into a slot.

The informer keeps the pods; this only leaves out the mirrors, which are pictures of pods the node has anyway, and marks
where the others came from. Nothing is put before the server was heard: until then nobody knows what it wants. Whoever
joins the node to its cluster calls this only once the node's own object was heard of, too: by its labels pods are
admitted (upstream waits likewise, upstream-behaviour.md §1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.names import API_SOURCE, CONFIG_SOURCE, is_mirror
from trikubelet.model import k8s
from trikubelet.model.api import PODS
from trikubelet.model.decoding import decode_object
from trikubelet.model.objects import ObjectRef
from trikubelet.sources.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection

    from trikubelet.kit.slot import Slot
    from trikubelet.ports import ApiPods


def decode_pod(raw: bytes) -> k8s.Pod:
    """A pod of the API server, marked as such whatever it says of itself. Raises msgspec.ValidationError."""
    pod = decode_object(raw, k8s.Pod)
    annotations = pod.metadata.annotations | {CONFIG_SOURCE: API_SOURCE}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


class ApiSource:
    """Puts the informer's pods into the source's slot. Owns nothing."""

    def __init__(self, pods: ApiPods, slot: Slot[Snapshot]) -> None:
        self._pods = pods
        self._slot = slot

    def changed(self, _: Collection[tuple[str, str]]) -> None:
        """The informer's pods are others than before. Never blocks."""
        if self._pods.has_synced:
            pods = tuple(pod for pod in self._pods.objects.values() if not is_mirror(pod))
            undecodable = {
                ObjectRef(PODS.kind, name, namespace, fault.uid): fault.why
                for (namespace, name), fault in self._pods.faults().items()
            }
            self._slot.put(Snapshot(pods, undecodable=undecodable))
