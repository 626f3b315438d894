"""A stream for the log that never waits for its reader.

    write ─► a file, or a pipe with room ─► written
             └ a terminal, or no room ─► queued, at most WAITING_BYTES_MAX ─► a thread waits and writes them in order
                              └ the queue is full ─► lost, and counted

The reader of a log may stop: a collector that hangs, a terminal after Ctrl-S. A blocking write would then stop the
event loop and all its tasks, and no signal would end the process.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections import deque
from typing import Final, TextIO

WAITING_BYTES_MAX: Final = 1 << 20
ROOM_BYTES: Final = 4096
"""A pipe or a socket that is ready accepts this much without blocking (pipe(7)). A terminal that is ready may accept
only one character and then block, so only the thread writes to a terminal."""


class PatientStream:
    """Owns the pending output. Implements the part of a text stream that logging and ``print`` need."""

    def __init__(self, stream: TextIO, waiting_bytes_max: int = WAITING_BYTES_MAX) -> None:
        """Raises OSError if the stream has no file descriptor."""
        self._fd = stream.fileno()
        self._is_file = stat.S_ISREG(os.fstat(self._fd).st_mode)
        self._is_terminal = stream.isatty()
        self._waiting_bytes_max = waiting_bytes_max
        self._ready = select.poll()
        self._ready.register(self._fd, select.POLLOUT)
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_writing = False
        self._error: OSError | None = None
        self._lost = 0

    def write(self, text: str) -> int:
        """Write now, or as soon as there is room. Raises OSError, also the one of an earlier, queued text."""
        data = text.encode(errors="backslashreplace")
        with self._changed:
            error, self._error = self._error, None
            if error is not None:
                raise error
            if not self._waiting and not self._is_terminal:
                data = self._write_what_fits(data)
            if data:
                self._keep(data)
        return len(text)

    def _write_what_fits(self, data: bytes) -> bytes:
        """Write without blocking. Return the rest, for which there is no room."""
        while data and (self._is_file or self._ready.poll(0)):
            try:
                data = data[os.write(self._fd, data if self._is_file else data[:ROOM_BYTES]) :]
            except BlockingIOError:  # another process that shares the file made it non-blocking
                break
        return data

    def _keep(self, data: bytes) -> None:
        if self._waiting_bytes + len(data) > self._waiting_bytes_max:
            self._lost += 1
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if not self._is_writing:
            # A daemon thread: one that waits for ever does not keep the process from ending.
            try:
                threading.Thread(target=self._write_waiting, name="log", daemon=True).start()
            except RuntimeError:  # no thread is available; the next write tries again
                return
            self._is_writing = True

    def _write_waiting(self) -> None:
        """Write until the queue is empty. Runs in a thread."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_writing = False
                    self._changed.notify_all()
                    return
                data = self._waiting[0]
            error = self._write_all(data)
            with self._changed:
                self._error = error or self._error
                self._waiting_bytes -= len(self._waiting.popleft())

    def _write_all(self, data: bytes) -> OSError | None:
        try:
            while data:
                try:
                    data = data[os.write(self._fd, data) :]
                except BlockingIOError:
                    self._ready.poll()
        except OSError as error:
            return error
        return None

    def take_lost(self) -> int:
        """Return the number of lost texts once there is room again, and reset it."""
        with self._changed:
            if self._waiting:
                return 0
            lost, self._lost = self._lost, 0
            return lost

    @property
    def problem(self) -> str | None:
        """A message while the reader does not keep up, else None."""
        return "the log is not being read: lines are lost" if self._lost else None

    def drain(self, seconds_max: float) -> None:
        """Wait until everything is written, at most this long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing, seconds_max)

    def flush(self) -> None:
        """Do nothing: texts are written as soon as possible. See ``drain``."""

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def isatty(self) -> bool:
        """True if the stream is a terminal."""
        return self._is_terminal

    @property
    def encoding(self) -> str:
        """The encoding; always the same."""
        return "utf-8"

    def __repr__(self) -> str:
        return f"<PatientStream of {self._fd}: {self._waiting_bytes} bytes queued, {self._lost} texts lost>"
