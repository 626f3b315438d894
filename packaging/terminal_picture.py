"""A picture of a terminal: text with colours (SGR sequences) in, one SVG file out.

Nothing in it depends on the machine that draws: every run of characters has its place and its width written down, so
that a viewer without the font that is asked for still aligns the columns. No script, no link, no font file.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

COLUMN_PIXELS: Final = 8
ROW_PIXELS: Final = 19
BORDER_PIXELS: Final = 16
BAR_PIXELS: Final = 30
FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PLAIN: Final = "#d6dae0"
COLOURS: Final = {
    31: "#ff7b72",
    32: "#7ee787",
    33: "#e3b341",
    34: "#79c0ff",
    35: "#d2a8ff",
    36: "#76e3ea",
    90: "#8b949e",
}
SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")


class Style(NamedTuple):
    """How a run of characters looks."""

    colour: str = PLAIN
    bold: bool = False
    faint: bool = False


def picture(text: str, *, title: str) -> str:
    """The SVG for a terminal that shows the text, exactly as wide and high as the text is."""
    rows = [_runs(line) for line in text.rstrip("\n").split("\n")]
    columns = max(sum(len(part) for part, _ in row) for row in rows)
    width = columns * COLUMN_PIXELS + 2 * BORDER_PIXELS
    height = BAR_PIXELS + len(rows) * ROW_PIXELS + BORDER_PIXELS
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>',
        *(
            f'<circle cx="{18 + 18 * place}" cy="15" r="5" fill="{colour}"/>'
            for place, colour in enumerate(("#ff7b72", "#e3b341", "#7ee787"))
        ),
        f'<g font-family="{FONT}" font-size="13" xml:space="preserve">',
    ]
    for number, row in enumerate(rows):
        drawn += _row(row, BAR_PIXELS + number * ROW_PIXELS + 14)
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def _runs(line: str) -> list[tuple[str, Style]]:
    """The parts of a line, each with its style. Every line begins plain."""
    runs: list[tuple[str, Style]] = []
    style = Style()
    pieces = SGR.split(line)
    for text, codes in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        if text:
            runs.append((text, style))
        style = _after(style, codes)
    return runs


def _after(style: Style, codes: str) -> Style:
    for code in (int(one or 0) for one in codes.split(";")):
        match code:
            case 0:
                style = Style()
            case 1:
                style = style._replace(bold=True)
            case 2:
                style = style._replace(faint=True)
            case 39:
                style = style._replace(colour=PLAIN)
            case _:
                style = style._replace(colour=COLOURS.get(code, style.colour))
    return style


def _row(row: list[tuple[str, Style]], base: int) -> list[str]:
    drawn, column = [], 0
    for text, style in row:
        # Words apart, with their own places: a viewer may fold spaces, and then nothing shifts.
        for word in re.finditer(r"\S+(?: \S+)*", text):
            left = BORDER_PIXELS + (column + word.start()) * COLUMN_PIXELS
            look = f'fill="{style.colour}"' + ' font-weight="bold"' * style.bold + ' opacity="0.7"' * style.faint
            length = len(word[0]) * COLUMN_PIXELS
            drawn.append(f'<text x="{left}" y="{base}" {look} textLength="{length}">{escape(word[0])}</text>')
        column += len(text)
    return drawn
