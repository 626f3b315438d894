"""A file system that never answers, made with FUSE: nobody reads what it is asked."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def hanging(directory: Path) -> Iterator[None]:
    """Have it there for the length of the block, after which whoever still waits is told that it is over; the test is
    skipped where none can be mounted."""
    try:
        channel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE: {error}")
    try:
        options = f"fd={channel},rootmode=40000,user_id=0,group_id=0"
        command = ["mount", "--internal-only", "-t", "fuse", "-o", options, "hanging", str(directory)]
        done = subprocess.run(command, pass_fds=[channel], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no FUSE: {done.stderr}")
        try:
            yield
        finally:
            os.close(channel)
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
    finally:
        with suppress(OSError):
            os.close(channel)
