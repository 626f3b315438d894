"""What a pod's syncs see of it, and that they are seen to act: the PLEG's cache, and its side door (``Relister``).

Who acts on a pod asks for an on-demand relist of it, so the next sync sees the result without waiting for the clock.
Containers of an earlier instance of the pod are left out, where they could not be removed before it started over: its
worker says so (``pods.workers``). Its sandboxes are marked, so that the pod does not count as old as them. Both are
known by their ids, for a clock may be set back, and noted in the pod's directory, for the agent may be restarted: it
would take an exit of the earlier instance for one of this one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.instant import instant
from trikubelet.model.pod_notes import Note

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trikubelet.model.runtime import PodObservation
    from trikubelet.ports import PodCache, PodNotes, Relister

log = logging.getLogger(__name__)


class Observations:
    """Owns which containers and sandboxes of a pod are of an earlier instance, where it started over despite what is
    left of that, and the complaints about what could not be noted of it, so that each is made once an hour."""

    def __init__(self, cache: PodCache, relister: Relister, notes: PodNotes) -> None:
        self._earlier: dict[str, frozenset[str]] = {}  # by UID; ids
        self._unnoted: set[str] = set()
        self._cache = cache
        self._relister = relister
        self._notes = notes
        self._failure_log = FailureLog()

    async def newer_than(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """What the runtime has of the pod, seen after ``since`` (an instant); ``soon``: ask for it, unless it is known,
        rather than wait for the next list. Raises the RuntimeCallError or TooSlowError of the pod's inspection."""
        if soon and not self._cache.is_newer(uid, since):
            self._relister.request_relist(uid)
        return self.current_instance(await self._cache.newer_than(uid, since))

    async def all_instances(self, uid: str) -> PodObservation:
        """What the runtime has of the pod now, whichever life it is of. Raises as ``newer_than`` does."""
        return await self._cache.newer_than(uid, instant())

    def current_instance(self, observed: PodObservation) -> PodObservation:
        """Without what remains of an earlier instance of the pod: all that its status may speak of."""
        uid = observed.uid
        if uid not in self._earlier:
            self._earlier[uid] = self._noted(uid)
        return observed.without_earlier(self._earlier[uid]) if self._earlier[uid] else observed

    def changing(self, uid: str) -> AbstractContextManager[None]:
        """Within it the caller changes the pod; at its end a relist of it is asked for."""
        return self._relister.changing(uid)

    def begin_despite_leftovers(self, uid: str) -> None:
        """From now on none of the pod's containers and sandboxes that are there counts: they are of an instance that is
        over."""
        seen = self._cache.get(uid)
        self._earlier[uid] = frozenset((*(one.id for one in seen.containers), *(box.id for box in seen.sandboxes)))
        self._unnoted.add(uid)

    def note_earlier(self, uid: str) -> None:
        """The pod has a directory now: note there, once, what is of an earlier instance."""
        if uid not in self._unnoted:
            return
        try:
            self._notes.note(uid, Note.EARLIER, msgspec.json.encode(sorted(self._earlier[uid])))
        except OSError as error:
            if self._failure_log.may_log(uid):
                log.warning("Pod %s: what is of its earlier instance cannot be written down: %s", uid, error)
        else:
            self._failure_log.works_again(uid)
            self._unnoted.discard(uid)

    def forget(self, uid: str) -> None:
        """This instance of the pod is over."""
        self._unnoted.discard(uid)
        self._failure_log.works_again(uid)
        if not self._earlier.pop(uid, None):
            return
        try:
            self._notes.forget_note(uid, Note.EARLIER)
        except OSError as error:
            log.warning("Pod %s: what was of its earlier instance is still noted: %s", uid, error)

    def _noted(self, uid: str) -> frozenset[str]:
        try:
            content = self._notes.noted(uid, Note.EARLIER)
            return frozenset(msgspec.json.decode(content, type=list[str])) if content else frozenset()
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("Pod %s: what is of its earlier instance cannot be read: %s", uid, error)
            return frozenset()
