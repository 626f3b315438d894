"""JSONPath templates like kubectl's: ``{.items[*].metadata.name}``, text around them, and ``{range …}…{end}``.

    template ─► parts: text, a path, or a range over a path with parts of its own ─► render(parts, value) ─► text

A path is a sequence of steps, each of which turns a list of values into another: ``.name`` (dots in names escaped by a
backslash), ``['name']``, ``..name`` (at any depth), ``*``, ``[2]``, ``[-1:]``, ``[a,b]`` and ``[?(@.type=="Ready")]``.
A missing field yields nothing, but an index beyond a list is an error, like in ``kubectl get``. Several values are
separated by blanks; objects and lists are JSON.
"""

from __future__ import annotations

import json
import operator
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Step: TypeAlias = Callable[[list[Any]], list[Any]]
    Part: TypeAlias = "str | Path | Range"

_BRACES: Final = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*)\}""")
_FIELD: Final = re.compile(r"(\.\.?)((?:\\.|[^\s.\[\](){}'\",=!<>\\])+)")
_BRACKET: Final = re.compile(r"""\[((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[[^\]]*\]|[^\[\]"'])*)\]""")
_FILTER: Final = re.compile(r"\?\(\s*(.+?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?\)", re.DOTALL)
_SLICE: Final = re.compile(r"(-?\d*):(-?\d*)(?::(\d*))?")
_RELAXED: Final = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")
"""Upstream's get.RelaxedJSONPathExpression."""
_LISTS: Final = (list, tuple)
"""Our records, converted to builtins, have tuples."""
_COMPARE: Final = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class OutOfBounds(Exception):
    """A list is shorter than a template's index or slice."""


class Path(msgspec.Struct, frozen=True):
    """A sequence of steps."""

    steps: tuple[Step, ...]

    def of(self, value: Any) -> list[Any]:
        """Return the values that the path selects. Raises OutOfBounds."""
        found = [value]
        for step in self.steps:
            found = step(found)
        return found


class Range(msgspec.Struct, frozen=True):
    """Parts that are rendered once for each value of a path."""

    over: Path
    body: tuple[Part, ...]


def parse_template(text: str) -> tuple[Part, ...]:
    """Return the parts of a template. Raises ValueError with the part that cannot be parsed."""
    open_ranges: list[tuple[Path, list[Part]]] = []
    parts: list[Part] = []
    place = 0
    for found in _BRACES.finditer(text):
        parts += _between(text[place : found.start()])
        place = found.end()
        words = found[1].strip()
        if words == "end":
            if not open_ranges:
                raise ValueError("{end} without a {range}")
            over, outer = open_ranges.pop()
            parts = [*outer, Range(over, tuple(parts))]
        elif words.startswith("range "):
            open_ranges.append((_path(words.removeprefix("range ").strip()), parts))
            parts = []
        else:
            parts.append(_literal(words) if words[:1] in "'\"" and words else _path(words))
    parts += _between(text[place:])
    if open_ranges:
        raise ValueError("a {range} without its {end}")
    return tuple(parts)


def parse_relaxed(text: str) -> Path:
    """Return the path of an expression whose braces and leading dot are optional, as kubectl's ``--sort-by`` and
    ``custom-columns`` accept it: ``metadata.name``, ``.metadata.name``, ``{.metadata.name}``. Raises ValueError."""
    found = _RELAXED.fullmatch(text.strip())
    if found is None:
        forms = "'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'"
        raise ValueError(f"unexpected path string, expected a {forms}")
    return _path(f".{found[1] or found[2]}")


def render(parts: Sequence[Part], value: Any) -> str:
    """Return the template's text for a JSON value. Raises OutOfBounds."""
    return "".join(_rendered(parts, value))


def _rendered(parts: Sequence[Part], value: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Path):
            yield " ".join(map(_shown, part.of(value)))
        else:
            for one in part.over.of(value):
                yield from _rendered(part.body, one)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _between(text: str) -> list[Part]:
    if "{" in text or "}" in text:
        raise ValueError(f"{text.strip()!r}: a brace without its other half")
    return [text] if text else []


def _literal(quoted: str) -> str:
    """Return a quoted text with its escapes resolved."""
    if len(quoted) < 2 or quoted[0] != quoted[-1]:
        raise ValueError(f"{quoted}: a quote without its other half")
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), quoted[1:-1])


