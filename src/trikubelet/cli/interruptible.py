"""Runs commands in Trio so that Ctrl-C ends them in order.

Python raises KeyboardInterrupt at any line, also in the middle of entering a lock or a connection, and then leaving it
may fail. Here the first Ctrl-C cancels: every task ends at its next checkpoint, as with any other cancellation. The
second raises KeyboardInterrupt as usual, for a command that does not get there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from trikubelet.cli.failed import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import FrameType

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(work: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
    """Run it in Trio and return its result. Raises its errors, and KeyboardInterrupt after an interrupt, because later
    errors are consequences of that."""
    # Some commands import this module and run in Trio only with some flags.
    import signal  # noqa: PLC0415
    import threading  # noqa: PLC0415

    import trio  # noqa: PLC0415

    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return trio.run(_awaited, work, *arguments)  # it is ignored, as for what a shell has in the background
    was_interrupted = False

    async def interruptible() -> list[T]:
        nonlocal was_interrupted
        token, scope = trio.lowlevel.current_trio_token(), trio.CancelScope()

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            nonlocal was_interrupted
            was_interrupted = True
            signal.signal(signal.SIGINT, trios_own)
            token.run_sync_soon(scope.cancel)

        trios_own = signal.signal(signal.SIGINT, interrupt)
        try:
            with scope:
                return [await work(*arguments)]
        finally:
            signal.signal(signal.SIGINT, trios_own)
        return []

    try:
        returned = trio.run(interruptible)
    except BaseException as error:
        if was_interrupted and all(isinstance(one, (CommandFailed, OSError)) for one in _leaves(error)):
            raise KeyboardInterrupt from error
        raise
    if was_interrupted:
        raise KeyboardInterrupt
    return returned[0]


async def _awaited(work: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
    return await work(*arguments)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
