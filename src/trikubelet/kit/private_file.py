"""Files with secrets: written atomically, and readable only by their owner.

A written file survives a power cut: its directory is flushed before the caller continues.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trikubelet.kit.plain_file import clear, errors_name, put_in_place

if TYPE_CHECKING:
    from pathlib import Path


def write_privately(path: Path, content: bytes) -> None:
    """Write a file like ``write_durably``, readable only by its owner."""
    write_durably(path, content, mode=0o600)


def write_durably(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file atomically and flush it. Raises OSError, also for a directory in its place that is not empty; the
    earlier file stays then."""
    beside = lay_beside(path, content, mode)
    with errors_name(path):
        try:
            put_in_place(beside, path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    sync_names(path.parent)


def lay_beside(path: Path, content: bytes, mode: int = 0o600) -> Path:
    """Write and flush a temporary file next to ``path``, to be renamed later. Raises OSError, and leaves nothing
    then."""
    beside = path.with_name(f".{path.name}.new")  # hidden, so that no reader takes it for the final file
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
    """Flush the names in a directory, not the content of its files. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
