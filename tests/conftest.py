"""What all tests share: property tests try the same examples every time, so that a run says something about the change
and not about the day. ``make fuzz`` and ``TRIKUBELET_EXPLORE=1`` draw fresh ones. And a signal is one: a shell has what
it runs in the background ignore interrupts, and nohup what it runs hang-ups, which a test that sends them, and commands
that tests start, would inherit."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# A timing is never asserted: a busy machine may take its time over an example.
settings.register_profile("the same every time", derandomize=True, deadline=None)
settings.register_profile("fresh ones", deadline=None)
settings.load_profile("fresh ones" if os.environ.get("TRIKUBELET_EXPLORE") else "the same every time")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


@pytest.fixture
def no_standing_still() -> Iterator[None]:
    """Who waits in ``open`` for a pipe that nobody writes to is woken by an error, rather than hold all tests up."""

    def wake(_number: int, _frame: object) -> None:
        raise AssertionError("it stands still")

    before = signal.signal(signal.SIGALRM, wake)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
