"""Files of environment variables that one container writes into a volume for another (``fileKeyRef``).

The format is a small subset of a POSIX shell's, so that both read it alike (KEP-3721, with the rules of 1.38, by which
a value after a blank is a fault; up to 1.37 it was dropped silently):

    # a comment, or an empty line
    NAME='value'   # always in single quotes; everything up to the next quote is literal, line ends too
    NAME=  # nothing: a blank after the equals sign ends the value

There is no escaping, no expansion, and no space before the ``=``. The first value of a name counts; text after a value
is ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import field

from trikubelet.model.frozen import Discreet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

BYTES_MAX: Final = 64 * 1024
"""The limit for a whole file (KEP-3721)."""

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_NAME = re.compile(r"([^=\n]*)=")
_REST = re.compile(r"[ \t\r]*(?:(?<=[ \t])#[^\n]*)?(?:\n|\Z)")


class EnvFile(Discreet):
    """The requested values of a file, and no more: it may be large, and must not be kept in memory."""

    hidden = ("values",)

    values: Mapping[str, str] = field(default_factory=dict)
    wrong: str = ""
    """Why reading stopped after those values; "" if it read all, or as much as was requested."""
    size: int = 0
    """The number of bytes read."""


def read_env_file(content: bytes, keys: Collection[str]) -> EnvFile:
    """Return the values of those names, found in one pass over the file. It ends at the last of them, or at the first
    malformed line."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return EnvFile(wrong="it is not UTF-8", size=len(content))
    wanted, values, wrong = set(keys), dict[str, str](), ""
    try:
        for name, value in _assignments(text):
            if name in wanted:
                values.setdefault(name, value)
            if len(values) == len(wanted):
                break
    except ValueError as error:
        wrong = str(error)
    return EnvFile(values, wrong, len(content))


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values as written. Raises ValueError for the first malformed line."""
    at = _past(_SKIPPED, text, 0)
    while at < len(text):
        named = _NAME.match(text, at)
        if named is None or not named[1]:
            raise ValueError(_wrong(text, at, "it is not NAME='value'"))
        if named[1] != named[1].rstrip():
            raise ValueError(_wrong(text, at, "whitespace before '=' is not allowed"))
        opened = named.end()
        if text[opened : opened + 1] in (" ", "\t"):
            if _REST.match(text, opened) is None:
                raise ValueError(_wrong(text, at, "unexpected content after whitespace following '='"))
            yield named[1], ""
            at = _past(_SKIPPED, text, _past(_REST, text, opened))
            continue
        if text[opened : opened + 1] != "'":
            raise ValueError(_wrong(text, at, "value must be enclosed in single quotes"))
        closed = text.find("'", opened + 1)
        if closed < 0:
            raise ValueError(_wrong(text, at, "the closing quote is missing"))
        if _REST.match(text, closed + 1) is None:
            raise ValueError(_wrong(text, closed, "unexpected content after closing quote"))
        yield named[1], text[opened + 1 : closed]
        at = _past(_SKIPPED, text, _past(_REST, text, closed + 1))


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    matched = pattern.match(text, at)
    return at if matched is None else matched.end()


def _wrong(text: str, at: int, what: str) -> str:
    """Return an error that names the line without its content, which may be a secret."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}: {what}"
