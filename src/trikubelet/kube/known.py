"""The objects of a server as an informer knows them: its state, without its connections.

A list is gathered in a ``Listing`` and adopted when it is whole; a change is taken at once. Both say which objects are
other than before. Nothing is decoded that is known in the same version, so after a list that says nothing new nothing
has been decoded and no listener is notified; except after a part saw that the server was set back.

A change no newer than the version up to which everything is known is stale: a repeated one, or one that came late.
Versions of one server can be compared as numbers (the API promises it since 1.35, and etcd always did).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from trikubelet.core.resource_version import is_older, may_be_newer
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.api import ChangeKind, Unread
from trikubelet.model.api_errors import ApiFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trikubelet.model.api import Change, Item

log = logging.getLogger(__name__)

T = TypeVar("T")

OBJECTS_MAX: Final = 100_000
"""Ten times what the largest clusters have of what a node follows; a list that goes on has no end, nor has a watch."""
FAULTS_TOLD_MAX: Final = 10
"""Unreadable objects of one kind that are logged within an hour, each once."""
STRETCH_BYTES: Final = 256 * 1024
"""So much of a page is read before others have a turn: some milliseconds."""
_ITEM_BYTES: Final = 1024
"""The weight of an item beside its text: thousands of small ones take their time, too."""

Key = tuple[str, str]
"""Namespace ("" where there is none) and name."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """Which version of which object is known; ``fault``: that it could not be read, and why."""

    uid: str
    version: str
    fault: Unread | None = None


class Listing(Generic[T]):
    """Owns a list under way: what the server has sent of it. Objects that are known already are the known ones."""

    def __init__(self, known: Known[T]) -> None:
        self.marks: dict[Key, _Mark] = {}
        self.objects: dict[Key, T] = {}
        self._known = known
        self._gone_at = ""

    async def gather(self, items: Iterable[Item]) -> None:
        """A page of the list; others have their turns meanwhile. Raises ApiFailure as ``add`` does."""
        stretch = 0
        for item in items:
            self.add((item,))
            stretch += len(item.raw) + _ITEM_BYTES
            if stretch >= STRETCH_BYTES:
                stretch = 0
                await trio.lowlevel.checkpoint()

    def add(self, items: Iterable[Item]) -> None:
        """More of the list. Raises ApiFailure for one without end."""
        for item in items:
            key = (item.namespace, item.name)
            mark, objects = self._known.read(key, item)
            self.marks[key] = mark
            self.objects.update(objects)
            if len(self.marks) > OBJECTS_MAX:
                raise ApiFailure(f"the server's list has more than {OBJECTS_MAX} objects")

    def take(self, change: Change) -> None:
        """A change from a watch that began with all objects. They come first and in no order; then what happened
        meanwhile in the order of versions, so that nothing older than a deletion is still applied after it.
        Raises ApiFailure as ``add`` does."""
        key = (change.item.namespace, change.item.name)
        if not may_be_newer(change.item.resource_version, self._gone_at):
            return
        if change.kind is ChangeKind.DELETED:
            self._gone_at = change.item.resource_version
            self.marks.pop(key, None)
            self.objects.pop(key, None)
        elif key not in self.marks or may_be_newer(change.item.resource_version, self.marks[key].version):
            self.add([change.item])


class Known(Generic[T]):
    """Owns which objects a server has, as far as it has sent them, and the version up to which that is everything (""
    before the first list, and before the next one of a server that was set back). Its only writer is its informer.
    ``is_set_back``: what came last is the list of a server that was set back, as one whose etcd was restored from a
    backup: one older than what was known before it, or the first after a part saw that."""

    def __init__(self, what: str, decode: Callable[[bytes], T]) -> None:
        self.version = ""
        self.is_set_back = False
        self._is_outdated = False
        self._what = what
        self._decode = decode
        self._marks: dict[Key, _Mark] = {}
        self._objects: dict[Key, T] = {}
        self._told = FailureLog(kept_max=FAULTS_TOLD_MAX)

    @property
    def objects(self) -> Mapping[Key, T]:
        """Every object that could be read, as it was read last."""
        return self._objects

    def faults(self) -> dict[Key, Unread]:
        """The objects that are there but cannot be read in their newest version, and why."""
        return {key: mark.fault for key, mark in self._marks.items() if mark.fault is not None}

    def adopt(self, listing: Listing[T], version: str) -> tuple[Key, ...]:
        """Take over a list that is whole, as of a version; whose objects are other than before."""
        marks, self._marks = self._marks, listing.marks
        objects, self._objects = self._objects, listing.objects
        if (unread := len(self.faults())) > FAULTS_TOLD_MAX:
            log.warning("%d of %s cannot be read", unread, self._what)
        # The versions of a server that was set back may have passed the old ones by now.
        self.is_set_back = self._is_outdated or is_older(version, self.version)
        is_same_by_mark, self._is_outdated, self.version = not self._is_outdated, False, version
        return tuple(
            key
            for key in marks | self._marks
            if marks.get(key) != self._marks.get(key)
            or not (is_same_by_mark or objects.get(key) == self._objects.get(key))
        )

    def outdate(self) -> None:
        """The server was set back: only the next list shows its content, however old that is."""
        self._is_outdated, self.version = True, ""

    def take(self, change: Change) -> tuple[Key, ...]:
        """Apply a change; whose object is other than before: one or none. Raises ApiFailure, and applies nothing, for
        one object more than a list may have."""
        item = change.item
        if not may_be_newer(item.resource_version, self.version):
            return ()
        key = (item.namespace, item.name)
        is_there = change.kind in (ChangeKind.ADDED, ChangeKind.MODIFIED)
        if is_there and key not in self._marks and len(self._marks) >= OBJECTS_MAX:
            raise ApiFailure(f"the server's watch has brought more than {OBJECTS_MAX} objects")
        self.is_set_back, self.version = False, item.resource_version
        if change.kind is ChangeKind.BOOKMARK:
            return ()
        if change.kind is ChangeKind.DELETED:
            self._objects.pop(key, None)
            return (key,) if self._marks.pop(key, None) else ()
        self._marks[key], objects = self.read(key, item)
        self._objects.pop(key, None)
        self._objects.update(objects)
        return (key,)

    def read(self, key: Key, item: Item) -> tuple[_Mark, Mapping[Key, T]]:
        """Return what to keep of an item: its mark and, by its key, the object. An object that cannot be read is what
        it last was; one that never could be read is not there, as is one whose name belonged to another before."""
        mark = self._marks.get(key)
        if mark is not None and mark.uid != item.uid:
            mark = None
        kept = {key: self._objects[key]} if mark is not None and key in self._objects else {}
        # A server that was set back gives a version again, to another content.
        if mark is not None and mark.version == item.resource_version and not self._is_outdated:
            return mark, kept
        name = f"{item.namespace}/{item.name}" if item.namespace else item.name
        try:
            thing = self._decode(item.raw)
        except (ValueError, RecursionError) as error:
            if self._told.may_log(name):
                said = 'Cannot read "%s" of %s in version %s: %s; what is known of it counts on'
                log.warning(said, name, self._what, item.resource_version, error)
            fault = Unread(item.uid, str(error) or type(error).__name__)
            return _Mark(item.uid, item.resource_version, fault), kept
        self._told.works_again(name)
        return _Mark(item.uid, item.resource_version), {key: thing}
