"""``$(VAR)`` in commands, arguments, environment values and paths.

A reference to a known name becomes its value; one to an unknown name stays as written. ``$$`` is one dollar sign and
escapes a reference (upstream: third_party/forked/golang/expansion). The result is counted piece by piece before it is
joined, because values refer to values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.core.containers.allowance import Allowance


def expand(text: str, values: Mapping[str, str], allowance: Allowance, where: str) -> str:
    """Replace every reference in ``text``. Raises ValueError, which names ``where``, if that makes too much."""
    # References have a name; escaped dollar signs come without one.
    pieces = (piece if name is None else values.get(name, piece) for piece, name in _pieces(text))
    return "".join(allowance.counted(piece, where) for piece in pieces)


def without_value(text: str, values: Mapping[str, str]) -> list[str]:
    """Return the names that ``text`` refers to and that are unknown, or empty; sorted."""
    names = {name for _, name in _pieces(text) if name is not None}
    return sorted(name for name in names if not values.get(name))


def _pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the text in pieces: literal text without a name, references as written with their name. Takes linear time
    for any text: a missing parenthesis is searched only once."""
    start = at = 0
    closing = 0
    while (at := text.find("$", at)) >= 0:
        follows = text[at + 1 : at + 2]
        if follows == "(" and closing >= 0 and (closing := text.find(")", at)) >= 0:
            yield text[start:at], None
            yield text[at : closing + 1], text[at + 2 : closing]
            start = at = closing + 1
        elif follows == "$":
            yield text[start : at + 1], None
            start = at = at + 2
        else:
            at += 1
    yield text[start:], None
