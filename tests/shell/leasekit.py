"""A lease on a file (``F_SETLEASE``), as a container may have on one of its own: who opens the file waits for it."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def leased(path: str) -> Iterator[None]:
    """Hold it for the length of the block; the test is skipped where the file system has none."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the kernel asks for it back
    held = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            pytest.skip(f"no leases on this file system: {error}")
        yield
    finally:
        os.close(held)
        signal.signal(signal.SIGIO, before)
