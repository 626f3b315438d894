"""From the first line to the last: signals, systemd, the order of shutdown, the exit code.

    start ─► main started ─► READY ─► signs of life while the checks pass
      │           │
      │           ├ SIGTERM, SIGINT ─► STOPPING ─► main is cancelled ─► it ends in time ─► exit 0
      │           │                                     ├ it does not ─────────────────► exit 1
      │           │                                     └ a second signal ─────────────► at once
      │           └ main ends by itself ───────────────────────────────────────────────► exit 0
      └ an exception, whenever ────────────────────────────────────────────────────────► exit 1, the reason last

Nothing is restarted in here: the service manager does that, and everything is found again from the runtime and the
manifests. Trio receives the first signal only: the second ends the process without waiting, from within its handler,
which runs even if Trio's loop is stuck. One that comes right after the first, with its number, is the first once more:
``timeout`` signals its child, and then the group that the child is in.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TextIO, TypeVar

import trio

from trikubelet.kit.every import Every
from trikubelet.kit.sd_notify import Notifier
from trikubelet.model.errors import StartFailed
from trikubelet.server.health import problems

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from types import FrameType

    from trikubelet.server.health import Checks

log = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
EXIT_GOOD, EXIT_FAILED = 0, 1
ECHO_SECONDS: Final = 0.1
"""Seconds within which a signal with the same number is a repetition of the first: no operator sends two that fast."""
WATCHDOG_SECONDS_MIN: Final = 2.0
_ILL_RETRY_SECONDS: Final = 1.0
_STATUS_SECONDS: Final = 10.0


class Main(Protocol[T_co]):
    """The supervised function. It runs until cancelled and calls ``started`` once it is ready."""

    async def __call__(self, *, task_status: trio.TaskStatus[T_co]) -> None:
        """Run the agent."""


class Supervisor(Generic[T]):
    """Owns the state of the process between its start and its end.

    ``checks``, ``status`` and ``beside`` are called with what main passed to ``started``: the checks behind the
    watchdog, one line for ``systemctl status``, and a task that runs next to main from then on. ``end_now`` ends the
    process at once; ``last_signal``, called with the received one, has the next signal do so, whatever Trio does
    meanwhile.
    """

    def __init__(
        self,
        notifier: Notifier,
        *,
        checks: Callable[[T], Checks],
        status: Callable[[T], str],
        beside: Callable[[T], Awaitable[None]],
        stop_seconds_max: float,
        end_now: Callable[[int], None],
        last_signal: Callable[[int], None],
    ) -> None:
        self._notifier = notifier
        self._checks = checks
        self._status = status
        self._beside = beside
        self._stop_seconds_max = stop_seconds_max
        self._end_now = end_now
        self._last_signal = last_signal
        self._going_down = False

    async def run(self, main: Main[T], signals: AsyncIterator[int]) -> None:
        """Run main until it ends or a signal comes. Raises main's errors, in groups, and StartFailed."""
        watchdog = self._notifier.watchdog_seconds
        if watchdog is not None and watchdog < WATCHDOG_SECONDS_MIN:
            raise StartFailed(
                f"WatchdogSec={watchdog:g} is too short; give the unit at least {WATCHDOG_SECONDS_MIN:g}s"
            )
        async with trio.open_nursery() as beside:
            work_scope = trio.CancelScope()
            beside.start_soon(self._listen, signals, work_scope)
            with work_scope:
                async with trio.open_nursery() as work:
                    started = await work.start(main)
                    status = self._status(started)
                    log.info("Started: %s", status)
                    self._notifier.ready(status)
                    beside.start_soon(self._report, started, status)
                    beside.start_soon(self._beside, started)
                    if watchdog is not None:
                        beside.start_soon(self._feed_watchdog, self._checks(started), watchdog)
            beside.cancel_scope.cancel()

    async def _listen(self, signals: AsyncIterator[int], work: trio.CancelScope) -> None:
        """Cancel the work at the first signal; end the process at the second, or when the work takes too long."""
        came, came_at = await anext(signals), trio.current_time()
        self._last_signal(came)
        name = signal.Signals(came).name
        log.info("Stopping: %s", name)
        self._going_down = True
        self._notifier.stopping(f"stopping: {name}", self._stop_seconds_max)
        work.cancel()
        with trio.move_on_after(self._stop_seconds_max):
            again = await anext(signals)  # Trio has received one already; another bypasses it
            while is_echo(came, again, trio.current_time() - came_at):
                again = await anext(signals)
            log.error("Ended at once: a second signal, %s, while stopping", signal.Signals(again).name)
            self._end_now(EXIT_FAILED)
            return
        log.error("Ended at once: stopping took more than %g seconds", self._stop_seconds_max)
        self._end_now(EXIT_FAILED)

    async def _report(self, started: T, said: str) -> None:
        """Keep systemd's status line up to date, until the agent stops."""
        async for _ in Every(_STATUS_SECONDS):
            if self._going_down:
                return
            status = self._status(started)
            if status != said:
                self._notifier.status(status)
                said = status

    async def _feed_watchdog(self, checks: Checks, watchdog_seconds: float) -> None:
        """Notify the watchdog twice per period, but not while a check fails."""
        async for _ in Every(watchdog_seconds / 2):
            logged: dict[str, str] | None = None
            while found := problems(checks):
                if logged is None or found.keys() != logged.keys():
                    text = "; ".join(f"{name}: {wrong}" for name, wrong in found.items())
                    log.error("Watchdog not notified, systemd will kill the agent if this lasts: %s", text)
                logged = found
                await trio.sleep(_ILL_RETRY_SECONDS)
            self._notifier.alive()


