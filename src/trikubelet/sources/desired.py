"""The desired pods of this node, and the sources that have reported.

The mux is the only writer. Readers are admission and resizes, the parts that compare and remove (housekeeping,
eviction, garbage, unused images), mirror pods, and the view for the node's APIs and metrics. A pod is in it from the
moment its source published it until the source removed it; its worker may outlive that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.model.objects import ObjectRef


class DesiredPods:
    """Owns the newest configuration of every desired pod, by source. Written by the mux only."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._by_source: dict[str, Mapping[str, Pod]] = {}
        self._invalid_manifests: dict[str, tuple[str, ...]] = {}
        self._undecodable: dict[str, Mapping[ObjectRef, str]] = {}
        self._sources_not_ready = set(sources)

    def replace(
        self,
        source: str,
        pods: Mapping[str, Pod],
        invalid_manifests: tuple[str, ...] = (),
        undecodable: Mapping[ObjectRef, str] | None = None,
    ) -> None:
        """Replace all that the source desires: its pods, its manifests that may desire more, and its undecodable pods
        (see ``Snapshot``)."""
        self._by_source[source] = pods
        self._invalid_manifests[source] = invalid_manifests
        self._undecodable[source] = undecodable or {}
        self._sources_not_ready.discard(source)

    def of(self, source: str) -> Mapping[str, Pod]:
        """Return the pods of the source, by UID."""
        return self._by_source.get(source, {})

    def undecodable_of(self, source: str) -> Mapping[ObjectRef, str]:
        """Return the undecodable pods of the source, and why."""
        return self._undecodable.get(source, {})

    def get(self, uid: str) -> Pod | None:
        """Return the pod of that UID, from any source."""
        return next((pods[uid] for pods in self._by_source.values() if uid in pods), None)

    def __iter__(self) -> Iterator[Pod]:
        return (pod for pods in self._by_source.values() for pod in pods.values())

    def __len__(self) -> int:
        return sum(len(pods) for pods in self._by_source.values())

    @property
    def all_ready(self) -> bool:
        """True if every configured source has reported at least once. Until then no unknown pod may be removed."""
        return not self._sources_not_ready

    @property
    def invalid_manifests(self) -> tuple[str, ...]:
        """Return the manifests whose desired pods are unknown. While there is one, no unknown pod may be removed."""
        return tuple(name for names in self._invalid_manifests.values() for name in names)

    @property
    def undecodable(self) -> frozenset[str]:
        """Return the UIDs of desired pods that cannot be decoded."""
        return frozenset(ref.uid for refs in self._undecodable.values() for ref in refs)

    @property
    def sources_not_ready(self) -> frozenset[str]:
        """Return the sources that have not reported yet."""
        return frozenset(self._sources_not_ready)

    def __repr__(self) -> str:
        waiting = f", waiting for {', '.join(sorted(self._sources_not_ready))}" if self._sources_not_ready else ""
        return f"<DesiredPods {len(self)}{waiting}>"
