"""The relist in plain Python: the oracle of the compiled one, and its fallback without a binary.

Written for clarity, not speed, with nothing but the standard library. Every rule here must hold in ``rust/relist``, and
the property tests feed both the same bytes, good and bad.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trikubelet.core.wire_twin import BYTES, Fault, Field, expect, fields, inside, signed, text, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

RawEvent = tuple[int, str, bool]
RawChange = tuple[str, str, str, list[RawEvent], list[str], list[str]]
RawRecord = tuple[str, str, str, list[tuple[str, int, int]], list[tuple[str, str, int, int, str]]]

STARTED, DIED, REMOVED, CHANGED = range(4)
RUNNING, EXITED, UNKNOWN, ABSENT = "running", "exited", "unknown", "absent"


# ---- reading ----


ID_CHARS_MAX = 64  # of an id in an error
ITEMS_MAX = 1 << 18  # in each of the two lists: more means a broken runtime


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
    state_max: int  # the largest known one, which replaces any larger one


_SANDBOX = _Layout(1, 0, 2, 3, 4, 5, 2, 3, 4, 1)
_CONTAINER = _Layout(1, 2, 3, 6, 7, 8, 0, 0, 2, 3)
_LABELS = {
    b"io.kubernetes.pod.uid": "label_uid",
    b"io.kubernetes.pod.name": "label_name",
    b"io.kubernetes.pod.namespace": "label_namespace",
}


@dataclass
class View:
    """One item of a list."""

    is_sandbox: bool
    chunk: int
    offset: int
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
    pod_name: str = ""
    pod_namespace: str = ""


def _walk(chunks: Iterable[bytes], layout: _Layout, *, is_sandbox: bool) -> Iterator[View]:
    items = 0
    for number, chunk in enumerate(chunks):
        try:
            for entry in fields(chunk, 0, len(chunk)):
                if entry.number == 1:
                    expect(entry, BYTES)
                    items += 1
                    if items > ITEMS_MAX:
                        raise Fault(entry.start, f"the list has more than {ITEMS_MAX} items")
                    yield _item(chunk, entry, layout, View(is_sandbox, number, entry.start))
        except Fault as fault:
            raise fault.located(place(is_sandbox, number)) from None


def place(is_sandbox: bool, chunk: int) -> str:
    """Return the reply and the chunk, for an error."""
    return f"{'ListPodSandbox' if is_sandbox else 'ListContainers'} reply, chunk {chunk}"


def _item(data: bytes, whole: Field, layout: _Layout, view: View) -> View:
    for entry in inside(data, whole):
        if entry.number == layout.id:
            view.id = text(data, entry)
        elif entry.number == layout.sandbox_id:
            view.sandbox_id = text(data, entry)
        elif entry.number == layout.metadata:
            _metadata(data, entry, layout, view)
        elif entry.number == layout.state:
            view.state = min(unsigned(entry), layout.state_max)
        elif entry.number == layout.created_at:
            view.created_at = signed(entry)
        elif entry.number == layout.labels:
            _label(data, entry, view)
    return view


def _metadata(data: bytes, whole: Field, layout: _Layout, view: View) -> None:
    for entry in inside(data, whole):
        if entry.number == 1:
            view.name = text(data, entry)
        elif entry.number == layout.meta_uid:
            view.meta_uid = text(data, entry)
        elif entry.number == layout.meta_namespace:
            view.meta_namespace = text(data, entry)
        elif entry.number == layout.meta_attempt:
            view.attempt = unsigned(entry)


def _label(data: bytes, whole: Field, view: View) -> None:
    key, held = b"", None
    for entry in inside(data, whole):
        if entry.number == 1:
            expect(entry, BYTES)
            key = data[entry.start : entry.end]
        elif entry.number == 2:
            held = entry
    if key in _LABELS:
        setattr(view, _LABELS[key], "" if held is None else text(data, held))


# ---- records ----


class _Item(NamedTuple):
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


def _seen(pod: _Pod) -> set[str]:
    """Return the states of everything in a pod."""
    sandboxes = {_sandbox_seen(sandbox.state) for sandbox in pod.sandboxes}
    return sandboxes | {_container_seen(container.state) for container in pod.containers}


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
    """The same interface as the compiled one: plain tuples in and out."""

    def __init__(self) -> None:
        self._now: dict[str, _Pod] = {}
        self._before: dict[str, _Pod] = {}  # the record of a pod that has events when compared with it
        self._unmanaged = 0
        self._unlabelled: set[str] = set()

    def take(self, sandboxes: Sequence[bytes], containers: Sequence[bytes]) -> None:
        """See ``core.relist.Relist.take``."""
        views = listed(sandboxes, containers)
        by_uid: dict[str, list[View]] = {uid: [] for uid in self._now}
        for view in views:
            if view.uid:
                by_uid.setdefault(view.uid, []).append(view)
        _refuse_repeated(views)
        self._unmanaged = sum(not view.uid for view in views)
        self._unlabelled = {view.uid for view in views if view.uid and view.uid != view.label_uid}
        for uid, of_pod in by_uid.items():
            self._replace(uid, of_pod)

    def due(self) -> list[str]:
        """See ``core.relist.Relist.due``."""
        return sorted(self._before, key=str.encode)

    def has_unlabelled(self, uid: str) -> bool:
        """See ``core.relist.Relist.has_unlabelled``."""
        return uid in self._unlabelled

    def observe_pod(
        self, uid: str, sandboxes: Sequence[bytes], containers: Sequence[bytes], force: bool
    ) -> RawChange | None:
        """See ``core.relist.Relist.observe_pod``."""
        views = [view for view in listed(sandboxes, containers) if view.uid and view.uid == uid]
        _refuse_repeated(views)
        self._replace(uid, views)
        return self.change(uid) if force or uid in self._before else None

    def advance(self, uid: str) -> None:
        """See ``core.relist.Relist.advance``."""
        self._before.pop(uid, None)
        if uid in self._now and not self._now[uid]:
            del self._now[uid]

    def pods(self) -> list[RawRecord]:
        """See ``core.relist.Relist.pods``."""
        return [_raw_record(uid, self._now[uid]) for uid in self.uids()]

    def pod(self, uid: str) -> RawRecord | None:
        """See ``core.relist.Relist.pod``."""
        pod = self._now.get(uid)
        return _raw_record(uid, pod) if pod else None

    def pod_count(self) -> int:
        """See ``core.relist.Relist.pod_count``."""
        return sum(map(bool, self._now.values()))

    def is_running(self, uid: str) -> bool:
        """See ``core.relist.Relist.is_running``."""
        return RUNNING in _seen(self._now.get(uid, _Pod()))

    def running(self, beside: set[str]) -> list[RawRecord]:
        """See ``core.relist.Relist.running``."""
        uids = [uid for uid in self.uids() if uid not in beside and RUNNING in _seen(self._now[uid])]
        return [_raw_record(uid, self._now[uid]) for uid in uids]

    def uids(self) -> list[str]:
        """See ``core.relist.Relist.uids``."""
        return sorted((uid for uid, pod in self._now.items() if pod), key=str.encode)

    def uids_with_dead(self) -> list[str]:
        """See ``core.relist.Relist.uids_with_dead``."""
        return [uid for uid in self.uids() if _seen(self._now[uid]) - {RUNNING}]

    def container_ids(self) -> list[str]:
        """See ``core.relist.Relist.container_ids``."""
        return [container.id for pod in self._now.values() for container in pod.containers]

    def counts(self) -> tuple[int, tuple[int, int, int, int], int]:
        """See ``core.relist.Relist.counts``."""
        states = [container.state for pod in self._now.values() for container in pod.containers]
        running = sum(any(sandbox.state == 0 for sandbox in pod.sandboxes) for pod in self._now.values())
        return running, (states.count(0), states.count(1), states.count(2), states.count(3)), self._unmanaged

    def _replace(self, uid: str, views: list[View]) -> None:
        old = self._now.get(uid, _Pod())
        fresh = [view for view in views if _kept(view) not in (old.sandboxes if view.is_sandbox else old.containers)]
        if not fresh and len(views) == len(old.sandboxes) + len(old.containers):
            return
        sandboxes = [_kept(view) for view in views if view.is_sandbox]
        containers = [_kept(view) for view in views if not view.is_sandbox]
        pod = _Pod(old.name, old.namespace, _newest_first(sandboxes), _newest_first(containers))
        for view in fresh:
            if not pod.name and view.pod_name:  # a UID never changes its name: the first that was reported stays
                pod.name, pod.namespace = view.pod_name, view.pod_namespace
        self._now[uid] = pod
        before = self._before.pop(uid, old)
        if _compare(before, pod):
            self._before[uid] = before
        elif not pod:
            del self._now[uid]

    def change(self, uid: str) -> RawChange:
        """See ``core.relist.Relist.change``."""
        now = self._now.get(uid, _Pod())
        return (
            uid,
            now.name,
            now.namespace,
            _compare(self._before.get(uid, now), now),
            [item.id for item in now.sandboxes],
            [item.id for item in now.containers],
        )


def listed(sandboxes: Iterable[bytes], containers: Iterable[bytes]) -> list[View]:
    """Return everything in the lists, with its pod's name. Raises TwinDecodeError."""
    views = [*_walk(sandboxes, _SANDBOX, is_sandbox=True), *_walk(containers, _CONTAINER, is_sandbox=False)]
    for view in views:
        view.uid = view.meta_uid or view.label_uid
        view.pod_name, view.pod_namespace = view.label_name, view.label_namespace
        if view.is_sandbox:  # its metadata names the pod; the labels fill in missing parts
            view.pod_name, view.pod_namespace = (
                view.name or view.label_name,
                view.meta_namespace or view.label_namespace,
            )
    owners = {view.id: view.uid for view in views if view.is_sandbox}
    for view in views:
        if not view.is_sandbox and not view.uid:
            view.uid = owners.get(view.sandbox_id, "")
    return views


