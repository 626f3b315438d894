"""The resource versions for lists and watches: the objects of one resource, and their changes.

    current objects ─► look: compared with those of the last look ─► versions, and changes in their order
                                                                       └ since(version) ─► a watch continues from there

A node's pods and events have no such versions by themselves. So they are compared when a client requests them and
during watches, and each difference is a change. An object that came and went between two looks is never reported, as
with a watch that begins late. Versions begin with the agent's start time in milliseconds. So versions of an earlier run
are older than all kept changes, and a client that has one must list again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import trio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.server.kubectl.resources import Resource, Thing

CHANGES_KEPT_MAX: Final = 1000
"""Changes kept of one resource. A watch is at most one look behind, a client between list and watch a moment."""


class Expired(Exception):
    """The changes since a version are not kept any more, or never were."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object: its state ``before``, None if it did not exist; its current or last state, with the
    version of this change; and ``gone``, true if it was removed."""

    version: int
    before: Thing | None
    thing: Thing
    gone: bool = False


class History:
    """Owns the versions of one resource's objects and its newest changes."""

    def __init__(self, resource: Resource, version: int) -> None:
        """``version``: the one before every other."""
        self.resource = resource
        self.version = version
        self._raw: dict[str, Thing] = {}
        self._shown: dict[str, Thing] = {}
        self._changes: deque[Change] = deque(maxlen=CHANGES_KEPT_MAX)
        self._forgotten = version
        self._looked = float("-inf")
        self._looking = trio.Lock()

    async def look(self, *, fresh: bool) -> None:
        """Compare the current objects; unless it must be ``fresh``, only if the last look is old enough."""
        async with self._looking:
            if fresh or trio.current_time() - self._looked >= self.resource.look_seconds:
                self._take(await self.resource.things())
                self._looked = trio.current_time()

    @property
    def things(self) -> Sequence[Thing]:
        """Return the objects of the last look, with their versions."""
        return list(self._shown.values())

    def since(self, version: int) -> Sequence[Change]:
        """Return the changes after a version, oldest first. Raises Expired."""
        if not self._forgotten <= version <= self.version:
            raise Expired(f"too old resource version: {version} ({self._forgotten})")
        return [change for change in self._changes if change.version > version]

    def _take(self, things: Sequence[Thing]) -> None:
        now = {_key(thing): thing for thing in things}
        for key in self._raw.keys() - now.keys():
            before = self._shown.pop(key)
            self._note(before, before, gone=True)
        for key, thing in now.items():
            was = self._raw.get(key)
            if was is None or (was is not thing and was != thing):
                shown = self._shown.get(key)
                if shown is not None and self.resource.is_next_life(shown, thing):
                    self._note(shown, shown, gone=True)
                    shown = None
                self._shown[key] = self._note(shown, thing)
        self._raw = now

    def _note(self, before: Thing | None, thing: Thing, *, gone: bool = False) -> Thing:
        """Record one change. Return the object as it is shown from now on, or for the last time."""
        self.version += 1
        meta = msgspec.structs.replace(thing.metadata, resource_version=str(self.version))
        shown = msgspec.structs.replace(thing, api_version="v1", kind=self.resource.kind, metadata=meta)
        if len(self._changes) == CHANGES_KEPT_MAX:
            self._forgotten = self._changes[0].version
        self._changes.append(Change(self.version, before, shown, gone))
        return shown

    def __repr__(self) -> str:
        return f"<History of {self.resource.name}: {len(self._shown)} at {self.version}>"


def _key(thing: Thing) -> str:
    """Return the identity of an object: two instances with one name are two objects."""
    meta = thing.metadata
    return meta.uid or f"{meta.namespace}/{meta.name}"
