"""Reads JSON and remembers lines: a small recursive parser, because the standard one does not keep positions.

A text may hold several values one after another. After a syntax error nothing more can be trusted, so it ends the
reading; duplicate keys do not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from json import JSONDecodeError, JSONDecoder
from math import isinf
from typing import TYPE_CHECKING

from trikubelet.core.document.record import DEPTH_MAX, PATH_TOO_LONG, Document, duplicate_key, is_path_too_long
from trikubelet.core.field_path import Place, path_of, place_of
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

DIGITS_MAX = 400
"""The limit for the length of a number; a longer one is never meant, and costs quadratic time to read."""

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = re.compile(r"true|false|null")
_STRINGS = JSONDecoder()


class _Syntax(Exception):
    """A syntax error and its position. Caught in ``read``."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position


def read(text: str, source: str, documents: list[Document], faults: list[Fault]) -> None:
    """Add the text's documents and faults to the lists."""
    newlines = [match.start() for match in re.finditer("\n", text)]

    def line_at(position: int) -> int:
        return bisect_right(newlines, position - 1) + 1

    position = _skip(text, 0)
    while position < len(text):
        reader = _Reader(text, line_at)
        try:
            reader.lines[()] = line_at(position)
            value, position = reader.value(position, ())
        except _Syntax as wrong:
            problem = f"this is not JSON: {wrong.problem}"
            faults.append(Fault(source, line_at(wrong.position), "", problem, "correct the syntax"))
            return
        doubles = [duplicate_key(source, *double) for double in reader.duplicates]
        doubted = frozenset(place_of(double.path) for double in doubles)
        unread = frozenset(place_of(path_of(place)) for place in reader.unread)
        documents.append(Document(value, source, len(documents), reader.lines, doubted, unread))
        faults += doubles
        faults += [
            Fault(source, reader.lines[place], path_of(place), problem) for place, problem in reader.unread.items()
        ]
        position = _skip(text, position)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


class _Reader:
    """The reading of one value: the lines seen and the duplicate keys."""

    def __init__(self, text: str, line_at: Callable[[int], int]) -> None:
        self._text = text
        self._line_at = line_at
        self.lines: dict[Place, int] = {}
        self.duplicates: list[tuple[Place, int, int]] = []
        """The key, and the lines of its first and its other occurrence."""
        self.unread: dict[Place, str] = {}
        """Faults of single values that do not affect their neighbours."""

    def value(self, position: int, place: Place) -> tuple[object, int]:
        """Return the value that begins at ``position``, and its end. A member of an object has the line of its key."""
        if len(place) > DEPTH_MAX:
            raise _Syntax(f"it is nested deeper than {DEPTH_MAX} levels", position)
        start = self._text[position : position + 1]
        if start == "{":
            return self._object(position + 1, place)
        if start == "[":
            return self._array(position + 1, place)
        if start == '"':
            return self._string(position)
        if word := _WORD.match(self._text, position):
            return _WORDS[word[0]], word.end()
        if number := _NUMBER.match(self._text, position):
            return self._number(number, place), number.end()
        raise self._unexpected("a value", position)

    def _object(self, position: int, place: Place) -> tuple[object, int]:
        found: dict[str, object] = {}
        position = _skip(self._text, position)
        if self._text.startswith("}", position):
            return found, position + 1
        while True:
            if not self._text.startswith('"', position):
                raise self._unexpected("a key in double quotes", position)
            line = self._line_at(position)
            begin = position
            key, position = self._string(position)
            inner = (*place, key)
            if is_path_too_long(inner):
                raise _Syntax(PATH_TOO_LONG, begin)
            if key in found:
                self.duplicates.append((inner, self.lines[inner], line))
            self.lines[inner] = line
            position = self._expect(":", position)
            found[key], position = self.value(position, inner)
            position, ended = self._comma_or("}", position)
            if ended:
                return found, position

    def _array(self, position: int, place: Place) -> tuple[object, int]:
        found: list[object] = []
        position = _skip(self._text, position)
        if self._text.startswith("]", position):
            return found, position + 1
        while True:
            inner = (*place, str(len(found)))
            self.lines[inner] = self._line_at(position)
            value, position = self.value(position, inner)
            found.append(value)
            position, ended = self._comma_or("]", position)
            if ended:
                return found, position

    def _string(self, position: int) -> tuple[str, int]:
        try:
            found, end = _STRINGS.raw_decode(self._text, position)
        except JSONDecodeError as wrong:
            raise _Syntax(wrong.msg[0].lower() + wrong.msg[1:], wrong.pos) from None
        # Half of a surrogate pair is no character; Go's reader, which other tools use, replaces it, too.
        return str(found).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), end

    def _number(self, match: re.Match[str], place: Place) -> int | float | None:
        if len(match[0]) > DIGITS_MAX:
            self.unread[place] = f"a number of more than {DIGITS_MAX} characters"
            return None
        if not (match[1] or match[2]):
            return int(match[0])
        number = float(match[0])
        if isinf(number):
            self.unread[place] = f"{match[0]} is larger than any number that can be kept"
            return None
        return number

    def _expect(self, mark: str, position: int) -> int:
        """Return the position after the mark and the space around it."""
        position = _skip(self._text, position)
        if not self._text.startswith(mark, position):
            raise self._unexpected(f'"{mark}"', position)
        return _skip(self._text, position + 1)

    def _comma_or(self, end: str, position: int) -> tuple[int, bool]:
        """Return the position after the comma or the end mark; True for the end mark."""
        position = _skip(self._text, position)
        if self._text.startswith(end, position):
            return position + 1, True
        if not self._text.startswith(",", position):
            raise self._unexpected(f'"," or "{end}"', position)
        return _skip(self._text, position + 1), False

    def _unexpected(self, wanted: str, position: int) -> _Syntax:
        if position >= len(self._text):
            return _Syntax(f"the text ends where {wanted} should stand", position)
        return _Syntax(f"{self._text[position]!r} where {wanted} should stand", position)
