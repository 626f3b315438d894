"""Splits output into whole lines, so that several outputs can be printed to one place."""

from __future__ import annotations

from typing import Final

LINE_BYTES_MAX: Final = 1024 * 1024
"""A longer line is broken rather than kept, because it may never end."""


class WholeLines:
    """Owns the beginning of an unfinished line. ``before``: the beginning of each printed line."""

    def __init__(self, before: bytes) -> None:
        self._before = before
        self._torn = bytearray()

    def of(self, block: bytes) -> bytes:
        """Return the lines that are complete after ``block``."""
        ended, newline, begun = block.rpartition(b"\n")
        lines = []
        if newline:
            lines = (bytes(self._torn) + ended).split(b"\n")
            self._torn.clear()
        self._torn += begun
        if len(self._torn) > LINE_BYTES_MAX:
            lines.append(bytes(self._torn))
            self._torn.clear()
        return b"".join(self._before + line + b"\n" for line in lines)

    def rest(self) -> bytes:
        """Return the unfinished line, without a newline; empty if there is none."""
        return self._before + bytes(self._torn) if self._torn else b""
