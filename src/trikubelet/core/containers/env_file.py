"""Files of environment variables, which one container writes into a volume for another (``fileKeyRef``).

The format is a small part of what a POSIX shell reads, so that both read it alike (KEP-3721, as of 1.35):

    # a comment, or an empty line
    NAME='value'   # in single quotes always; everything up to the next quote counts as it stands, line ends too

There is no escaping, no expansion, and no space around the ``=``. Of two values of one name the first counts, and what
stands behind it is not looked at.
"""

from __future__ import annotations

import re
from typing import Final

BYTES_MAX: Final = 64 * 1024
"""Of a whole file (KEP-3721)."""

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_NAME = re.compile(r"([^=\n]*)=")
_REST = re.compile(r"[ \t\r]*(?:(?<=[ \t])#[^\n]*)?(?:\n|\Z)")


def value_of(text: str, key: str) -> str | None:
    """The value of that name, None where the file has none. Raises ValueError for the first line, up to the one that
    has it, that is not in the format."""
    at = _past(_SKIPPED, text, 0)
    while at < len(text):
        named = _NAME.match(text, at)
        if named is None or not named[1]:
            raise ValueError(_wrong(text, at, "it is not NAME='value'"))
        if named[1] != named[1].rstrip():
            raise ValueError(_wrong(text, at, "whitespace before '=' is not allowed"))
        opened = named.end()
        if text[opened : opened + 1] != "'":
            raise ValueError(_wrong(text, at, "value must be enclosed in single quotes"))
        closed = text.find("'", opened + 1)
        if closed < 0:
            raise ValueError(_wrong(text, at, "the closing quote is missing"))
        if _REST.match(text, closed + 1) is None:
            raise ValueError(_wrong(text, closed, "unexpected content after closing quote"))
        if named[1] == key:
            return text[opened + 1 : closed]
        at = _past(_SKIPPED, text, _past(_REST, text, closed + 1))
    return None


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    matched = pattern.match(text, at)
    return at if matched is None else matched.end()


def _wrong(text: str, at: int, what: str) -> str:
    """Names the line, and nothing of what stands there: it may be a secret."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}: {what}"
