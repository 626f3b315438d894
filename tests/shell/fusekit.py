"""File systems that do not answer, made with FUSE: at all, as nobody reads what it is asked, or who closes a file."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import subprocess
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MNT_FORCE: Final = 1
LOG: Final = 2
"""The file's node; the directory's is 1."""
LOOKUP: Final = 1
GETATTR: Final = 3
OPEN: Final = 14
FLUSH: Final = 25
INIT: Final = 26
UNANSWERED: Final = frozenset({FLUSH, 2, 42, 36})
"""FLUSH, and those that have no answer: FORGET, BATCH_FORGET, INTERRUPT."""


@contextmanager
def hanging(directory: Path) -> Iterator[None]:
    """Have it there for the length of the block, after which whoever still waits is told that it is over; the test is
    skipped where none can be mounted."""
    with _channel(directory):
        yield


@contextmanager
def _channel(directory: Path) -> Iterator[int]:
    """A file system mounted there, to be answered for by that descriptor."""
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
            yield channel
        finally:
            os.close(channel)
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
    finally:
        with suppress(OSError):
            os.close(channel)


@contextmanager
def never_flushing(directory: Path) -> Iterator[threading.Event]:
    """One with a file ``log`` that can be opened, and whose closing is never answered. The event: it was asked to
    close it. Nothing may be started within the block, for that would hang as well."""
    with _channel(directory) as channel:
        asked, (wake, woken) = threading.Event(), os.pipe()
        server = threading.Thread(target=_serve, args=(channel, wake, asked))
        server.start()
        try:
            yield asked
        finally:
            os.close(woken)
            server.join()
            os.close(wake)
            # By force: who waits is told that it is over, though a child may have the channel open.
            ctypes.CDLL(None).umount2(os.fsencode(directory), MNT_FORCE)


def _serve(channel: int, wake: int, asked_to_flush: threading.Event) -> None:
    """Answer until ``wake`` ends. Structures of the kernel's <linux/fuse.h>."""
    while True:
        readable, _, _ = select.select([channel, wake], [], [])
        if wake in readable:
            return
        asked = os.read(channel, 1 << 18)
        _, opcode, number, node = struct.unpack_from("=IIQQ", asked)
        if opcode in UNANSWERED:
            if opcode == FLUSH:
                asked_to_flush.set()
            continue
        answer = {
            INIT: struct.pack("=IIII HH II 32x", 7, 31, 0, 0, 0, 0, 4096, 1),
            LOOKUP: struct.pack("=4Q2I", LOG, 0, 0, 0, 0, 0) + _attributes(LOG),
            GETATTR: struct.pack("=QII", 0, 0, 0) + _attributes(node),
            OPEN: struct.pack("=QII", 1, 0, 0),
        }.get(opcode)
        error = -errno.ENOSYS if answer is None else 0
        os.write(channel, struct.pack("=IiQ", 16 + len(answer or b""), error, number) + (answer or b""))


def _attributes(node: int) -> bytes:
    """Return attributes of an empty file, or of the directory: inode, size, blocks and times; mode, links, owner,
    device and block."""
    return struct.pack("=6Q10I", node, *[0] * 8, 0o100644 if node == LOG else 0o40755, 1, *[0] * 5)
