"""The informer: keeps what an API server has of one kind, whatever becomes of server and connection.

                       ┌──────────── ended in order · quiet ────────────┐
                       ▼                                                │
    LIST ──whole──► WATCH from the version known ──changes, bookmarks───┤
     ▲ ▲               │                                                │
     │ └──too old──────┘  (410; also after two silent watches,          │
     │                     undecodable changes, and reports that the    │
     │                     server was restored from a backup)           │
     └────────────────────── pause ◄──────────── any other problem ─────┘

Where the server offers it, a watch that begins with all objects takes the place of the list. Else the list comes in
pages, each read and let go before the next, one object of it at a time, so no list is ever in memory twice. A list
must be as new as what is known; a server that cannot give that, as one that lags or was set back, is asked for whatever
it has, in one piece.
The first list asks for the newest: a cached one could be older than what this node itself did before it restarted.

A dead connection may look like a server with nothing to say. So a watch that says nothing for ``QUIET_SECONDS_MAX`` is
closed and taken up again; bookmarks keep a live one from that. A listener receives the keys that have changed
and reads the objects here; that is all it receives.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from trikubelet.kit.backoff import Backoff
from trikubelet.kube.known import Known, Listing
from trikubelet.model.api import ChangeKind
from trikubelet.model.api_errors import (
    ApiError,
    ApiFailure,
    ApiLost,
    Expired,
    Invalid,
    Refused,
    retry_after_seconds,
)
from trikubelet.ports.request_outcomes import RequestOutcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from trikubelet.kit.outage import Outage
    from trikubelet.kube.known import Key
    from trikubelet.model.api import Resource, Selection, Unread
    from trikubelet.ports import Api

T = TypeVar("T")

PAGE_ITEMS_MAX = 500
"""Objects in one page of a list (as other clients of the API have it)."""
PAGES_MAX = 200
LISTING_SECONDS_MAX = 300.0
"""Seconds of one list, by pages and as a stream. A server, or a proxy, that needs more goes round in circles."""
QUIET_SECONDS_MAX = 90.0
"""A silent watch, from opening it on. A server sends a bookmark about once a minute, but none where nothing of
the kind was written."""
QUIET_WATCHES_MAX = 2
"""So many quiet watches in a row are not believed, and a list is asked for: a server that was set back to an older
state says nothing to who asks for what comes after a newer one."""
UNREADABLE_WATCHES_MAX = 2
"""So many watches in a row that failed at one version are not tried again: the change that comes next may be there each
time and never be read, while a list has what became of it."""
STEADY_SECONDS = 5.0
"""A watch that lived this long was a success: the next pause is the first again."""
HURRIES_EVERY_SECONDS = 60.0
RELISTS_EVERY_SECONDS = 60.0
"""At most, of those that others ask for."""
PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX, JITTER = 0.8, 30.0, 1.0
"""Between tries: jitter at most doubles a pause, and the longest is 30 s with it (upstream: 800 ms, 30 s without)."""


class Informer(Generic[T]):
    """Owns the set of objects of one selection (``kube.known``), whether it was ever whole, and how lists are to be had
    from this server. Its only writer is its own task. ``decode`` makes an object of its JSON; it raises ValueError or
    msgspec's errors for one that it cannot read. ``outage`` reports that the server is away, and notifies the other
    users that it is back, or was set back."""

    def __init__(
        self,
        api: Api,
        resource: Resource,
        selection: Selection,
        decode: Callable[[bytes], T],
        outage: Outage,
        chance: random.Random | None = None,
    ) -> None:
        chosen = selection.fields or selection.labels or selection.namespace
        what = f"{resource.plural} ({chosen})" if chosen else resource.plural
        self._api = api
        self._resource = resource
        self._selection = selection
        self._known = Known(what, decode)
        self._outcomes = RequestOutcomes(f"watching {what}", outage)
        self._outage = outage
        self._backoff = Backoff(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX / (1 + JITTER), jitter=JITTER, chance=chance)
        self._listeners: list[Callable[[Collection[Key]], None]] = []
        self._synced = trio.Event()
        self._pausing: trio.Event | None = None
        self._hurried_at = self._relisted_at = -math.inf
        self._relist_at = math.inf
        self._patience: trio.CancelScope | None = None
        self._streams = True
        self._quiet = 0
        self._is_open = False
        self._unreadable_at, self._unreadable = "", 0
        self._steady_at = math.inf

    # ---- for all tasks ----

    @property
    def objects(self) -> Mapping[Key, T]:
        """Every object by namespace and name, as far as is known. A view: copy what must not change."""
        return self._known.objects

    @property
    def version(self) -> str:
        """Up to which version everything is known; "" before the first list, and of a server that was set back before
        the next."""
        return self._known.version

    @property
    def has_synced(self) -> bool:
        """True if the set was whole once; from then on it only lags."""
        return self._synced.is_set()

    @property
    def is_set_back(self) -> bool:
        """For a listener: true if the call is about the list of a server that was restored to an older state. Its
        objects count, however new the versions are that others received from the server before. It is called for each
        such list, with no keys if nothing has changed."""
        return self._known.is_set_back

    def faults(self) -> Mapping[Key, Unread]:
        """Objects that cannot be read, and why; ``objects`` has their last version that could, where there was one."""
        return self._known.faults()

    async def synced(self) -> None:
        """Wait until the set was whole once."""
        await self._synced.wait()

    def add_listener(self, listener: Callable[[Collection[Key]], None]) -> None:
        """Call a listener, which must not block, each time with the keys of changed or deleted objects; without any if
        the first list turns out to be empty, or has no news though the server was restored. ``objects`` has the new
        state by then."""
        self._listeners.append(listener)

    def hurry(self) -> None:
        """The server was heard of: do not wait out a pause, but for the shortest there is. Once a minute at most: what
        works for others may fail here for long."""
        if self._pausing is not None and trio.current_time() >= self._hurried_at + HURRIES_EVERY_SECONDS:
            self._hurried_at = trio.current_time()
            self._backoff.reset()
            self._pausing.set()

    def relist(self) -> None:
        """A part saw that the server was set back to an older state, which a watch does not show: list everything. Once
        a minute at most; until then it waits."""
        soonest = max(trio.current_time(), self._relisted_at + RELISTS_EVERY_SECONDS)
        self._relist_at = min(self._relist_at, soonest)
        if self._patience is not None:
            self._patience.deadline = min(self._patience.deadline, self._relist_at)

    # ---- the task ----

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the server until cancelled. Started at once: it may be away for long."""
        task_status.started()
        with self._outage.listening(self.hurry, set_back=self.relist):
            while True:
                await self._follow_once()

    async def _follow_once(self) -> None:
        self._steady_at = math.inf
        error: ApiError | None = None
        try:
            await self._follow()
        except ApiError as raised:
            error = raised
            self._outcomes.failed(error)
        steady = trio.current_time() >= self._steady_at
        if steady:
            self._backoff.reset()
        if error is not None or not steady:
            await self._pause(error)

    async def _pause(self, error: ApiError | None) -> None:
        least = max(PAUSE_FIRST_SECONDS, retry_after_seconds(error) if error is not None else 0.0)
        more = self._backoff.next_seconds() - least
        self._pausing = trio.Event()
        await trio.sleep(least)
        with trio.move_on_after(max(more, 0.0)):
            await self._pausing.wait()
        self._pausing = None

    async def _follow(self) -> None:
        """Go on from what is known; where that cannot be, list, and go on from there. Returns when a watch ended in
        order or was quiet. Raises ApiError."""
        if trio.current_time() >= self._relist_at:
            self._relisted_at, self._relist_at = trio.current_time(), math.inf
            self._known.outdate()
        try:
            is_believed = self._quiet < QUIET_WATCHES_MAX and self._unreadable < UNREADABLE_WATCHES_MAX
            if self._known.version and is_believed:
                await self._watch()
                return
        except (Expired, Invalid, Refused):  # whatever it has against the version, a list will show
            pass
        try:
            await self._learn(self._known.version, PAGE_ITEMS_MAX)
        except Expired:
            await self._learn("", 0)

    async def _learn(self, version: str, page_items_max: int) -> None:
        """List everything, at least as new as a version, and watch."""
        if self._streams and self._unreadable <= UNREADABLE_WATCHES_MAX:
            try:
                await self._watch(Listing(self._known), version)
                return
            except (Invalid, Refused):  # the server refuses sendInitialEvents: pages from now on
                self._streams = False
        await self._list(version, page_items_max)
        await self._watch()

    async def _list(self, version: str, page_items_max: int) -> None:
        with trio.move_on_after(LISTING_SECONDS_MAX):
            await self._list_pages(version, page_items_max)
            return
        raise ApiFailure(f"the server's list has no end within {LISTING_SECONDS_MAX:g} s")

    async def _list_pages(self, version: str, page_items_max: int) -> None:
        listing, token = Listing(self._known), ""
        for _ in range(PAGES_MAX):
            page = await self._api.list(
                self._resource,
                self._selection,
                limit=page_items_max,
                continue_token=token,
                resource_version=version,
            )
            await listing.gather(page.items)
            if not page.continue_token:
                return self._adopt(listing, page.resource_version)
            if page.continue_token == token:
                raise ApiFailure("the server's list goes on where it began")
            token = page.continue_token
        raise ApiFailure(f"the server's list has no end within {PAGES_MAX} pages")

    async def _watch(self, listing: Listing[T] | None = None, version: str = "") -> None:
        """Watch on from what is known, or begin with all objects, as new as a version, and gather them in a listing."""
        self._is_open = False
        try:
            await self._watch_patiently(listing, version)
        except ApiFailure:
            if self._is_open:  # else it says nothing of what comes after that version
                self._note_unreadable()
            raise
        finally:
            self._patience = None

    async def _watch_patiently(self, listing: Listing[T] | None, version: str) -> None:
        listed_by = math.inf if listing is None else trio.current_time() + LISTING_SECONDS_MAX
        with trio.CancelScope() as patience:
            self._wait_on(patience, listed_by)
            async with self._api.watch(
                self._resource,
                self._selection,
                resource_version=self._known.version if listing is None else version,
                initial=listing is not None,
            ) as changes:
                self._is_open = True
                if listing is None:
                    self._note_answer()
                async for change in changes:
                    self._quiet = 0
                    if listing is None:
                        self._publish(self._known.take(change))
                    elif change.initial_end:
                        self._adopt(listing, change.item.resource_version)
                        listing, listed_by = None, math.inf
                    elif change.kind is ChangeKind.BOOKMARK:
                        self._streams = False  # it took what it was asked, and does not know what that means
                        return
                    else:
                        listing.take(change)
                    self._wait_on(patience, listed_by)
        if not patience.cancelled_caught or (listing is None and trio.current_time() >= self._relist_at):
            return
        if not self._is_open:
            raise ApiLost(f"no answer to a watch within {QUIET_SECONDS_MAX:g} s")
        self._quiet += 1
        if listing is not None:  # the initial objects never came to their end: pages from now on
            self._streams = False

    def _wait_on(self, patience: trio.CancelScope, listed_by: float) -> None:
        """Set how long a watch that has just sent something may be silent now. A list under way is left to come to its
        end."""
        is_listing = listed_by < math.inf
        self._patience = None if is_listing else patience
        patience.deadline = min(trio.current_time() + QUIET_SECONDS_MAX, listed_by if is_listing else self._relist_at)

    # ---- changes of state, none of which waits ----

    def _adopt(self, listing: Listing[T], version: str) -> None:
        self._note_answer()
        self._quiet = self._unreadable = 0
        changed = self._known.adopt(listing, version)
        first = not self.has_synced
        self._synced.set()
        self._publish(changed, always=first or self.is_set_back)

    def _publish(self, keys: Collection[Key], *, always: bool = False) -> None:
        if keys or always:
            for listener in self._listeners:
                listener(keys)

    def _note_unreadable(self) -> None:
        at = self._known.version
        self._unreadable = self._unreadable + 1 if at == self._unreadable_at else 1
        self._unreadable_at = at

    def _note_answer(self) -> None:
        self._outcomes.worked()
        self._steady_at = trio.current_time() + STEADY_SECONDS

    def __repr__(self) -> str:
        state = "synced" if self.has_synced else "not synced"
        version = self._known.version or "none"
        return f"<Informer of {self._resource.plural}: {len(self.objects)} at version {version}, {state}>"
