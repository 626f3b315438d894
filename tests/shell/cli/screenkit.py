"""A terminal for the whole screen of ``top``: a window of any size, and its keys."""

from __future__ import annotations

import curses
import os
import select


class Terminal:
    """What is drawn, and the keys that were pressed, of which the descriptor tells."""

    def __init__(self, width: int = 60, height: int = 12, encoding: str = "utf-8") -> None:
        self.keyboard, self._theirs = os.pipe()
        self.width, self.height = width, height
        self.encoding = encoding
        self._keys: list[int] = []
        self._drawn: dict[int, str] = {}
        self._reversed: list[str] = []
        self.shown: list[str] = []
        self.marked: list[str] = []

    def press(self, *keys: int | str) -> None:
        """Press keys; a text is a key for each letter."""
        for key in keys:
            self._keys += [key] if isinstance(key, int) else map(ord, key)
        os.write(self._theirs, b"!")

    def end(self) -> None:
        """Close the keyboard."""
        os.close(self._theirs)

    def getmaxyx(self) -> tuple[int, int]:
        return self.height, self.width

    def erase(self) -> None:
        self._drawn, self._reversed = {}, []

    def addnstr(self, y: int, x: int, text: str, n: int, attr: int, /) -> None:
        assert (0, True) == (x, y < self.height - 1), "a line has no place, or leaves none for the cursor"
        assert len(text) <= n < self.width, "a line is wrapped"
        text.encode(self.encoding)
        self._drawn[y] = text
        self._reversed += [text] if attr & curses.A_REVERSE else []

    def refresh(self) -> None:
        self.shown, self.marked = list(self._drawn.values()), self._reversed

    def getch(self) -> int:
        if self._keys:
            return self._keys.pop(0)
        if select.select([self.keyboard], [], [], 0)[0]:
            os.read(self.keyboard, 100)
        return curses.ERR
