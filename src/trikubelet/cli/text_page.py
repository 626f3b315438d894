"""A text in the live view of ``top``: details of a pod, a log or the help, as much as a window has room for.

Lines that are too long are continued on the next one. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trikubelet.cli.screen_state import Sheet
from trikubelet.cli.terminal import in_a_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TAB_LETTERS: Final = 8


@dataclass(frozen=True, slots=True)
class Text:
    """A title and the lines below it, unchanged."""

    title: str
    lines: Sequence[str]


def text_sheet(text: Text, warning: str, first: int, height: int, width: int) -> Sheet:
    """Return the part of the text that a window of this size shows from its ``first`` line on, or the nearest possible;
    ``warning``: a problem of the text, empty for none."""
    lines = [part for line in text.lines for part in _parts(line, max(1, width))]
    wrong = [in_a_cell(f"! {warning}")] if warning else []
    room = max(1, height - 1 - len(wrong))
    last = max(0, len(lines) - room)
    first = max(0, min(first, last))
    shown = lines[first : first + room]
    place = f" · {first + 1}-{first + len(shown)} of {len(lines)}" if last else ""
    head = [in_a_cell(text.title + place), *wrong][: max(0, height - 1)]
    return Sheet([*(line[:width] for line in head), *shown][:height], first, last, room)


def _parts(line: str, width: int) -> Iterator[str]:
    """Yield the line in parts that fit. Its indentation stays; control characters are escaped."""
    line = line.expandtabs(_TAB_LETTERS)
    indentation = line[: len(line) - len(line.lstrip(" "))]
    whole = indentation + in_a_cell(line) if line.strip() else ""
    for begin in range(0, max(1, len(whole)), width):
        yield whole[begin : begin + width]
