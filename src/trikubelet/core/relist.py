"""The relist: undecoded CRI list replies in, changed pods out.

The compiled ``trikubelet._relist`` does the work, to which this module gives a typed face, or the plain-Python twin if
no binary can be loaded. Both must pass the same tests.

A pod is reported while it differs from its *record*, which advances only when the caller confirms an inspection. So a
failed inspection loses nothing: the next list yields the same events.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

from trikubelet.core import relist_twin, wire_twin
from trikubelet.core.compiled import BACKEND

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

if BACKEND == "rust":
    from trikubelet import _relist

    DecodeError: type[ValueError] = _relist.RelistDecodeError
else:  # pragma: no cover - where no binary exists for the platform
    DecodeError = wire_twin.TwinDecodeError


class EventKind(IntEnum):
    """The kind of change of a sandbox or container (upstream: ContainerStarted, …). CHANGED is only for the relist's
    caller, and no conclusion may be drawn from it."""

    STARTED = 0
    DIED = 1
    REMOVED = 2
    CHANGED = 3


class PodEvent(NamedTuple):
    """One event; ``id`` is that of the sandbox or container."""

    kind: EventKind
    id: str
    is_sandbox: bool


class PodChange(NamedTuple):
    """A pod to inspect: the events since its record, and the ids of everything it has now, newest first."""

    uid: str
    name: str
    namespace: str
    events: tuple[PodEvent, ...]
    sandboxes: tuple[str, ...]
    containers: tuple[str, ...]

    @property
    def gone(self) -> bool:
        """True if nothing of the pod is left."""
        return not self.sandboxes and not self.containers


class SandboxRecord(NamedTuple):
    """A sandbox as listed; ``state`` is the CRI's number."""

    id: str
    attempt: int
    state: int


class ContainerRecord(NamedTuple):
    """A container as listed; ``state`` is the CRI's number."""

    id: str
    name: str
    attempt: int
    state: int
    sandbox_id: str


class PodRecord(NamedTuple):
    """A pod as listed; newest first."""

    uid: str
    name: str
    namespace: str
    sandboxes: tuple[SandboxRecord, ...]
    containers: tuple[ContainerRecord, ...]


class Counts(NamedTuple):
    """Pods with a ready sandbox, containers by state, and the sandboxes and containers of the last full lists that
    belong to no pod; the agent ignores those."""

    running_pods: int
    created: int
    running: int
    exited: int
    unknown: int
    unmanaged: int = 0


class Relist:
    """Owns the last observation of every pod (in Rust). Not for more than one task at a time."""

    def __init__(self, backend: Literal["rust", "python"] = BACKEND) -> None:
        self._inner = _relist.Relist() if backend == "rust" else relist_twin.Relist()

    def take(self, sandboxes: Sequence[bytes], containers: Sequence[bytes]) -> None:
        """Apply full lists, in any number of chunks. Raises DecodeError, with the ``offset`` in bytes, and then changes
        nothing. Releases the GIL."""
        self._inner.take(sandboxes, containers)

    def due(self) -> list[str]:
        """Return the UIDs of the pods that differ from their records, sorted by their UTF-8 bytes. There may be
        thousands, so the events of each are returned on request."""
        return self._inner.due()

    def change(self, uid: str) -> PodChange:
        """Return the events of a pod since its record, as it was last observed; no events if it is as recorded, and an
        empty change for an unknown pod."""
        return _change(self._inner.change(uid))

    def observe(
        self, sandboxes: Sequence[bytes], containers: Sequence[bytes], reinspect: Collection[str] = ()
    ) -> list[PodChange]:
        """Return all changes at once: ``take``, then the changes of the pods that are ``due`` or in ``reinspect``, by
        UID."""
        self.take(sandboxes, containers)
        return [self.change(uid) for uid in sorted({*self.due(), *reinspect}, key=str.encode)]

    def has_unlabelled(self, uid: str) -> bool:
        """True if something of the pod in the newest full lists lacks the pod's UID as a label. Lists of one pod, which
        runtimes filter by that label, lack it: ``observe_pod`` would treat it as removed."""
        return self._inner.has_unlabelled(uid)

    def observe_pod(
        self, uid: str, sandboxes: Sequence[bytes], containers: Sequence[bytes], *, force: bool = False
    ) -> PodChange | None:
        """Apply lists of one pod; items of others are ignored. None if it is as recorded, unless ``force``."""
        change = self._inner.observe_pod(uid, sandboxes, containers, force)
        return None if change is None else _change(change)

    def advance(self, uid: str) -> None:
        """Make the last observation of an inspected pod its record."""
        self._inner.advance(uid)

    def pods(self) -> list[PodRecord]:
        """Return every pod, by UID: an object for everything on the node, so too expensive for frequent calls."""
        return [_record(record) for record in self._inner.pods()]

    def pod(self, uid: str) -> PodRecord | None:
        """Return one pod, or None."""
        record = self._inner.pod(uid)
        return None if record is None else _record(record)

    def pod_count(self) -> int:
        """Return the number of pods."""
        return self._inner.pod_count()

    def is_running(self, uid: str) -> bool:
        """True if something of the pod runs: a ready sandbox, a running container."""
        return self._inner.is_running(uid)

    def running(self, beside: Collection[str] = ()) -> list[PodRecord]:
        """Return the pods of which something runs, except those of ``beside``, by UID."""
        return [_record(record) for record in self._inner.running(set(beside))]

    def uids(self) -> list[str]:
        """Return the UIDs of all pods, sorted by their UTF-8 bytes."""
        return self._inner.uids()

    def uids_with_dead(self) -> list[str]:
        """Return the UIDs of pods of which something does not run, in the same order. Only they can have garbage."""
        return self._inner.uids_with_dead()

    def container_ids(self) -> frozenset[str]:
        """Return the ids of all containers."""
        return frozenset(self._inner.container_ids())

    def counts(self) -> Counts:
        """Return the counts of pods and containers."""
        running_pods, by_state, unmanaged = self._inner.counts()
        return Counts(running_pods, *by_state, unmanaged)


def _change(raw: relist_twin.RawChange) -> PodChange:
    uid, name, namespace, events, sandboxes, containers = raw
    pod_events = tuple(PodEvent(EventKind(kind), id_, is_sandbox) for kind, id_, is_sandbox in events)
    return PodChange(uid, name, namespace, pod_events, tuple(sandboxes), tuple(containers))


def _record(raw: relist_twin.RawRecord) -> PodRecord:
    uid, name, namespace, sandboxes, containers = raw
    return PodRecord(
        uid,
        name,
        namespace,
        tuple(SandboxRecord(*sandbox) for sandbox in sandboxes),
        tuple(ContainerRecord(*container) for container in containers),
    )
