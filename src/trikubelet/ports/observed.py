"""What is known of the pods that are there: the PLEG and the workers report it, everybody else asks."""

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
        """What is known now; an empty observation for an unknown pod."""
        ...

    def is_newer(self, uid: str, time: float) -> bool:
        """Whether the pod was observed, or its inspection failed, after ``time`` (Trio's clock): ``newer_than`` would
        not wait."""
        ...

    async def newer_than(self, uid: str, time: float) -> PodObservation:
        """Wait until the pod was observed after ``time`` (Trio's clock). Raises what its inspection raised."""
        ...


class NodeUsage(Protocol):
    """What the node and its pods use, measured when it is asked for."""

    async def node(self) -> NodeUsed:
        """The machine alone, its disk and the runtime's image store: cheap enough for every few seconds. Raises
        OSError."""
        ...

    async def snapshot(self, depth: Depth) -> StatsSnapshot:
        """All of it, as deep as wanted. Raises OSError."""
        ...

    async def disks_measured(self) -> None:
        """Wait until what each running pod has on the node's disk is counted, and not too long ago; for long, where
        much is to be counted."""
        ...


class NodePressure(Protocol):
    """What the node is short of. Eviction knows."""

    def conditions(self) -> Sequence[str]:
        """The pressure conditions the node has now, sorted."""
        ...


class ShutdownState(Protocol):
    """Whether the machine goes down. ``node.shutdown`` knows."""

    @property
    def is_shutting_down(self) -> bool:
        """It does, and pods are ended for it."""
        ...


class RuntimePods(Protocol):
    """What the runtime was last seen to hold. PLEG knows; the questions are narrow, since a record of every pod would
    be dearer than all the rest that is done in a second."""

    @property
    def has_listed(self) -> bool:
        """Whether the runtime was listed successfully at least once."""
        ...

    @property
    def failing_since(self) -> float | None:
        """When the first of the lists of everything began that have all failed since (Trio's clock, seconds); None when
        the newest did not."""
        ...

    def pod(self, uid: str) -> PodRecord | None:
        """One pod, or None when neither a sandbox nor a container of it exists."""
        ...

    def uids(self) -> Sequence[str]:
        """Of every pod of which a sandbox or a container exists, wanted or not."""
        ...

    def uids_with_dead(self) -> Sequence[str]:
        """Of the pods of which something does not run: only they can have garbage."""
        ...

    def container_ids(self) -> Collection[str]:
        """Of every container."""
        ...

    def is_running(self, uid: str) -> bool:
        """Whether something of the pod runs."""
        ...

    def running(self, beside: Collection[str]) -> Sequence[PodRecord]:
        """The pods of which something runs, but for those of ``beside``."""
        ...

    def may_have(self, uid: str) -> bool:
        """Whether anything of the pod exists, as far as is known; true for every pod before the first list."""
        ...


class Relister(Protocol):
    """The PLEG's side door for those who just changed something."""

    def request_relist(self, uid: str) -> None:
        """Ask for an on-demand relist of one pod, soon. Never blocks; asking twice is asking once."""
        ...

    def request_inspection(self, uid: str) -> None:
        """Ask for one as ``request_relist`` does, and for an inspection whatever it shows: what changed of the pod no
        list shows. Never blocks."""
        ...

    def changing(self, uid: str) -> AbstractContextManager[None]:
        """Within it the caller changes the pod: what the runtime reports of it meanwhile asks for no relist. One is
        asked for at the end, however that comes."""
        ...


class PodDeletionSafetyProvider(Protocol):
    """How far each pod's life on this node is. Pod workers know."""

    def could_have_running_containers(self, uid: str) -> bool:
        """Whether a container of the pod may run now."""
        ...

    def is_finished(self, uid: str) -> bool:
        """Whether the pod had a life here, and nothing of it is left to do."""
        ...

    def is_to_begin_again(self, uid: str) -> bool:
        """Whether the pod is wanted again, and its earlier instance is not gone yet."""
        ...
