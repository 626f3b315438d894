"""A file that another program renews: a certificate, a key, a token. Read again when it changed."""

from __future__ import annotations

import os
from typing import Final

import trio

from trikubelet.kit.plain_file import read_plain

LOOK_SECONDS: Final = 1.0
"""Between two looks at what the file's metadata say."""
KEPT_SECONDS_MAX: Final = 60.0
"""Read again after this even when they say nothing: not every file system keeps them."""
FILE_BYTES_MAX: Final = 1024 * 1024


class FileContent:
    """Owns what a small local file was last seen to hold."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._content = b""
        self._stamp: tuple[int, int, int] | None = None
        self._looked_at = self._read_at = -float("inf")

    def get(self) -> bytes:
        """Return its content, at most a second old. Raises OSError; the content before is in ``last`` then."""
        now = trio.current_time()
        if self._stamp is not None and now < self._looked_at + LOOK_SECONDS:
            return self._content
        return self.look(now)

    def look(self, now: float) -> bytes:
        """Return its content at this time (Trio's clock, seconds, which a thread cannot ask for). Raises as ``get``."""
        found = os.stat(self.path)
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        self._looked_at = now
        if stamp != self._stamp or now >= self._read_at + KEPT_SECONDS_MAX:
            self._content = read_plain(self.path, FILE_BYTES_MAX)
            self._stamp, self._read_at = stamp, now
        return self._content

    @property
    def last(self) -> bytes:
        """The content when it could last be read; b"" when it never could."""
        return self._content

    def forget(self) -> None:
        """Its content is no good: read it again at the next call."""
        self._stamp = None
