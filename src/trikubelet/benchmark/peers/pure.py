"""The best relist we could write without a compiled module of our own. It shows what ours is worth. Over a socket its
replies come through the same client as ours, compiled frame reader and all: what becomes of them is its own.

Two things make it fast. The lists are decoded as if a container were an id and a state: protobuf skips the rest, which
for most containers has no readers. And those are kept as a dictionary, so that one comparison, made in C, finds out
that nothing has changed, and a set operation what has. Only what is new is decoded as a whole, for the pod it belongs
to. Nothing may be remembered of the raw bytes: a real runtime writes the same container differently each time.

Walking the bytes by hand was tried: to hop from container to container takes as long as to decode them all.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from trikubelet.benchmark.peers.asking import Asking
from trikubelet.benchmark.peers.ours import RecordObserver, events_of
from trikubelet.benchmark.peers.protocol import main
from trikubelet.core.names import POD_NAME, POD_NAMESPACE, POD_UID
from trikubelet.core.relist import EventKind, PodChange, PodEvent
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterator, Sequence

    from trikubelet.benchmark.peers.asking import Statuses
    from trikubelet.benchmark.peers.protocol import Round
    from trikubelet.cri.channel import Channel

INSPECTIONS_MAX: Final = Bounds().inspections_max
"""As many as trikubelet makes, and each with the same round of calls: it is the language that is compared."""


def _list_type(package: str, state_number: int) -> Any:
    """The class of a list reply whose items have an ``id`` and a ``state``, and else fields it does not know."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    item = file.message_type.add(name="Item")
    kinds = descriptor_pb2.FieldDescriptorProto
    one, many = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    item.field.add(name="id", number=1, type=kinds.TYPE_STRING, label=one)
    item.field.add(name="state", number=state_number, type=kinds.TYPE_INT32, label=one)
    reply = file.message_type.add(name="List")
    reply.field.add(name="items", number=1, type=kinds.TYPE_MESSAGE, label=many, type_name=f".{package}.Item")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.List"))


_NOBODY: Final = ""
"""Whose sandboxes and containers are that no kubelet made."""
_SANDBOXES, _CONTAINERS = 0, 1
_LISTS: Final = (_list_type("sandboxes", 3), _list_type("containers", 6))
_WHOLE: Final = (pb.PodSandbox, pb.Container)
_RUNNING, _EXITED, _UNKNOWN = "running", "exited", "unknown"
_CONTAINER_SEEN: Final = {1: _RUNNING, 2: _EXITED}


def _seen(kind: int, state: int) -> str:
    if kind == _SANDBOXES:
        return _EXITED if state else _RUNNING
    return _CONTAINER_SEEN.get(state, _UNKNOWN)


class _Listed:
    """One of the lists: each item's state by its id, in the list's order."""

    def __init__(self, kind: int, chunks: Sequence[bytes]) -> None:
        self._kind = kind
        self._replies = [_LISTS[kind].FromString(chunk) for chunk in chunks]
        self.states: dict[str, int] = {item.id: item.state for reply in self._replies for item in reply.items}
        if len(self.states) != sum(len(reply.items) for reply in self._replies):
            raise ValueError("an id stands twice in the list")

    def whole(self, ids: Collection[str]) -> Iterator[Any]:
        """Those items decoded as a whole."""
        if not ids:
            return
        in_order = iter(self.states)
        for reply in self._replies:
            for place, id_ in zip(range(len(reply.items)), in_order, strict=False):  # the range ends first
                if id_ in ids:
                    yield _WHOLE[self._kind].FromString(reply.items[place].SerializeToString())


class _Item(NamedTuple):
    seen: str
    created_at: int


@dataclass(slots=True)
class _Pod:
    """The items of a pod now, and the ``record`` of it; of each kind, by id."""

    name: str
    namespace: str
    items: tuple[dict[str, _Item], dict[str, _Item]] = field(default_factory=lambda: ({}, {}))
    record: tuple[dict[str, _Item], dict[str, _Item]] = field(default_factory=lambda: ({}, {}))


