"""What all tests share: property tests try the same examples every time, so that a run says something about the change
and not about the day. ``make fuzz`` and ``TRIKUBELET_EXPLORE=1`` draw fresh ones. And a signal is one: a shell has what
it runs in the background ignore interrupts, and nohup what it runs hang-ups, which a test that sends them, and commands
that tests start, would inherit."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
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
def place() -> Iterator[Path]:
    """A directory with a short name: a Unix socket's path may not be as long as those of ``tmp_path`` are."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are numbered and not spelled out: many are drawn when a module is imported (masks, keys), and processes
    that share the tests out have to call each by the same name."""
    return argname if isinstance(val, bytes) else None
