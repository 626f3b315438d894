"""The network between a node and the memory API server, and the watches that are open over it.

It is up, or down, or silent: a half-open connection that accepts everything and delivers nothing. Or it leads to
another of the cluster's API servers, which is cut off from new writes: it serves reads that may be stale from its
cache, and its watches wait; consistent reads, and every write, still go to the shared store. ``testing.memory_api``
checks it before every request; a test or a simulation sets its state.
"""

from __future__ import annotations

import math
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

import trio

from trikubelet.model.api_errors import ApiLost
from trikubelet.testing.apiserver.selectors import selector
from trikubelet.testing.apiserver.server import change_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.api import Change, Resource, Selection
    from trikubelet.model.api_errors import ApiError
    from trikubelet.testing.apiserver.server import ApiServer
    from trikubelet.testing.apiserver.store import Write
    from trikubelet.testing.chance import Problems

BOOKMARK_SECONDS = 60.0
"""How often a watch sends a bookmark (a real server: about once a minute)."""
CHANGES_WAITING_MAX = 1000
"""A watch with this many changes waiting is ended, as a real server ends one that is too slow."""
REPEATS_FROM = 5


class LinkState(Enum):
    """The reactions of a network to requests and replies."""

    UP = "up"
    DOWN = "down"
    SILENT = "silent"


class Link:
    """Owns the state of the network, and the open watches. ``heard``: the version up to which the peer server has
    received writes, None for all."""

    def __init__(self) -> None:
        self.state = LinkState.UP
        self.heard: int | None = None
        self.watches: set[Watch] = set()

    def up(self) -> None:
        """New requests get through. Silent watches stay silent."""
        self.state = LinkState.UP

    def down(self) -> None:
        """New connections fail, and every open watch is lost."""
        self.state = LinkState.DOWN
        self.cut()

    def silence(self) -> None:
        """Requests get no answer, and open watches deliver nothing any more; but no connection is seen to be lost."""
        self.state = LinkState.SILENT
        for watch in self.watches:
            watch.silence()

    def cut(self) -> None:
        """Every open watch is lost, with all its undelivered changes."""
        for watch in self.watches:
            watch.end(ApiLost("the connection was lost"))

    def fall_behind(self, heard: int) -> None:
        """Every connection is lost, and new ones lead to a server that has received writes up to a version and receives
        no more."""
        self.heard = heard
        self.cut()

    def catch_up(self) -> None:
        """The server receives all writes again."""
        self.heard = None
        for watch in self.watches:
            watch.catch_up()

    def finish(self) -> None:
        """The server ends every open watch in order, as it does after some minutes."""
        for watch in self.watches:
            watch.end(None)


class Watch:
    """One open watch: owns its undelivered changes. It delivers only changes after ``after``, and, as a real one, no
    bookmark where nothing was written since. ``held``: changes its server has not received yet, None where that
    receives all."""

    def __init__(
        self,
        server: ApiServer,
        resource: Resource,
        selection: Selection,
        problems: Problems,
        first: Sequence[Change],
        after: int,
        held: Sequence[Change] | None = None,
    ) -> None:
        self._server = server
        self._resource = resource
        self._meant_by = selector(selection, resource)
        self._problems = problems
        self._waiting = deque(first)
        self._after = after
        self._held = None if held is None else list(held)
        self._delivered: deque[Change] = deque(maxlen=REPEATS_FROM)
        self._woken = trio.Event()
        self._bookmark_at = trio.current_time() + BOOKMARK_SECONDS
        self._silent = False
        self._ended = False
        self._error: ApiError | None = None

    def put(self, write: Write) -> None:
        """Queue the change of a write, if the watch selects it."""
        change = change_of(write, self._resource, self._meant_by)
        if change is None or write.version <= self._after or self._silent or self._ended:
            return
        if self._problems.loses_stream():
            self.end(ApiLost("the connection was lost"))
        elif len(self._waiting) + len(self._held or ()) >= CHANGES_WAITING_MAX:
            self.end(None)
        elif self._held is not None:
            self._held.append(change)
        else:
            self._waiting.append(change)
            self._stir()

    def catch_up(self) -> None:
        """The server receives all writes again, and delivers them."""
        if not self._silent and not self._ended:
            self._waiting.extend(self._held or ())
            self._stir()
        self._held = None

    def silence(self) -> None:
        """Deliver nothing any more."""
        self._silent = True
        self._waiting.clear()

    def end(self, error: ApiError | None) -> None:
        """End, with an error and at once, or in order once everything is delivered."""
        if self._silent and error is None:
            return
        if error is not None:
            self._waiting.clear()
        self._ended, self._error = True, error
        self._stir()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        """The next change. Raises ApiLost, and StopAsyncIteration at an orderly end."""
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            if not self._silent and trio.current_time() >= self._bookmark_at:
                self._bookmark_at = trio.current_time() + BOOKMARK_SECONDS
                if self._held is None and self._server.store.version > self._after:
                    self._after = self._server.store.version
                    return self._server.bookmark()
            with trio.move_on_at(self._bookmark_at if not self._silent else math.inf):
                await self._woken.wait()
        change = self._waiting.popleft()
        self._delivered.append(change)
        if self._problems.repeats_event():
            self._waiting.appendleft(self._problems.chance.choice(self._delivered))
        return change

    def _stir(self) -> None:
        self._woken.set()
        self._woken = trio.Event()
