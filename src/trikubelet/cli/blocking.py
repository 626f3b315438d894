"""Runs coroutines with requests to the agent without an event loop.

Loading Trio takes longer than most commands do. Requests to the agent are written once, as coroutines. They wait by
this module and by ``cli.connection``: in Trio if it runs, and otherwise by blocking the process, which then has nothing
else to do. Ctrl-C raises KeyboardInterrupt wherever the command is. A command with concurrent tasks is run by
``cli.interruptible``.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(work: Callable[[*Ts], Coroutine[object, object, T]], *arguments: *Ts) -> T:
    """Run the coroutine and return its result. Raises its errors."""
    coroutine = work(*arguments)
    try:
        coroutine.send(None)
    except StopIteration as done:
        returned: T = done.value
        return returned
    finally:
        coroutine.close()
    raise AssertionError(f"{work} waits for an event loop, and there is none")


def is_in_trio() -> bool:
    """True if the caller is a task of Trio."""
    if "trio" not in sys.modules:
        return False
    import trio  # noqa: PLC0415 - it is loaded

    return trio.lowlevel.in_trio_run()


class Looks:
    """Owns the times at which a waiting command polls: at once, after each period, and a last time at its deadline.
    ``async for`` yields their numbers, from 0, and ends then."""

    def __init__(self, period_seconds: float, seconds_max: float) -> None:
        self._period_seconds = period_seconds
        self._ends_at = _now() + seconds_max
        self._number = -1

    def __aiter__(self) -> Looks:
        return self

    async def __anext__(self) -> int:
        self._number += 1
        if self._number:
            if (left := self._ends_at - _now()) <= 0:
                raise StopAsyncIteration
            await pause(min(self._period_seconds, left))
        return self._number


async def pause(seconds: float) -> None:
    """Wait for that long."""
    if is_in_trio():
        import trio  # noqa: PLC0415 - it is loaded

        await trio.sleep(seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251 - there is no other task


def _now() -> float:
    if is_in_trio():
        import trio  # noqa: PLC0415 - it is loaded

        return trio.current_time()
    return time.monotonic()
