"""A directory with many names, or nested deeply, as a container may leave one, and what is held in memory by who goes
through it."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

NAMES: Final = 4_000
NAME_LENGTH: Final = 200
FILLED_BYTES: Final = NAMES * NAME_LENGTH
"""What a list of the names alone would take at least."""


def _numbered(number: int) -> str:
    return str(number).zfill(NAME_LENGTH)


def fill(directory: Path, name: Callable[[int], str] = _numbered) -> None:
    """Put that many files into it, of names as long as that."""
    at = os.open(directory, os.O_PATH)
    try:
        for number in range(NAMES):
            os.mknod(name(number), dir_fd=at)
    finally:
        os.close(at)


def nest(directory: str | Path, levels: int, last: Iterable[str] = ()) -> None:
    """Make so many directories, each within the one before, and in the last of them these."""
    at = os.open(directory, os.O_PATH)
    try:
        for _ in range(levels):
            os.mkdir("d", dir_fd=at)
            above, at = at, os.open("d", os.O_PATH, dir_fd=at)
            os.close(above)
        for name in last:
            os.mkdir(name, dir_fd=at)
    finally:
        os.close(at)


def peak_bytes(call: Callable[..., object], *args: object) -> int:
    """Return the peak of Python's memory during the call, less that before it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call(*args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


async def peak_bytes_of(call: Awaitable[object]) -> int:
    """Return the same for a coroutine; the memory of its threads counts, too."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await call
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