class PureRelist:
    """Owns the last observation of every pod, and its record. Has the face of ``core.relist.Relist``, as far as a peer
    needs it."""

    def __init__(self) -> None:
        self._states: list[dict[str, int]] = [{}, {}]
        self._owners: list[dict[str, str]] = [{}, {}]
        self._pods: dict[str, _Pod] = {}
        self._behind: set[str] = set()  # differ from their records

    def observe(
        self, sandboxes: Sequence[bytes], containers: Sequence[bytes], reinspect: Collection[str] = ()
    ) -> list[PodChange]:
        """See ``core.relist.Relist.observe``. Raises ValueError or protobuf's DecodeError."""
        lists = (_Listed(_SANDBOXES, sandboxes), _Listed(_CONTAINERS, containers))
        changed = {*self._behind, *reinspect}
        for kind, listed in enumerate(lists):
            if listed.states != self._states[kind]:
                changed |= self._take(kind, listed)
        changes = [self._change(uid) for uid in sorted(changed - {_NOBODY})]
        self._behind = {change.uid for change in changes if change.events}
        return [change for change in changes if change.events or change.uid in reinspect]

    def advance(self, uid: str) -> None:
        """See ``core.relist.Relist.advance``."""
        self._behind.discard(uid)
        if (pod := self._pods.get(uid)) is None:
            return
        pod.record = (dict(pod.items[_SANDBOXES]), dict(pod.items[_CONTAINERS]))
        if not any(pod.items):
            del self._pods[uid]

    def _take(self, kind: int, listed: _Listed) -> set[str]:
        """Make a list the last one of its kind; the UIDs of the pods that are not as before."""
        before, now = self._states[kind], listed.states
        owners = self._owners[kind]
        ids = {id_ for id_, _ in before.items() ^ now.items()}
        changed: set[str] = set()
        for whole in listed.whole({id_ for id_ in ids if id_ not in before}):
            uid, name, namespace = self._whose(kind, whole)
            owners[whole.id] = uid
            pod = self._pods.setdefault(uid, _Pod(name, namespace))
            pod.items[kind][whole.id] = _Item(_seen(kind, now[whole.id]), whole.created_at)
        for id_ in ids:
            uid = owners[id_]
            changed.add(uid)
            items = self._pods[uid].items[kind]
            if id_ not in now:
                del items[id_], owners[id_]
            else:
                items[id_] = items[id_]._replace(seen=_seen(kind, now[id_]))
        self._states[kind] = now
        return changed

    def _whose(self, kind: int, whole: Any) -> tuple[str, str, str]:
        labels = whole.labels
        labelled = labels.get(POD_UID, ""), labels.get(POD_NAME, ""), labels.get(POD_NAMESPACE, "")
        if kind == _CONTAINERS:
            return labelled[0] or self._owners[_SANDBOXES].get(whole.pod_sandbox_id, ""), labelled[1], labelled[2]
        meta = whole.metadata
        return meta.uid or labelled[0], meta.name or labelled[1], meta.namespace or labelled[2]

    def _change(self, uid: str) -> PodChange:
        pod = self._pods.get(uid) or _Pod("", "")
        events = [
            PodEvent(event, id_, kind == _SANDBOXES)
            for kind in (_CONTAINERS, _SANDBOXES)
            for id_ in sorted({*pod.record[kind], *pod.items[kind]})
            for event in _events(pod.record[kind].get(id_), pod.items[kind].get(id_))
        ]
        sandboxes, containers = (
            tuple(sorted(items, key=lambda id_: (-items[id_].created_at, id_))) for items in pod.items
        )
        return PodChange(uid, pod.name, pod.namespace, tuple(events), sandboxes, containers)


def _events(old: _Item | None, new: _Item | None) -> tuple[EventKind, ...]:
    if new is None:
        return (EventKind.REMOVED,) if old and old.seen == _EXITED else (EventKind.DIED, EventKind.REMOVED)
    if old is not None and old.seen == new.seen:
        return ()
    return (_KINDS[new.seen],)


_KINDS: Final = {_RUNNING: EventKind.STARTED, _EXITED: EventKind.DIED, _UNKNOWN: EventKind.CHANGED}


class PureRelister:
    """Relists over a socket, with inspections side by side. Owns what was found, as a kubelet would keep it."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._relist = PureRelist()
        self._reinspect: set[str] = set()
        self.cache: dict[str, Statuses] = {}

    async def relist(self, round_: Round) -> None:
        """See ``protocol.Relister``."""
        sandboxes, containers = await self._asking.lists()
        changes = self._relist.observe(sandboxes, containers, self._reinspect)
        round_.listed()
        self._reinspect = set()
        waiting = iter(changes)
        async with trio.open_nursery() as nursery:
            for _ in range(INSPECTIONS_MAX):
                nursery.start_soon(self._inspect_all, waiting, round_)

    async def _inspect_all(self, waiting: Iterator[PodChange], round_: Round) -> None:
        for change in waiting:
            if change.gone:
                self.cache.pop(change.uid, None)
            else:
                round_.inspected += 1
                try:
                    self.cache[change.uid] = await self._asking.inspect_side_by_side(
                        change.sandboxes, change.containers
                    )
                except RuntimeCallError:
                    self._reinspect.add(change.uid)
                    continue
                finally:
                    round_.published()
            self._relist.advance(change.uid)
            round_.events += events_of(change)


@asynccontextmanager
async def open_pure(channel: Channel, streaming: bool) -> AsyncGenerator[PureRelister, None]:
    """The relister over a channel."""
    yield PureRelister(Asking(channel, streaming))


if __name__ == "__main__":
    main(lambda: RecordObserver(PureRelist()), open_pure)
