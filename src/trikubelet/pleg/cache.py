"""PodCache: the newest observation of each pod, and the place where pod workers wait for a newer one.

PLEG is the only writer. A worker that acted wants to see the world *after* its action, so it waits for an observation
that was begun later. Three things satisfy it: the pod was inspected later; everything was listed later and this pod had
not changed; or the inspection that was begun later failed, and then its error is raised.

A pod whose inspection is under way is *pending*: a newer list does not speak for it until the inspection is over, so a
hung pod delays its own worker and no other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime import PodObservation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class _Entry(Frozen):
    observation: PodObservation
    error: Exception | None = None


class PodCache:
    """Owns what is known of each pod. Written by PLEG only; readers get frozen records."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._pending: set[str] = set()
        self._empty: set[str] = set()
        self._listed_at = float("-inf")
        self._moved: dict[str, trio.Event] = {}

    # ---- readers ----

    def get(self, uid: str) -> PodObservation:
        """Return the newest observation; an empty one for an unknown pod, the last good one after a failed
        inspection."""
        entry = self._entries.get(uid)
        return entry.observation if entry else PodObservation(uid)

    async def newer_than(self, uid: str, time: float) -> PodObservation:
        """Wait until the pod was observed after ``time`` (Trio's clock, seconds); always a checkpoint.

        Raises what the pod's newest inspection raised, if that was begun after ``time`` as well.
        """
        await trio.lowlevel.checkpoint()
        while not self.is_newer(uid, time):
            await self._moved.setdefault(uid, trio.Event()).wait()
        entry = self._entries.get(uid)
        if entry is None:
            return PodObservation(uid, observed_at=self._listed_at)
        if entry.error is not None:
            raise entry.error
        return entry.observation

    def is_newer(self, uid: str, time: float) -> bool:
        """True if the pod was observed after ``time``, or its inspection begun then failed."""
        entry = self._entries.get(uid)
        if entry is not None and entry.observation.observed_at > time:
            return True
        return self._listed_at > time and uid not in self._pending

    @property
    def is_awaited(self) -> bool:
        """True if a worker waits for something newer, or did until lately."""
        return bool(self._moved)

    def __iter__(self) -> Iterator[PodObservation]:
        """Every pod of which something is known."""
        return iter([entry.observation for entry in self._entries.values()])

    def __len__(self) -> int:
        return len(self._entries)

    # ---- the writer: PLEG ----

    def listed(self, at: float, pending: Collection[str]) -> None:
        """Everything was listed at ``at``; what is known holds for every pod but the pending ones."""
        self._listed_at = max(self._listed_at, at)
        self._pending = set(pending)
        for uid in self._empty - self._pending:
            held = self._entries.get(uid)
            if held and not held.observation.sandboxes and not held.observation.containers:
                del self._entries[uid]  # the list says the same, and takes no memory
        self._empty &= self._pending
        for uid in [uid for uid in self._moved if uid not in self._pending]:
            self._wake(uid)

    def put(self, observation: PodObservation, *, is_newest: bool = True) -> bool:
        """The pod was inspected. An observation older than the one held is dropped: it lost a race. Unless it
        ``is_newest``, a list has seen more since, and the pod stays pending until it is inspected again. Returns
        whether it changed for its readers: it is different from before, or is known again after an error."""
        uid = observation.uid
        held = self._entries.get(uid)
        if is_newest:
            self._pending.discard(uid)
        is_changed = False
        if held is None or held.observation.observed_at <= observation.observed_at:
            is_changed = observation != self.get(uid) or (held is not None and held.error is not None)
            self._entries[uid] = _Entry(observation)
            if not observation.sandboxes and not observation.containers:
                self._empty.add(uid)
        self._wake(uid)
        return is_changed

    def put_error(self, uid: str, at: float, error: Exception) -> None:
        """The pod's inspection, begun at ``at``, failed. The observation before stayed; workers that wait for something
        newer than a time before ``at`` see the error. The pod stays pending: the error says nothing of what has
        happened since ``at``, so no list may speak for the pod before it is inspected again."""
        self._entries[uid] = _Entry(replace(self.get(uid), observed_at=at), error)
        self._wake(uid)

    def _wake(self, uid: str) -> None:
        moved = self._moved.pop(uid, None)
        if moved is not None:
            moved.set()

    def __repr__(self) -> str:
        return f"<PodCache of {len(self._entries)} pods, {len(self._moved)} awaited, {len(self._pending)} pending>"
