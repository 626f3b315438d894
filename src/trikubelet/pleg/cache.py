"""PodCache: the newest observation of each pod, where pod workers wait for a newer one.

PLEG is the only writer. A worker that changed something needs the state *after* its action, so it waits for an
observation that began later. The wait ends when the pod was inspected later; when all pods were listed later and this
one had not changed; or when an inspection that began later failed, whose error is raised then.

A pod that is being inspected is *pending*: a newer list does not confirm its observation until the inspection ends. So
a hung pod delays its own worker and no other.
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
    """Owns the newest observation of each pod. Written only by PLEG; readers get frozen records."""

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

        Raises the error of the pod's newest inspection, if that began after ``time``, too.
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
        """True if a worker waits for a newer observation, or did recently."""
        return bool(self._moved)

    def __iter__(self) -> Iterator[PodObservation]:
        """Yield the observations of all known pods."""
        return iter([entry.observation for entry in self._entries.values()])

    def __len__(self) -> int:
        return len(self._entries)

    # ---- the writer: PLEG ----

    def listed(self, at: float, pending: Collection[str]) -> None:
        """Record that all pods were listed at ``at``, which confirms the observations of all pods but the pending
        ones."""
        # An older list may end later; time only moves forward, so that no worker is released too early.
        self._listed_at = max(self._listed_at, at)
        self._pending = set(pending)
        for uid in self._empty - self._pending:
            held = self._entries.get(uid)
            if held and not held.observation.sandboxes and not held.observation.containers:
                del self._entries[uid]  # saves memory: the list time alone proves that the pod is gone
        self._empty &= self._pending
        for uid in [uid for uid in self._moved if uid not in self._pending]:
            self._wake(uid)

    def put(self, observation: PodObservation, *, is_newest: bool = True) -> bool:
        """Store an inspection's result. An observation older than the stored one is dropped: it lost a race. Unless it
        ``is_newest``, a list has seen changes since, and the pod stays pending until it is inspected again. Return
        True if the result is new for readers: it differs, or follows an error."""
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
        """Record that the inspection begun at ``at`` failed. The earlier observation stays; workers that wait for a
        time before ``at`` get the error. The pod stays pending: the error proves nothing about the time since ``at``,
        so no list may confirm the observation before the pod is inspected again."""
        self._entries[uid] = _Entry(replace(self.get(uid), observed_at=at), error)
        self._wake(uid)

    def _wake(self, uid: str) -> None:
        moved = self._moved.pop(uid, None)
        if moved is not None:
            moved.set()

    def __repr__(self) -> str:
        return f"<PodCache of {len(self._entries)} pods, {len(self._moved)} awaited, {len(self._pending)} pending>"
