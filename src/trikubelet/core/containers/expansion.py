"""``$(VAR)`` in commands, arguments, environment values and paths.

A reference to a name that is known becomes its value; one that is not stays as it is written. ``$$`` is one dollar sign
and keeps what follows from being a reference (upstream: third_party/forked/golang/expansion). What comes of it is
counted piece by piece before it is joined, for values refer to values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.core.containers.allowance import Allowance


def expand(text: str, values: Mapping[str, str], allowance: Allowance, where: str) -> str:
    """Replace every reference in ``text``. Raises ValueError, which names ``where``, if that makes too much."""
    # Named references are replaced, escaped dollar signs come without a name.
    pieces = (piece if name is None else values.get(name, piece) for piece, name in _pieces(text))
    return "".join(allowance.counted(piece, where) for piece in pieces)


def without_value(text: str, values: Mapping[str, str]) -> list[str]:
    """The names that ``text`` refers to and that are not known, or empty; sorted."""
    names = {name for _, name in _pieces(text) if name is not None}
    return sorted(name for name in names if not values.get(name))


def _pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """The text in pieces, each as it stands there without a reference, and as it is written with the name it refers
    to. Takes as long as the text is, whatever stands in it: a parenthesis that does not come is looked for once."""
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
