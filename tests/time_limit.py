"""How a test ends whose time is over while Trio waits: as by an interrupt, from within.

pytest-timeout's signal raises where the process just is. In a task that is like any error. In Trio's own code, as the
wait of its loop, it would leave ``trio.run`` without ending the run: Trio would believe for ever that it runs in this
thread, every later test that runs it would fail, and what the tasks clean up would come in the middle of other tests.
So there, where Ctrl-C does not raise either, the run is interrupted as Ctrl-C interrupts it, whose way out leads
through all nurseries, and the interrupt is told as what it is.

A run that does not end by that within ``GRACE_SECONDS`` waits for what nobody can cancel, a thread for example. Then a
process that shares the tests out with others ends, of which pytest-xdist makes a failure of the one test; one that is
alone goes on as if there were no such module.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from trio._core._ki import ki_protection_enabled
from trio._core._run_context import GLOBAL_RUN_CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

GRACE_SECONDS: Final = 10.0
_interrupted: Final = pytest.StashKey[float]()
"""Of a test that was: after how many seconds."""


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Whatever pytest-timeout would do comes second."""
    result = yield
    otherwise = signal.getsignal(signal.SIGALRM)
    if callable(otherwise):
        signal.signal(signal.SIGALRM, partial(_time_is_over, item, settings.timeout, otherwise))
    return result


def _time_is_over(
    item: pytest.Item,
    seconds: float,
    otherwise: Callable[[int, FrameType | None], object],
    number: int,
    frame: FrameType | None,
) -> None:
    runner = getattr(GLOBAL_RUN_CONTEXT, "runner", None)
    if runner is None or not ki_protection_enabled(frame):
        otherwise(number, frame)
    elif _interrupted not in item.stash:
        item.stash[_interrupted] = seconds
        runner.deliver_ki()
        signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
    elif "PYTEST_XDIST_WORKER" in os.environ:
        faulthandler.dump_traceback(file=sys.__stderr__)
        os._exit(1)
    else:
        otherwise(number, frame)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """An interrupt that leaves a nursery stands in a group, which pytest takes for a failed test, and goes on."""
    try:
        return (yield)
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        if not isinstance(error, KeyboardInterrupt) and not error.subgroup(KeyboardInterrupt):
            raise
        if _interrupted in item.stash:
            pytest.fail(f"Timeout (>{item.stash[_interrupted]}s) while it waited, for what the interrupt above says")
        raise KeyboardInterrupt from error
