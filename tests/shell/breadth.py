"""A directory with many names, as a container may leave one, and what is held in memory by who goes through it."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES: Final = 4_000
NAME_LENGTH: Final = 200
FILLED_BYTES: Final = NAMES * NAME_LENGTH
"""What a list of the names alone would take at least."""


def fill(directory: Path) -> None:
    """Put that many files into it."""
    at = os.open(directory, os.O_PATH)
    try:
        for number in range(NAMES):
            os.mknod(str(number).zfill(NAME_LENGTH), dir_fd=at)
    finally:
        os.close(at)


def peak_bytes(call: Callable[..., object], *args: object) -> int:
    """How much more Python held at once during the call than before it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call(*args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
