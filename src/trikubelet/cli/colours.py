"""Colours, for a terminal only, and for nobody who said no (https://no-color.org)."""

from __future__ import annotations

import os
import sys
from enum import StrEnum


class Colour(StrEnum):
    """What a terminal is told (ECMA-48, SGR)."""

    GREEN = "32"
    YELLOW = "33"
    RED = "31"


def painted(text: str, colour: Colour) -> str:
    """The text in that colour, where standard output is a terminal that has colours."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"