def _path(text: str) -> Path:
    """Return the steps of a path; a leading ``$`` or ``@`` means the current value. Raises ValueError."""
    steps: list[Step] = []
    rest = text.removeprefix("$").removeprefix("@")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    while rest and rest != ".":
        if found := _BRACKET.match(rest.removeprefix(".") if rest.startswith(".[") else rest):
            steps.append(_bracket(found[1].strip()))
            rest = rest.removeprefix(".")[found.end() :] if rest.startswith(".[") else rest[found.end() :]
        elif found := _FIELD.match(rest):
            if found[1] == "..":
                steps.append(_everything)
            name = re.sub(r"\\(.)", r"\1", found[2])
            steps.append(_children if found[2] == "*" else partial(_field, name))
            rest = rest[found.end() :]
        else:
            raise ValueError(f"{text!r}: {rest!r} is no step of a path")
    return Path(tuple(steps))


def _bracket(text: str) -> Step:
    if text == "*":
        return _children
    if found := _FILTER.fullmatch(text):
        return partial(_filtered, _operand(found[1]), found[2], _operand(found[3]) if found[3] else None)
    if found := _SLICE.fullmatch(text):
        return partial(_sliced, slice(*(int(part) if part else None for part in found.groups())))
    if re.fullmatch(r"-?\d+(\s*,\s*-?\d+)*", text):
        return partial(_indexed, [int(part) for part in text.split(",")])
    names = [_literal(part.strip()) if part.strip()[:1] in ("'", '"') else part.strip() for part in text.split(",")]
    if not all(names):
        raise ValueError(f"[{text}] selects nothing")
    return lambda values: [one for name in names for one in _field(name, values)]


def _operand(text: str) -> Path:
    """Return one side of a comparison as a path: a constant is a path to itself."""
    if text.startswith(("@", "$", ".")):
        return _path(text)
    try:
        value = _literal(text) if text[0] in "'\"" else json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f"{text!r} is neither a path, a number nor a quoted text") from None
    return Path((lambda _: [value],))


def _field(name: str, values: list[Any]) -> list[Any]:
    return [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += value.values() if isinstance(value, dict) else value if isinstance(value, _LISTS) else []
    return found


def _everything(values: list[Any]) -> list[Any]:
    found = list(values)
    for value in found:
        found += _children([value])
    return found


def _indexed(indexes: list[int], values: list[Any]) -> list[Any]:
    lists = [value for value in values if isinstance(value, _LISTS)]
    return [_element(value, index) for value in lists for index in indexes]


def _element(value: Sequence[Any], index: int) -> Any:
    place = index if index >= 0 else len(value) + index  # kubectl reports this one, too
    _require(place, value)
    return value[place]


def _require(place: int, value: Sequence[Any]) -> None:
    if not 0 <= place < len(value):
        raise OutOfBounds(f"array index out of bounds: index {place}, length {len(value)}")


def _sliced(bounds: slice, values: list[Any]) -> list[Any]:
    return [one for value in values if isinstance(value, _LISTS) for one in _part(value, bounds)]


def _part(value: Sequence[Any], bounds: slice) -> Sequence[Any]:
    """Return a slice like kubectl: an empty list yields nothing, whatever the bounds; else the first and last element
    must exist, the bounds must be in order, and the step must be positive, checked in this order."""
    start, end = (place if place is None or place >= 0 else len(value) + place for place in (bounds.start, bounds.stop))
    start, end = start or 0, len(value) if end is None else end
    if start == end:
        return ()
    _require(start, value)
    if end != 0:
        _require(end - 1, value)
    if start > end:
        raise OutOfBounds(f"starting index {start} is greater than ending index {end}")
    if bounds.step == 0:
        raise OutOfBounds("the step must be more than 0")
    return value[start : end : bounds.step]


def _filtered(left: Path, compare: str | None, right: Path | None, values: list[Any]) -> list[Any]:
    if compare is None or right is None:
        return [one for one in _children(values) if _is_there(left, one)]
    return [one for one in _children(values) if _holds(left.of(one), compare, right.of(one))]


def _is_there(path: Path, value: Any) -> bool:
    try:
        return bool(path.of(value))
    except OutOfBounds:
        return False


def _holds(left: list[Any], compare: str, right: list[Any]) -> bool:
    try:
        return any(_COMPARE[compare](one, other) for one in left for other in right)
    except TypeError:  # a text and a number cannot be compared
        return False
