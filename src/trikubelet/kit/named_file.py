"""Reads a file that an operator names by hand, and that may be anything: a pipe, a device, or a huge file.

The pipe that a shell creates for ``<(command)`` is read to its end. A pipe without a writer would block silently, and
an endless device would be read until memory is exhausted: both are errors here.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Larger than any configuration; the limit for manifests, too."""


def read_named(path: Path | str, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Return all of a file. Raises OSError; EFBIG for one that is larger, ENXIO for a pipe without a writer."""
    with open(path, "rb", opener=_without_waiting) as file:
        os.set_blocking(file.fileno(), True)  # non-blocking only for ``open``, which waits for the writer of a pipe
        octets = file.read(bytes_max + 1)
        if not octets and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENXIO, "it is a pipe without a writer", str(path))
    if len(octets) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return octets


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
