"""The dispatcher: one task that begins all lists, in the right order.

    a full list, when it is due       one at a time
    an on-demand relist of one pod    ``pod_relists_max`` at a time, the longest waiting first

A full list that is due goes first. Pods that were requested before it began wait for it, because it answers them, but
for one period at most: a list in many parts may take a minute, and one that hangs longer.

A full list begins only when it can be sent. If it waited for a connection, it would be older than the requests made
meanwhile, so its answer would satisfy no worker; and it would count as slow, so that a long pause followed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.instant import instant
from trikubelet.model.frozen import Frozen
from trikubelet.pleg import pace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.model.bounds import Bounds
    from trikubelet.pleg.pods import PlegPods


class Lister(Frozen):
    """The functions that make the dispatcher's lists.

    ``everything`` makes a full list that begins at the given instant; ``one`` lists one pod. ``is_connected`` waits
    until a full list that is due since the given instant can be sent; False if that failed. ``may_skip_list``: True if
    a full list that is due at the given time may be skipped.
    """

    is_connected: Callable[[float], Awaitable[bool]]
    everything: Callable[[float], Awaitable[None]]
    one: Callable[[str, float], Awaitable[None]]
    may_skip_list: Callable[[float], bool]


class Dispatcher:
    """Owns the lists in progress, and the time at which the next full one is due."""

    def __init__(self, lister: Lister, pods: PlegPods, bounds: Bounds) -> None:
        self._lister = lister
        self._pods = pods
        self._bounds = bounds
        self._due = -math.inf  # computed by ``pace``
        self._skips_until = -math.inf  # a skipped list is reconsidered at this time
        self._of_one = 0  # on-demand relists in progress
        self._woken = trio.Event()
        self.listing_since: float | None = None
        """The instant at which the current full list began, or began to wait for a connection."""

    def wake(self) -> None:
        """Reconsider whether a list can begin. Never blocks."""
        self._woken.set()

    def end_quiet_period(self) -> None:
        """Reconsider a skipped list now, because a reason to skip it has gone. Never blocks."""
        self._skips_until = -math.inf
        self.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Begin lists until cancelled. Started once the first list has succeeded or failed, or takes too long."""
        async with trio.open_nursery() as nursery:
            self.listing_since = instant()
            nursery.start_soon(self._list_all, self.listing_since)
            # With a runtime that hangs, the first list takes as long as a call may take, which is longer than systemd
            # waits for READY: the unit would be restarted for ever. The agent can start without the list, because
            # workers wait for their observations and removals wait for a list.
            with trio.move_on_after(self._bounds.first_list_seconds_max):
                while self.listing_since is not None:
                    await self._woken.wait()
                    self._woken = trio.Event()
            task_status.started()
            while True:
                self._begin(nursery, trio.current_time())
                with trio.move_on_at(self._next_pass(trio.current_time())):
                    await self._woken.wait()
                self._woken = trio.Event()

    def _begin(self, nursery: trio.Nursery, now: float) -> None:
        if self.listing_since is None and now >= max(self._due, self._skips_until):
            if self._lister.may_skip_list(now):
                self._skips_until = now + self._bounds.relist_period_seconds
            else:
                # Set before the task runs: requests that are made from now on are newer than this list.
                self.listing_since = instant()
                nursery.start_soon(self._list_all, self.listing_since)
        while self._of_one < self._bounds.pod_relists_max:
            uid = self._pods.begin_list(self._held_until(now))
            if uid is None:
                break
            self._of_one += 1
            nursery.start_soon(self._list_one, uid)

    def _next_pass(self, now: float) -> float:
        """Return the time at which a list may begin without a wake-up."""
        release = self._release
        if release is None:
            return max(self._due, self._skips_until)
        return release if release > now else math.inf  # released already: only the end of a list frees a place

    def _held_until(self, now: float) -> float:
        """Return the instant before which requests were made that wait for the current full list."""
        release = self._release
        if self.listing_since is None or release is None or now >= release:
            return -math.inf
        return self.listing_since

    @property
    def _release(self) -> float | None:
        """The time until which requests wait for the current full list; None without one."""
        return None if self.listing_since is None else self.listing_since + self._bounds.relist_period_seconds

    async def _list_all(self, due_since: float) -> None:
        if await self._lister.is_connected(due_since):
            self.listing_since = began = instant()
            await self._lister.everything(began)
            self._due = pace.due_at(began, trio.current_time(), self._bounds)
        else:  # the runtime did no work, so it needs no pause
            self._due = due_since + self._bounds.relist_period_seconds
        self.listing_since = None
        self.wake()

    async def _list_one(self, uid: str) -> None:
        await self._lister.one(uid, instant())
        self._of_one -= 1
        self.wake()

    def __repr__(self) -> str:
        full = "a full list" if self.listing_since is not None else "no full list"
        return f"<Dispatcher: {full} and {self._of_one} of one pod in progress>"
