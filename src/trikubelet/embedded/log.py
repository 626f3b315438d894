"""A container's log file in the CRI's format: ``<time> stdout|stderr F|P <line>``, one line at a time.

The pumps of a container's two pipes call it; rotation renames the file and then calls ``reopen``. A full disk costs
lines, never the container: lines that cannot be written are counted, logged once, and the file never has half a line.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trikubelet.kit.plain_file import open_plain_to_append

if TYPE_CHECKING:
    from trikubelet.ports import Clock

log = logging.getLogger(__name__)

LINE_BYTES_MAX: Final = 16384
"""Longer lines are split into ``P`` records of this size, as containerd does."""

FILE_MODE: Final = 0o640


class ContainerLog:
    """Owns one log file and the unfinished lines of its two streams. Local disk: its calls are synchronous."""

    def __init__(self, path: str, clock: Clock) -> None:
        """Open the file for appending; an empty ``path`` means that there is no log. Raises OSError."""
        self._path = path
        self._clock = clock
        self._fd = _open(path)
        self._unfinished: dict[str, bytes] = {}
        self.lines_dropped = 0

    def feed(self, stream: str, data: bytes) -> None:
        """Write a container's output; ``stream`` is ``stdout`` or ``stderr``."""
        *lines, rest = (self._unfinished.get(stream, b"") + data).split(b"\n")
        records = []
        stamp = _stamp(self._clock.now_ns())
        for line in lines:
            while len(line) > LINE_BYTES_MAX:
                records.append(_record(stamp, stream, b"P", line[:LINE_BYTES_MAX]))
                line = line[LINE_BYTES_MAX:]  # noqa: PLW2901 - the rest of it
            records.append(_record(stamp, stream, b"F", line))
        while len(rest) > LINE_BYTES_MAX:
            records.append(_record(stamp, stream, b"P", rest[:LINE_BYTES_MAX]))
            rest = rest[LINE_BYTES_MAX:]
        self._unfinished[stream] = rest
        self._write(records)

    def finish(self, stream: str) -> None:
        """End the stream, perhaps within a line, which then stays a part, as with containerd."""
        if rest := self._unfinished.pop(stream, b""):
            self._write([_record(_stamp(self._clock.now_ns()), stream, b"P", rest)])

    def reopen(self) -> None:
        """Continue in a new file at the same path. Raises OSError, and then continues in the old one."""
        fresh = _open(self._path)
        self.close()
        self._fd = fresh

    def close(self) -> None:
        """Close the file; later output is dropped."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _write(self, records: list[bytes]) -> None:
        if self._fd < 0 or not records:
            return
        try:
            dropped, reason = self._append(b"".join(records)), "no room"
        except OSError as error:
            dropped, reason = len(records), error.strerror or str(error)
        if dropped and not self.lines_dropped:
            log.warning("Cannot write %s (%s): dropping lines from now on", self._path, reason)
        self.lines_dropped += dropped

    def _append(self, data: bytes) -> int:
        """Write whole lines, as many as fit on the disk, and return the number of dropped ones."""
        before = os.lseek(self._fd, 0, os.SEEK_END)
        written = os.write(self._fd, data)
        if written == len(data):
            return 0
        whole = data.rfind(b"\n", 0, written) + 1
        os.ftruncate(self._fd, before + whole)
        return data.count(b"\n", whole)


def _open(path: str) -> int:
    return open_plain_to_append(path, FILE_MODE) if path else -1


def _record(stamp: bytes, stream: str, tag: bytes, line: bytes) -> bytes:
    return b"%b %b %b %b\n" % (stamp, stream.encode(), tag, line)


def _stamp(now_ns: int) -> bytes:
    seconds, fraction = divmod(now_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z".encode()
