"""What a Markdown page links to, and the anchors that its headings make, by GitHub's rules.

Used by dead_links.py and by build_site.py, which makes the same anchors. Code, fenced or not, holds no links.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_CODE: Final = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK: Final = re.compile(r"\]\(\s*<?(?P<target>[^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINED: Final = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(?P<target>[^\s>]+)")
_QUOTED: Final = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"(?P<target>[^\"]+)\"")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s+(?P<text>.*?)\s*#*\s*$")
_NAMED: Final = re.compile(r"<a\b[^>]*?\b(?:id|name)=\"(?P<name>[^\"]+)\"")


class Link(NamedTuple):
    """A link of a page, and the line it begins in, from 1."""

    line: int
    target: str


def links(text: str) -> Iterator[Link]:
    """Each link and picture of a page."""
    for number, line in _lines_outside_fences(text):
        bare = _CODE.sub(lambda code: " " * len(code[0]), line)
        for pattern in (_LINK, _DEFINED, _QUOTED):
            for found in pattern.finditer(bare):
                yield Link(number, found["target"])


def anchors(text: str) -> set[str]:
    """The names that a link to the page may have behind its ``#``."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for _, line in _lines_outside_fences(text):
        found.update(named["name"] for named in _NAMED.finditer(line))
        if heading := _HEADING.match(line):
            name = slug(heading["text"])
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return found


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading: its text in small letters without markup and punctuation, spaces as dashes."""
    shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", separator)


def _lines_outside_fences(text: str) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if opened := _FENCE.match(line):
            if not fence:
                fence = opened[1]
            elif opened[1].startswith(fence):
                fence = ""
        elif not fence:
            yield number, line
