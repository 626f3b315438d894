"""The network between a node and the memory API server, and the watches that are open over it.

It is up, or down, or silent: the half-open connection that takes everything and brings nothing. Or it leads to another
of the cluster's API servers, which is cut off from the writes: it answers what may be old from what it had heard of,
and its watches wait; what must be the newest, and every write, still goes to the store that all share.
``testing.memory_api`` asks it before every request; a test or a simulation says how it is.
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
"""How often a watch tells its version (a real server: about once a minute)."""
CHANGES_WAITING_MAX = 1000
"""A watch that takes no more than this many changes too few is ended, as a real server ends one that is too slow."""
REPEATS_FROM = 5


class LinkState(Enum):
    """What a network does with what is sent."""

    UP = "up"
    DOWN = "down"
    SILENT = "silent"


class Link:
    """Owns whether requests get through, and which watches are open. ``heard``: up to which version the server at the
    other end has heard of writes, None when of all."""

    def __init__(self) -> None:
        self.state = LinkState.UP
        self.heard: int | None = None
        self.watches: set[Watch] = set()

    def up(self) -> None:
        """New requests get through. What fell silent stays silent."""
        self.state = LinkState.UP

    def down(self) -> None:
        """Nobody can connect, and every open watch is lost."""
        self.state = LinkState.DOWN
        self.cut()

    def silence(self) -> None:
        """Requests find no answer, and open watches nothing to say any more; but nothing is lost as far as anybody can
        tell."""
        self.state = LinkState.SILENT
        for watch in self.watches:
            watch.silence()

    def cut(self) -> None:
        """Every open watch is lost, with all that it had not told yet."""
        for watch in self.watches:
            watch.end(ApiLost("the connection was lost"))

    def fall_behind(self, heard: int) -> None:
        """Every connection is lost, and new ones lead to a server that has heard of writes up to a version and hears of
        no more."""
        self.heard = heard
        self.cut()

    def catch_up(self) -> None:
        """The server hears of all writes again."""
        self.heard = None
        for watch in self.watches:
            watch.catch_up()

    def finish(self) -> None:
        """The server ends every open watch in order, as it does after some minutes."""
        for watch in self.watches:
            watch.end(None)


class Watch:
    """One open watch: owns what it has still to tell. It tells nothing that is not after ``after``, nor, as a real one,
    a bookmark where nothing was written since. ``held``: what its server has not heard of yet, None where that hears
    of everything."""

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
        self._told: deque[Change] = deque(maxlen=REPEATS_FROM)
        self._stirred = trio.Event()
        self._bookmark_at = trio.current_time() + BOOKMARK_SECONDS
        self._silent = False
        self._ended = False
        self._error: ApiError | None = None

    def tell(self, write: Write) -> None:
        """Something was written."""
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
        """The server hears of everything again, and tells it."""
        if not self._silent and not self._ended:
            self._waiting.extend(self._held or ())
            self._stir()
        self._held = None

    def silence(self) -> None:
        """Say nothing any more."""
        self._silent = True
        self._waiting.clear()

    def end(self, error: ApiError | None) -> None:
        """End, with an error and without another word, or in order once everything is told."""
        if self._silent and error is None:
            return
        if error is not None:
            self._waiting.clear()
        self._ended, self._error = True, error
        self._stir()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        """The next change. Raises ApiLost, and StopAsyncIteration at an end in order."""
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
                await self._stirred.wait()
        change = self._waiting.popleft()
        self._told.append(change)
        if self._problems.repeats_event():
            self._waiting.appendleft(self._problems.chance.choice(self._told))
        return change

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = trio.Event()
