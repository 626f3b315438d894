"""Bytes between a client and a runtime, both ways, until either has no more: what is read from one is written to the
other before more is read, so a side that does not take holds up the one that sends, and nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.barrier import Barrier
from trikubelet.kit.wide_socket import STEP_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
"""How a connection says that its other end is not there any more."""

GOING_DOWN: Final = "the node's agent is going down"
UNSAID: Final = "the runtime has ended the stream without saying how the process ended"


def silent(seconds: float) -> str:
    """Why a conversation ends in which nothing was said for so long."""
    return f"nothing was said for {seconds:g} s"


class Silence:
    """Owns the end of a conversation that has gone quiet: nothing has moved for as long as is allowed."""

    def __init__(self, scope: trio.CancelScope, seconds_max: float) -> None:
        """Ends ``scope`` after so many seconds without ``broken``; 0 is no limit."""
        self._scope = scope
        self._seconds_max = seconds_max or float("inf")
        self._step_seconds = min(1.0, self._seconds_max / 100)
        self._broken_at = float("-inf")
        self.broken()

    def broken(self) -> None:
        """Something has moved. It is noted once a second: to set a deadline costs nearly as much as to send a piece."""
        now = trio.current_time()
        if now - self._broken_at >= self._step_seconds:
            self._broken_at = now
            self._scope.deadline = now + self._seconds_max


async def either(*parts: Callable[[Silence], Awaitable[None]], idle_seconds_max: float) -> bool:
    """Run the halves of a conversation side by side until one ends; the others are given up then. Whether it ended so,
    and not by silence. A half whose connection breaks has ended. Raises what else a half raises."""
    failed: list[Exception] = []

    async def run(part: Callable[[Silence], Awaitable[None]], nursery: trio.Nursery) -> None:
        # Kept out of the nursery, so that it leaves as itself and not in a group.
        with Barrier(failed.append), suppress(*GONE):
            await part(silence)
        nursery.cancel_scope.cancel()

    with trio.CancelScope() as scope:
        silence = Silence(scope, idle_seconds_max)
        async with trio.open_nursery() as nursery:
            for part in parts:
                nursery.start_soon(run, part, nursery)
    if failed:
        raise failed[-1]
    return not scope.cancelled_caught  # only the deadline, which is the silence's, cancels this scope


async def relay(
    client: trio.abc.Stream,
    runtime: trio.abc.Stream,
    idle_seconds_max: float,
    *others: Callable[[Silence], Awaitable[None]],
) -> bool:
    """Copy between the two, with ``others`` in parallel; whether one of them has ended it, and not silence."""
    copies = partial(_copy, client, runtime), partial(_copy, runtime, client)
    return await either(*copies, *others, idle_seconds_max=idle_seconds_max)


async def _copy(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, silence: Silence) -> None:
    while data := await source.receive_some(STEP_BYTES):
        await pass_on(data, sink)
        silence.broken()


async def pass_on(data: bytes | bytearray, sink: trio.abc.SendStream) -> None:
    """Send. To one that takes no more it never ends: what that one said last is still being read by the other half,
    which finds its end after it. A command may end, and say so, while it is sent input that it does not read."""
    try:
        await sink.send_all(data)
    except GONE:
        await trio.sleep_forever()
