"""Makes untrusted text safe for terminals, and adds colours unless they are disabled.

A container chooses its termination message, and an image's author much of the text of events. Such text must not be
able to move a reader's cursor, retitle their window, turn a line around or hide one. Logs are the container's output
and stay unchanged. Colours are for terminals only (https://no-color.org).
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Final

NAME_LETTERS_MAX: Final = 200
"""Letters of a name that a container chose."""

_CARET = {code: f"^{chr(code ^ 64)}" for code in (*range(32), 127)}
_HIGH = {code: f"\\x{code:02x}" for code in range(128, 160)}
_TURNING = {
    code: f"\\u{code:04x}" for code in (0x61C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
"""Marks of direction (Unicode's bidirectional algorithm), line separators, and a zero-width space. Joiners stay:
scripts and emoji need them."""
_ALL = _CARET | _HIGH | _TURNING
_LINES = {code: shown for code, shown in _ALL.items() if chr(code) not in "\n\t"}
_CELL = _ALL | {ord("\n"): " ", ord("\t"): " "}


def in_lines(text: str) -> str:
    """Return the text with every control character but newline and tab escaped."""
    return text.translate(_LINES)


def in_a_cell(text: str) -> str:
    """Return the text on one line: newlines and tabs become spaces, other control characters are escaped."""
    return text.strip().translate(_CELL)


def shortened(name: str) -> str:
    """Return the name, cut if it would fill a screen."""
    return name if len(name) <= NAME_LETTERS_MAX else f"{name[:NAME_LETTERS_MAX]}…"


class Colour(StrEnum):
    """Control sequences for a terminal (ECMA-48, SGR)."""

    GREEN = "32"
    YELLOW = "33"
    RED = "31"


def painted(text: str, colour: Colour) -> str:
    """Return the text in that colour, if standard output is a terminal with colours."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"
