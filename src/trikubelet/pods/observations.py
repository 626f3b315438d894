"""The observations for a pod's syncs, and relist requests after changes: PLEG's cache and ``Relister``.

A caller that changes a pod requests an on-demand relist of it, so the next sync sees the result without waiting for the
next full list. Containers of an earlier instance of the pod are left out if they could not be removed before it started
over; the pod's worker marks them (``pods.workers``). Its sandboxes are marked too, so that the pod's age does not
include theirs. Both are identified by id, because a clock may be set back, and noted in the pod's directory, because
after a restart the agent would mistake the earlier instance's exits for this one's.
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
    """Owns which containers and sandboxes of a pod belong to an earlier instance, if it started over despite these
    leftovers. Logs failures to note that, each once an hour."""

    def __init__(self, cache: PodCache, relister: Relister, notes: PodNotes) -> None:
        self._earlier: dict[str, frozenset[str]] = {}  # by UID; ids
        self._unnoted: set[str] = set()
        self._cache = cache
        self._relister = relister
        self._notes = notes
        self._failure_log = FailureLog()

    async def newer_than(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """Return the runtime's state of the pod, observed after ``since`` (an instant); ``soon``: request a relist if
        needed, rather than wait for the next list. Raises the RuntimeCallError or TooSlowError of the pod's
        inspection."""
        if soon and not self._cache.is_newer(uid, since):
            self._relister.request_relist(uid)
        return self.current_instance(await self._cache.newer_than(uid, since))

    async def all_instances(self, uid: str) -> PodObservation:
        """Return the runtime's present state of the pod, including earlier instances. Raises like ``newer_than``."""
        return await self._cache.newer_than(uid, instant())

    def current_instance(self, observed: PodObservation) -> PodObservation:
        """Return the observation without leftovers of an earlier instance of the pod, which do not belong in its
        status."""
        uid = observed.uid
        if uid not in self._earlier:
            self._earlier[uid] = self._noted(uid)
        return observed.without_earlier(self._earlier[uid]) if self._earlier[uid] else observed

    def changing(self, uid: str) -> AbstractContextManager[None]:
        """Return a context in which the caller changes the pod; at its end a relist is requested."""
        return self._relister.changing(uid)

    def begin_despite_leftovers(self, uid: str) -> None:
        """Ignore the pod's present containers and sandboxes from now on: they belong to an ended instance."""
        seen = self._cache.get(uid)
        self._earlier[uid] = frozenset((*(one.id for one in seen.containers), *(box.id for box in seen.sandboxes)))
        self._unnoted.add(uid)

    def note_earlier(self, uid: str) -> None:
        """Note in the pod's directory, which exists now, what belongs to an earlier instance; once."""
        if uid not in self._unnoted:
            return
        try:
            self._notes.note(uid, Note.EARLIER, msgspec.json.encode(sorted(self._earlier[uid])))
        except OSError as error:
            if self._failure_log.may_log(uid):
                log.warning("Pod %s: cannot write the note of its earlier instance: %s", uid, error)
        else:
            self._failure_log.works_again(uid)
            self._unnoted.discard(uid)

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod."""
        self._unnoted.discard(uid)
        self._failure_log.works_again(uid)
        if not self._earlier.pop(uid, None):
            return
        try:
            self._notes.forget_note(uid, Note.EARLIER)
        except OSError as error:
            log.warning("Pod %s: cannot remove the note of its earlier instance: %s", uid, error)

    def _noted(self, uid: str) -> frozenset[str]:
        try:
            content = self._notes.noted(uid, Note.EARLIER)
            return frozenset(msgspec.json.decode(content, type=list[str])) if content else frozenset()
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("Pod %s: cannot read the note of its earlier instance: %s", uid, error)
            return frozenset()
