"""The dispatcher: one task that begins every list of the node, the right one first.

    a full list, when it is due       one at a time
    a pod that was asked for          ``pod_relists_max`` at a time, the longest waiting first

A full list that is due goes first. A pod that was asked for before it began is answered by it and waits, but for a
period at most: a list in many parts may take a minute, and one that hangs longer.

A full list begins when it can be sent. While there is no connection it would wait, older than all that is asked for
meanwhile and slow by its own account, and its answer would satisfy no worker.
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
    """Makes the lists that the dispatcher begins, and is asked before.

    ``everything`` lists the whole node in a list that begins at the instant it is given; ``one`` lists one pod.
    ``is_connected`` waits until a full list, due since the instant it is given, can be sent; false when it has failed.
    ``may_skip_list``: whether, at that time, a full list that is due may be left out.
    """

    is_connected: Callable[[float], Awaitable[bool]]
    everything: Callable[[float], Awaitable[None]]
    one: Callable[[str, float], Awaitable[None]]
    may_skip_list: Callable[[float], bool]


class Dispatcher:
    """Owns which lists are under way, and when the next full one is due."""

    def __init__(self, lister: Lister, pods: PlegPods, bounds: Bounds) -> None:
        self._lister = lister
        self._pods = pods
        self._bounds = bounds
        self._due = -math.inf  # as the pace has it
        self._skips_until = -math.inf  # ... and not before this, while there is a reason to skip it
        self._of_one = 0  # on-demand relists under way
        self._woken = trio.Event()
        self.listing_since: float | None = None
        """The instant at which the full list under way began, or from which on it waits for a connection."""

    def wake(self) -> None:
        """Something happened that may let a list begin. Never blocks."""
        self._woken.set()

    def end_quiet_period(self) -> None:
        """A reason to skip lists is gone: ask again now whether there is one, and list if not. Never blocks."""
        self._skips_until = -math.inf
        self.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Begin lists until cancelled. Started: the first has succeeded or failed, or takes its time."""
        async with trio.open_nursery() as nursery:
            self.listing_since = instant()
            nursery.start_soon(self._list_all, self.listing_since)
            # A runtime that hangs keeps its first list for as long as a call may take, which is longer than systemd
            # waits for READY: the unit would be started again for ever. The list is not needed to begin: workers wait
            # for what they observe, and removals wait for a list.
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
                self.listing_since = instant()
                nursery.start_soon(self._list_all, self.listing_since)
        while self._of_one < self._bounds.pod_relists_max:
            uid = self._pods.begin_list(self._held_until(now))
            if uid is None:
                break
            self._of_one += 1
            nursery.start_soon(self._list_one, uid)

    def _next_pass(self, now: float) -> float:
        """Return when there may be something to begin without a wake-up."""
        release = self._release
        if release is None:
            return max(self._due, self._skips_until)
        return release if release > now else math.inf

    def _held_until(self, now: float) -> float:
        """Return until when requests made before this instant wait: for the full list under way."""
        release = self._release
        if self.listing_since is None or release is None or now >= release:
            return -math.inf
        return self.listing_since

    @property
    def _release(self) -> float | None:
        """Until when they wait at most; None without a full list."""
        return None if self.listing_since is None else self.listing_since + self._bounds.relist_period_seconds

    async def _list_all(self, due_since: float) -> None:
        if await self._lister.is_connected(due_since):
            self.listing_since = began = instant()
            await self._lister.everything(began)
            self._due = pace.due_at(began, trio.current_time(), self._bounds)
        else:  # nothing was asked of the runtime, so nothing calls for a pause
            self._due = due_since + self._bounds.relist_period_seconds
        self.listing_since = None
        self.wake()

    async def _list_one(self, uid: str) -> None:
        await self._lister.one(uid, instant())
        self._of_one -= 1
        self.wake()

    def __repr__(self) -> str:
        full = "a full list" if self.listing_since is not None else "no full list"
        return f"<Dispatcher: {full} and {self._of_one} of one pod under way>"
