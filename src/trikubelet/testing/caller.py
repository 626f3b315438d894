"""The caller of a runtime in memory: an agent, which may be killed in the middle of a call.

While the runtime is away, calls wait before they are made, as in a channel that is not connected.

check_lives ─► asks ─► the call has its effect ─► is_answered
               killed: it has none           └──► killed: it has, or it is rolled back
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.model.runtime_errors import RuntimeUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from trikubelet.testing.chance import Problems

KILLED = "the caller was killed"
TAKEN_BACK_SHARE = 0.5
"""The share of calls that are rolled back if their caller is killed between their effect and their answer, where the
runtime can do that."""


class Caller:
    """Owns the calls in progress of an agent, and whether it has been killed, and its runtime is away."""

    def __init__(self, problems: Problems, chance: random.Random) -> None:
        self._problems = problems
        self._chance = chance
        self._under_way: dict[trio.CancelScope, None] = {}  # a set would have another order in each process
        self._is_killed = False
        self._back: trio.Event | None = None
        self.at_effect: dict[str, Callable[[], None]] = {}
        """Functions called once, when the next call of that name has had its effect and is not answered yet."""

    def kill(self) -> None:
        """Kill the agent: it gets no answer to the calls in progress, and makes no others."""
        self._is_killed = True
        for call in self._under_way:
            call.cancel()

    async def check_lives(self) -> None:
        """Raises RuntimeUnavailable once it was killed."""
        if self._is_killed:
            await trio.lowlevel.checkpoint()
            raise RuntimeUnavailable(KILLED)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Take the runtime away from its socket for the length of the block. Calls that were made before continue."""
        assert self._back is None
        self._back = trio.Event()
        try:
            yield
        finally:
            self._back.set()
            self._back = None

    async def wait_connected(self) -> None:
        """Return once the runtime is connected. Raises RuntimeUnavailable once the agent was killed."""
        while self._back is not None:
            with self.until_killed():
                await self._back.wait()
        await self.check_lives()

    async def asks(self, call: str, *, may_hang: bool) -> None:
        """Pass a request on to the runtime."""
        with self.until_killed():
            await self._problems.before(call, may_hang=may_hang)

    async def is_answered(self, call: str, undo: Callable[[], None] | None = None) -> None:
        """Pass the answer back. A runtime that notices that its caller is gone may ``undo`` the call, as containerd
        does; a caller that cancels a call settles it first."""
        if (meet := self.at_effect.pop(call, None)) is not None:
            meet()
        try:
            with self.until_killed():
                await self._problems.after(call)
        except (trio.Cancelled, RuntimeUnavailable):
            if undo is not None and self._is_killed and self._chance.random() < TAKEN_BACK_SHARE:
                undo()
            raise

    @contextmanager
    def until_killed(self) -> Iterator[None]:
        """Raises RuntimeUnavailable out of the block when the agent is killed."""
        with trio.CancelScope() as call:
            if self._is_killed:
                call.cancel()
            self._under_way[call] = None
            try:
                yield
            finally:
                del self._under_way[call]
        if call.cancelled_caught:
            raise RuntimeUnavailable(KILLED)
