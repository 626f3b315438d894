"""What somebody writes by whole lines, where others write to the same place in between."""

from __future__ import annotations

from typing import Final

LINE_BYTES_MAX: Final = 1024 * 1024
"""A longer line is broken rather than kept: nothing says that it ever ends."""


class WholeLines:
    """Owns the beginning of a line whose end has not come. ``before``: what each line begins with."""

    def __init__(self, before: bytes) -> None:
        self._before = before
        self._torn = bytearray()

    def of(self, block: bytes) -> bytes:
        """The lines that have ended by now that ``block`` came, too."""
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
        """The line that did not end, without a newline; empty if there is none."""
        return self._before + bytes(self._torn) if self._torn else b""