async def _nothing(_started: object) -> None:
    await trio.lowlevel.checkpoint()


def run(
    main: Main[T],
    *,
    checks: Callable[[T], Checks],
    status: Callable[[T], str],
    stop_seconds_max: float,
    beside: Callable[[T], Awaitable[None]] = _nothing,
    notifier: Notifier | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run the agent to its end and return the exit code. On failure the reason is the last line on ``stderr``. Raises
    nothing.

    ``notifier``: notifies systemd, by default as the environment sets it. See ``Supervisor`` for the others.
    """
    systemd = Notifier.take_from(os.environ) if notifier is None else notifier

    async def supervised() -> None:
        with trio.open_signal_receiver(*SIGNALS) as signals:
            supervisor = Supervisor(
                systemd,
                checks=checks,
                status=status,
                beside=beside,
                stop_seconds_max=stop_seconds_max,
                end_now=_end_now,
                last_signal=_end_at_next_signal,
            )
            await supervisor.run(main, signals)

    with _signals_kept():
        try:
            trio.run(supervised)
        except BaseException as error:
            systemd.stopping(f"failed: {reason_of(error)}")
            return last_words(error, sys.stderr if stderr is None else stderr)
    log.info("Ended")
    return EXIT_GOOD


def last_words(error: BaseException, stderr: TextIO) -> int:
    """Print why the process ends, the reason last, and return the exit code. An operator's faults are printed without a
    traceback, one line per fault."""
    leaves = _leaves(error)
    if not all(isinstance(leaf, (StartFailed, KeyboardInterrupt)) for leaf in leaves):
        log.critical("The agent ends", exc_info=error)
    lines = [line for leaf in leaves for line in _said(leaf).split("\n")]
    for line in dict.fromkeys(lines):
        print(f"error: {line}", file=stderr)
    stderr.flush()
    return EXIT_FAILED


def reason_of(error: BaseException) -> str:
    """Return the reason in one line: every root exception, each once."""
    return "; ".join(dict.fromkeys(" ".join(_said(leaf).split()) for leaf in _leaves(error)))


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group, without mere cancellations."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    leaves = [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [leaf for leaf in leaves if not isinstance(leaf, trio.Cancelled)] or leaves


def _said(error: BaseException) -> str:
    if isinstance(error, StartFailed):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _end_now(code: int) -> None:
    logging.shutdown()
    os._exit(code)


def is_echo(first: int, number: int, seconds: float) -> bool:
    """True if a signal that came this long after the first is a repetition of it."""
    return number == first and seconds < ECHO_SECONDS


def _end_at_next_signal(first: int) -> None:
    came_at = time.monotonic()  # Trio's clock is out of a handler's reach once its loop has ended
    for number in SIGNALS:
        signal.signal(number, partial(_end_at_once, first, came_at))


def _end_at_once(first: int, came_at: float, number: int, _frame: FrameType | None) -> None:
    """Print that and end, whatever the main thread is doing. That may be writing to the log, so the log is not used,
    and its stream gets a line only if that does not block."""
    if is_echo(first, number, time.monotonic() - came_at):
        return
    said = f"error: ended at once: {signal.Signals(number).name} came while stopping\n"
    with suppress(OSError, ValueError):
        if sys.stderr is not None and select.select([], [sys.stderr], [], 0)[1]:
            os.write(sys.stderr.fileno(), said.encode())
    os._exit(EXIT_FAILED)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the process's signal handlers."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
