"""The pods this node should hold, and which sources have spoken.

The mux is the only writer. Admission and resizes read it, what compares and removes (housekeeping, eviction, garbage,
unused images), the mirror pods, and the view that the node's APIs and metrics show. A pod stands here from the moment
its source brought it until the source gave it up; its worker may outlive that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trikubelet.model.k8s import Pod
    from trikubelet.model.objects import ObjectRef


class DesiredPods:
    """Owns the newest configuration of every wanted pod, by source. Written by the mux only."""

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
        """Everything the source wants now, its manifests that may want more, and pods of it that cannot be read (see
        ``Snapshot``)."""
        self._by_source[source] = pods
        self._invalid_manifests[source] = invalid_manifests
        self._undecodable[source] = undecodable or {}
        self._sources_not_ready.discard(source)

    def of(self, source: str) -> Mapping[str, Pod]:
        """What the source wants, by UID."""
        return self._by_source.get(source, {})

    def undecodable_of(self, source: str) -> Mapping[ObjectRef, str]:
        """The pods of the source that nobody can read, and why."""
        return self._undecodable.get(source, {})

    def get(self, uid: str) -> Pod | None:
        """The pod of that UID, whichever source wants it."""
        return next((pods[uid] for pods in self._by_source.values() if uid in pods), None)

    def __iter__(self) -> Iterator[Pod]:
        return (pod for pods in self._by_source.values() for pod in pods.values())

    def __len__(self) -> int:
        return sum(len(pods) for pods in self._by_source.values())

    @property
    def all_ready(self) -> bool:
        """Whether every configured source has spoken at least once. Until then nothing unknown may be removed."""
        return not self._sources_not_ready

    @property
    def invalid_manifests(self) -> tuple[str, ...]:
        """The manifests of which nobody can tell what they want. While there is one, nothing unknown may be removed."""
        return tuple(name for names in self._invalid_manifests.values() for name in names)

    @property
    def undecodable(self) -> frozenset[str]:
        """The UIDs of pods that are wanted and that nobody can read."""
        return frozenset(ref.uid for refs in self._undecodable.values() for ref in refs)

    @property
    def sources_not_ready(self) -> frozenset[str]:
        """The sources that have not spoken yet."""
        return frozenset(self._sources_not_ready)

    def __repr__(self) -> str:
        waiting = f", waiting for {', '.join(sorted(self._sources_not_ready))}" if self._sources_not_ready else ""
        return f"<DesiredPods {len(self)}{waiting}>"
