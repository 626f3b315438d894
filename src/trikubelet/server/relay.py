"""Copies bytes between a client and a runtime, both ways, until either side ends. Data read from one side is written to
the other before more is read, so a slow reader slows only its writer."""

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
"""Errors that mean that the other end of a connection has gone."""

GOING_DOWN: Final = "the node's agent is stopping"
UNSAID: Final = "the runtime has ended the stream without saying how the process ended"


def silent(seconds: float) -> str:
    """Return the reason for the end of a conversation after an idle timeout."""
    return f"no data was sent for {seconds:g} s"


class Silence:
    """Owns the idle timeout of a conversation."""

    def __init__(self, scope: trio.CancelScope, seconds_max: float) -> None:
        """Cancel ``scope`` after that many seconds without a call of ``broken``; 0 is no limit."""
        self._scope = scope
        self._seconds_max = seconds_max or float("inf")
        self._step_seconds = min(1.0, self._seconds_max / 100)
        self._broken_at = float("-inf")
        self.broken()

    def broken(self) -> None:
        """Restart the timeout, because data has moved. It does so once a second, because setting a deadline costs
        nearly as much as sending a piece."""
        now = trio.current_time()
        if now - self._broken_at >= self._step_seconds:
            self._broken_at = now
            self._scope.deadline = now + self._seconds_max


async def either(*parts: Callable[[Silence], Awaitable[None]], idle_seconds_max: float) -> bool:
    """Run the halves of a conversation until one of them ends, and cancel the others. Return true then, and false after
    an idle timeout. A half whose connection breaks has ended. Raises a half's other errors."""
    failed: list[Exception] = []

    async def run(part: Callable[[Silence], Awaitable[None]], nursery: trio.Nursery) -> None:
        # Kept out of the nursery, so that it is raised as itself and not in a group.
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
    return not scope.cancelled_caught  # only the idle deadline cancels this scope


async def relay(
    client: trio.abc.Stream,
    runtime: trio.abc.Stream,
    idle_seconds_max: float,
    *others: Callable[[Silence], Awaitable[None]],
) -> bool:
    """Copy between the two, with ``others`` in parallel. Return true if one of them has ended it, and false after an
    idle timeout."""
    copies = partial(_copy, client, runtime), partial(_copy, runtime, client)
    return await either(*copies, *others, idle_seconds_max=idle_seconds_max)


async def _copy(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, silence: Silence) -> None:
    while data := await source.receive_some(STEP_BYTES):
        await pass_on(data, sink)
        silence.broken()


async def pass_on(data: bytes | bytearray, sink: trio.abc.SendStream) -> None:
    """Send to the sink. If the sink has gone, block for ever: the other half still reads the sink's last data and finds
    its end after it. A command may end and report so while it is sent input that it does not read."""
    try:
        await sink.send_all(data)
    except GONE:
        await trio.sleep_forever()
