"""The relist in plain Python: the oracle of the compiled one, and its stand-in where no binary exists.

Written for clarity, not speed, with nothing but the standard library. Every rule here must hold in ``rust/relist``, and
the property tests feed both the same bytes, good and bad.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RawEvent = tuple[int, str, bool]
RawChange = tuple[str, str, str, list[RawEvent], list[str], list[str]]
RawRecord = tuple[str, str, str, list[tuple[str, int, int]], list[tuple[str, str, int, int, str]]]

STARTED, DIED, REMOVED, CHANGED = range(4)
RUNNING, EXITED, UNKNOWN, ABSENT = "running", "exited", "unknown", "absent"


class TwinDecodeError(ValueError):
    """A list reply that cannot be read; ``args`` are the message and the offset."""


# ---- protobuf ----


class _Layout(NamedTuple):
    id: int
    sandbox_id: int
    metadata: int
    state: int
    created_at: int
    labels: int
    meta_uid: int
    meta_namespace: int
    meta_attempt: int
    states_max: int
    state_default: int


_SANDBOX = _Layout(1, 0, 2, 3, 4, 5, 2, 3, 4, 1, 1)
_CONTAINER = _Layout(1, 2, 3, 6, 7, 8, 0, 0, 2, 3, 3)
_LABELS = {
    b"io.kubernetes.pod.uid": "label_uid",
    b"io.kubernetes.pod.name": "label_name",
    b"io.kubernetes.pod.namespace": "label_namespace",
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _fail(offset: int, problem: str) -> TwinDecodeError:
    return TwinDecodeError(f"at byte {offset}: {problem}", offset)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for index in range(10):
        if at + index >= end:
            raise _fail(at, "the reply ends inside a field")
        byte = data[at + index]
        value |= (byte & 0x7F) << min(7 * index, 63)
        if byte < 0x80:
            return value & (1 << 64) - 1, at + index + 1
    raise _fail(at, "an integer is longer than ten bytes")


class _Field(NamedTuple):
    number: int
    kind: int
    value: int
    start: int
    end: int


def _fields(data: bytes, at: int, end: int) -> Iterator[_Field]:
    while at < end:
        tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise _fail(at, "a field number is out of range")
        value, length = 0, 0
        if kind == _VARINT:
            value, at = _varint(data, at, end)
        elif kind == _FIXED64:
            length = 8
        elif kind == _BYTES:
            length, at = _varint(data, at, end)
        elif kind == _FIXED32:
            length = 4
        else:
            raise _fail(at, "a field has the wrong wire type")
        if length > end - at:
            raise _fail(at, "the reply ends inside a field")
        yield _Field(number, kind, value, at, at + length)
        at += length


def _text(data: bytes, entry: _Field) -> str:
    _expect(entry, _BYTES)
    try:
        return data[entry.start : entry.end].decode()
    except UnicodeDecodeError:
        raise _fail(entry.start, "a string is not UTF-8") from None


def _expect(entry: _Field, kind: int) -> None:
    if entry.kind != kind:
        raise _fail(entry.end, "a field has the wrong wire type")


@dataclass
class _View:
    offset: int
    is_sandbox: bool
    id: str = ""
    sandbox_id: str = ""
    name: str = ""
    meta_uid: str = ""
    meta_namespace: str = ""
    label_uid: str = ""
    label_name: str = ""
    label_namespace: str = ""
    attempt: int = 0
    state: int = 0
    created_at: int = 0
    uid: str = ""


def _items(chunk: bytes, layout: _Layout, *, is_sandbox: bool) -> Iterator[_View]:
    for entry in _fields(chunk, 0, len(chunk)):
        if entry.number == 1:
            _expect(entry, _BYTES)
            yield _item(chunk, entry, layout, is_sandbox=is_sandbox)


def _item(data: bytes, whole: _Field, layout: _Layout, *, is_sandbox: bool) -> _View:
    view = _View(whole.start, is_sandbox)
    for entry in _fields(data, whole.start, whole.end):
        if entry.number == layout.id:
            view.id = _text(data, entry)
        elif entry.number == layout.sandbox_id:
            view.sandbox_id = _text(data, entry)
        elif entry.number == layout.metadata:
            _expect(entry, _BYTES)
            _metadata(data, entry, layout, view)
        elif entry.number == layout.state:
            _expect(entry, _VARINT)
            view.state = entry.value if entry.value <= layout.states_max else layout.state_default
        elif entry.number == layout.created_at:
            _expect(entry, _VARINT)
            view.created_at = entry.value - (1 << 64) if entry.value >= 1 << 63 else entry.value
        elif entry.number == layout.labels:
            _expect(entry, _BYTES)
            _label(data, entry, view)
    return view


def _metadata(data: bytes, whole: _Field, layout: _Layout, view: _View) -> None:
    for entry in _fields(data, whole.start, whole.end):
        if entry.number == 1:
            view.name = _text(data, entry)
        elif entry.number == layout.meta_uid:
            view.meta_uid = _text(data, entry)
        elif entry.number == layout.meta_namespace:
            view.meta_namespace = _text(data, entry)
        elif entry.number == layout.meta_attempt:
            _expect(entry, _VARINT)
            view.attempt = entry.value & 0xFFFFFFFF


def _label(data: bytes, whole: _Field, view: _View) -> None:
    key, held = b"", None
    for entry in _fields(data, whole.start, whole.end):
        if entry.number == 1:
            _expect(entry, _BYTES)
            key = data[entry.start : entry.end]
        elif entry.number == 2:
            held = entry
    if key in _LABELS:
        setattr(view, _LABELS[key], "" if held is None else _text(data, held))


# ---- records ----


@dataclass
class _Item:
    id: str
    name: str
    sandbox_id: str
    attempt: int
    state: int
    created_at: int


@dataclass
class _Pod:
    name: str = ""
    namespace: str = ""
    sandboxes: list[_Item] = field(default_factory=list)
    containers: list[_Item] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.sandboxes or self.containers)


def _sandbox_seen(state: int) -> str:
    return RUNNING if state == 0 else EXITED


def _container_seen(state: int) -> str:
    return {1: RUNNING, 2: EXITED}.get(state, UNKNOWN)


def _events_of(old: str, new: str) -> tuple[int, ...]:
    if old == new:
        return ()
    if new == ABSENT:
        return (REMOVED,) if old == EXITED else (DIED, REMOVED)
    return ({RUNNING: STARTED, EXITED: DIED, UNKNOWN: CHANGED}[new],)


class Relist:
    """The same face as the compiled one: plain tuples in and out."""

    def __init__(self) -> None:
        self._now: dict[str, _Pod] = {}
        self._before: dict[str, _Pod] = {}

    def observe(self, sandboxes: Sequence[bytes], containers: Sequence[bytes], reinspect: set[str]) -> list[RawChange]:
        """See ``core.relist.Relist.observe``."""
        by_uid: dict[str, list[_View]] = {uid: [] for uid in self._now}
        for view in _listed(sandboxes, containers):
            by_uid.setdefault(view.uid, []).append(view)
        built = {uid: _build(views) for uid, views in by_uid.items()}
        for uid, pod in built.items():
            self._replace(uid, pod)
        changes = [self._change(uid) for uid in sorted({*self._before, *reinspect})]
        return [change for change in changes if change[3] or change[0] in reinspect]

    def observe_pod(
        self, uid: str, sandboxes: Sequence[bytes], containers: Sequence[bytes], force: bool
    ) -> RawChange | None:
        """See ``core.relist.Relist.observe_pod``."""
        self._replace(uid, _build([view for view in _listed(sandboxes, containers) if view.uid == uid]))
        change = self._change(uid)
        return change if force or change[3] else None

    def advance(self, uid: str) -> None:
        """See ``core.relist.Relist.advance``."""
        self._before.pop(uid, None)
        if uid in self._now and not self._now[uid]:
            del self._now[uid]

    def pods(self) -> list[RawRecord]:
        """See ``core.relist.Relist.pods``."""
        return [_raw_record(uid, pod) for uid, pod in sorted(self._now.items()) if pod]

    def pod(self, uid: str) -> RawRecord | None:
        """See ``core.relist.Relist.pod``."""
        pod = self._now.get(uid)
        return _raw_record(uid, pod) if pod else None

    def counts(self) -> tuple[int, tuple[int, int, int, int]]:
        """See ``core.relist.Relist.counts``."""
        states = [container.state for pod in self._now.values() for container in pod.containers]
        running = sum(any(sandbox.state == 0 for sandbox in pod.sandboxes) for pod in self._now.values())
        return running, (states.count(0), states.count(1), states.count(2), states.count(3))

    def _replace(self, uid: str, pod: _Pod) -> None:
        old = self._now.get(uid)
        if old is None:
            if not pod:
                return
            old = _Pod()
        elif _same(old, pod):
            return
        if not pod:
            pod.name, pod.namespace = old.name, old.namespace
        self._now[uid] = pod
        self._before.setdefault(uid, old)
        if not pod and not self._before[uid]:
            del self._now[uid], self._before[uid]

    def _change(self, uid: str) -> RawChange:
        now = self._now.get(uid, _Pod())
        before = self._before.get(uid, now)
        events = _compare(before.containers, now.containers, is_sandbox=False)
        events += _compare(before.sandboxes, now.sandboxes, is_sandbox=True)
        return (
            uid,
            now.name,
            now.namespace,
            events,
            [item.id for item in now.sandboxes],
            [item.id for item in now.containers],
        )


def _listed(sandboxes: Iterable[bytes], containers: Iterable[bytes]) -> list[_View]:
    views = [view for chunk in sandboxes for view in _items(chunk, _SANDBOX, is_sandbox=True)]
    views += [view for chunk in containers for view in _items(chunk, _CONTAINER, is_sandbox=False)]
    for view in views:
        view.uid = view.meta_uid or view.label_uid
    owners = {view.id: view.uid for view in views if view.is_sandbox}
    for view in views:
        if not view.is_sandbox and not view.uid:
            view.uid = owners.get(view.sandbox_id, "")
    return [view for view in views if view.uid]


def _build(views: list[_View]) -> _Pod:
    pod = _Pod()
    for view in views:
        names = (view.name, view.meta_namespace) if view.is_sandbox else (view.label_name, view.label_namespace)
        if not pod.name:
            pod.name, pod.namespace = names
        items = pod.sandboxes if view.is_sandbox else pod.containers
        if any(item.id == view.id for item in items):
            raise _fail(view.offset, f"id {view.id} stands twice in the list")
        name = "" if view.is_sandbox else view.name
        items.append(_Item(view.id, name, view.sandbox_id, view.attempt, view.state, view.created_at))
    for items in (pod.sandboxes, pod.containers):
        items.sort(key=lambda item: (-item.created_at, item.id))
    return pod


def _same(old: _Pod, new: _Pod) -> bool:
    """Whether nothing that counts differs: ids, states, attempts. What else a runtime may change is no news."""
    return all(
        {item.id: (item.state, item.attempt) for item in a} == {item.id: (item.state, item.attempt) for item in b}
        for a, b in ((old.sandboxes, new.sandboxes), (old.containers, new.containers))
    )


def _compare(old: list[_Item], new: list[_Item], *, is_sandbox: bool) -> list[RawEvent]:
    seen = _sandbox_seen if is_sandbox else _container_seen
    before, after = ({item.id: seen(item.state) for item in items} for items in (old, new))
    return [
        (kind, id_, is_sandbox)
        for id_ in sorted({*before, *after}, key=str.encode)
        for kind in _events_of(before.get(id_, ABSENT), after.get(id_, ABSENT))
    ]


def _raw_record(uid: str, pod: _Pod) -> RawRecord:
    return (
        uid,
        pod.name,
        pod.namespace,
        [(item.id, item.attempt, item.state) for item in pod.sandboxes],
        [(item.id, item.name, item.attempt, item.state, item.sandbox_id) for item in pod.containers],
    )
