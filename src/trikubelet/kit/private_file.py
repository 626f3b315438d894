"""Files with secrets in them: whole or not there, and readable by their owner alone.

A file that was put in place is there after a power cut, too: its directory is on the disk before the caller goes on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trikubelet.kit.plain_file import clear, errors_name, put_in_place

if TYPE_CHECKING:
    from pathlib import Path


def write_privately(path: Path, content: bytes) -> None:
    """Put a file in place as ``write_durably`` does, for its owner alone."""
    write_durably(path, content, mode=0o600)


def write_durably(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Put a file in place whole and flushed. Raises OSError, also for a directory in its place that is not empty; then
    there is what was there before."""
    beside = lay_beside(path, content, mode)
    with errors_name(path):
        try:
            put_in_place(beside, path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    sync_names(path.parent)


def lay_beside(path: Path, content: bytes, mode: int = 0o600) -> Path:
    """The first half of it: all is on the disk, beside where it is to be. Raises OSError, and leaves nothing then."""
    beside = path.with_name(f".{path.name}.new")  # hidden, so that no reader takes it for what it will be
    with errors_name(path):
        clear(beside)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    return beside


def sync_names(directory: Path) -> None:
    """Have the directory on the disk as it is now: its names, not what is in its files. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
