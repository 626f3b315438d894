"""Ports of the observed state of pods: PLEG and the workers implement them, other packages read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager

    from trikubelet.core.relist import PodRecord
    from trikubelet.model.runtime import (
        PodObservation,
    )
    from trikubelet.model.stats_snapshot import NodeUsed, StatsSnapshot
    from trikubelet.model.usage import Depth


class PodCache(Protocol):
    """The newest observation of each pod. PLEG writes it; pod workers wait on it."""

    def get(self, uid: str) -> PodObservation:
        """Return the current observation; an empty one for an unknown pod."""
        ...

    def is_newer(self, uid: str, time: float) -> bool:
        """True if the pod was observed, or its inspection failed, after ``time`` (Trio's clock), so that ``newer_than``
        would not wait."""
        ...

    async def newer_than(self, uid: str, time: float) -> PodObservation:
        """Wait until the pod was observed after ``time`` (Trio's clock). Raises its inspection's error."""
        ...


class NodeUsage(Protocol):
    """The resource usage of the node and its pods, measured on request."""

    async def node(self) -> NodeUsed:
        """Return the usage of the machine alone, its disk and the runtime's image store: cheap enough for every few
        seconds. Raises OSError."""
        ...

    async def snapshot(self, depth: Depth) -> StatsSnapshot:
        """Return the usage of everything, to the requested depth. Raises OSError."""
        ...

    async def disks_measured(self) -> None:
        """Wait until the disk usage of each running pod is counted and recent enough; that may take long."""
        ...


class NodePressure(Protocol):
    """The node's pressure conditions. Eviction implements it."""

    def conditions(self) -> Sequence[str]:
        """Return the node's current pressure conditions, sorted."""
        ...


class ShutdownState(Protocol):
    """The state of a shutdown of the machine. ``node.shutdown`` implements it."""

    @property
    def is_shutting_down(self) -> bool:
        """True if it shuts down, and pods are terminated for it."""
        ...


class RuntimePods(Protocol):
    """The pods in the last list of the runtime. PLEG implements it. The questions are narrow, because a record of every
    pod would cost more than everything else the agent does in a second."""

    @property
    def has_listed(self) -> bool:
        """True if the runtime was listed successfully at least once."""
        ...

    @property
    def failing_since(self) -> float | None:
        """Return when the first of the consecutive failed full lists began (Trio's clock, seconds); None if the newest
        succeeded."""
        ...

    def pod(self, uid: str) -> PodRecord | None:
        """Return one pod, or None if it has neither a sandbox nor a container."""
        ...

    def uids(self) -> Sequence[str]:
        """Return the UIDs of every pod with a sandbox or a container, desired or not."""
        ...

    def uids_with_dead(self) -> Sequence[str]:
        """Return the UIDs of the pods with a sandbox or container that does not run: only they can have garbage."""
        ...

    def container_ids(self) -> Collection[str]:
        """Return the ids of every container."""
        ...

    def is_running(self, uid: str) -> bool:
        """True if the pod has a running sandbox or container."""
        ...

    def running(self, beside: Collection[str]) -> Sequence[PodRecord]:
        """Return the pods with a running sandbox or container, without those in ``beside``."""
        ...

    def may_have(self, uid: str) -> bool:
        """True if the pod may have a sandbox or container; always before the first list."""
        ...


class Relister(Protocol):
    """PLEG's entry point for components that have just changed a pod."""

    def request_relist(self, uid: str) -> None:
        """Request an on-demand relist of one pod, soon. Never blocks; repeated requests are merged."""
        ...

    def request_inspection(self, uid: str) -> None:
        """Request a relist like ``request_relist``, and an inspection whatever the list shows, because lists do not
        show the change. Never blocks."""
        ...

    def changing(self, uid: str) -> AbstractContextManager[None]:
        """Suppress relists that the runtime's events about the pod would request in the block, in which the caller
        changes the pod. One is requested at the end, however that comes."""
        ...


class PodDeletionSafetyProvider(Protocol):
    """The phase of each pod's life on this node. Pod workers implement it."""

    def could_have_running_containers(self, uid: str) -> bool:
        """True if a container of the pod may run now."""
        ...

    def is_finished(self, uid: str) -> bool:
        """True if the pod had a worker here which has finished all of its work."""
        ...

    def is_to_begin_again(self, uid: str) -> bool:
        """True if the pod is desired again, and its earlier instance is not gone yet."""
        ...