def _refuse_repeated(views: Iterable[View]) -> None:
    seen = set()
    for view in views:
        identity = (view.is_sandbox, view.uid, view.id)
        if view.uid and identity in seen:
            shown = view.id if len(view.id) <= ID_CHARS_MAX else f"{view.id[:ID_CHARS_MAX]}…"
            fault = Fault(view.offset, f"id {shown} stands twice in the list")
            raise fault.located(place(view.is_sandbox, view.chunk))
        seen.add(identity)


def _kept(view: View) -> _Item:
    name = "" if view.is_sandbox else view.name
    return _Item(view.id, name, view.sandbox_id, view.attempt, view.state, view.created_at)


def _newest_first(items: Iterable[_Item]) -> list[_Item]:
    return sorted(items, key=lambda item: (-item.attempt, -item.created_at, item.id.encode()))


def _compare(old: _Pod, new: _Pod) -> list[RawEvent]:
    """Return the events between two observations of a pod: containers by id, then sandboxes by id."""
    return [
        *_compare_items(old.containers, new.containers, _container_seen, is_sandbox=False),
        *_compare_items(old.sandboxes, new.sandboxes, _sandbox_seen, is_sandbox=True),
    ]


def _compare_items(
    old: list[_Item], new: list[_Item], seen: Callable[[int], str], *, is_sandbox: bool
) -> list[RawEvent]:
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
