"""Compares a document with a type and finds all mismatches in one walk, with field paths and lines.

The types are msgspec structs, generated (``model.k8s``) or written by hand (configurations). msgspec's own decoder
stops at the first fault and ignores unknown fields, which is too little for a user with a bad manifest. The types are:

    str, int, float, bool, object      as in JSON; an int is whole and fits 64 bits; object takes anything
    X | None, X | Y                    a union chooses by what was written, so its members must be of different kinds
    Literal[...], Enum                 one of the values
    tuple[X, ...], dict[str, X]        lists and objects with free keys
    a struct                           an object with the struct's fields, by their names on the wire
    Annotated[X, Scalar(parse, what)]  a scalar with a written form of its own, see ``model.scalar``
    NewType                            as what it was made from

``null`` for a member means that it is absent. The validations check if values make sense together.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NewType, TypeVar, Union, cast, get_args, get_origin

import msgspec

from trikubelet.core.document.shown import SHOWN_CHARS_MAX, shown
from trikubelet.core.field_path import item_path, member_path
from trikubelet.model.api_names import fields_of
from trikubelet.model.faults import Fault, nearest
from trikubelet.model.frozen import Frozen
from trikubelet.model.scalar import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.core.document import Document

T = TypeVar("T")

UNKNOWN_FIELD = "unknown field"
"""The problem of a member that the type does not have, for callers that allow it."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_KINDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


class Examined(Frozen, Generic[T]):
    """A document's value of a type, and all faults. ``value`` has empty values at the places of faults: it may only be
    used to find more faults."""

    value: T
    faults: tuple[Fault, ...]


def decode(document: Document, type_: type[T]) -> tuple[T | None, list[Fault]]:
    """Return the document as a ``type_``; None with all faults of its shape."""
    examined = examine(document, type_)
    return (None if examined.faults else examined.value), list(examined.faults)


def examine(document: Document, type_: type[T]) -> Examined[T]:
    """Return the same for callers that go on to find faults of meaning."""
    walk = _Walk(document)
    value = _reader(cast("Any", type_)).read(walk, document.value, "")
    return Examined(cast("T", value), tuple(walk.faults))


class _Walk:
    """The faults found so far."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.faults: list[Fault] = []

    def written(self, path: str) -> str:
        """Return the author's own text of a value that YAML converts to another; "" if it does not."""
        return self._document.written_at(path)[:SHOWN_CHARS_MAX]

    def fault(self, path: str, problem: str, remedy: str = "") -> None:
        self.faults.append(Fault(self._document.source, self._document.line(path), path, problem, remedy))


class _Reader:
    """Reads values of one type. ``kinds``: the accepted JSON types; ``what``: their name in faults."""

    kinds: tuple[type, ...] = ()
    what: str = ""

    def read(self, walk: _Walk, value: object, path: str) -> object:
        """Return the value as the type requires it. After a fault, an empty value of that type."""
        if type(value) in self.kinds:
            return self.take(walk, value, path)
        if type(value) is int and float in self.kinds:
            return self.take(walk, float(value), path)
        written = walk.written(path)
        remedy = _type_remedy(value, self.kinds, written)
        walk.fault(path, f"Invalid value: {written or shown(value)}: must be {self.what}", remedy)
        return self.empty()

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        """Return the value, which is of one of the kinds."""
        raise NotImplementedError

    def empty(self) -> object:
        """Return the value for the place of a fault."""
        raise NotImplementedError


class _Plain(_Reader):
    def __init__(self, kind: type) -> None:
        self.kinds = (kind,)
        self.what = _KINDS[kind]
        self._kind = kind

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        if self._kind is int and not _INT64_MIN <= value <= _INT64_MAX:
            walk.fault(path, f"Invalid value: {shown(value)}: must fit into 64 bits")
            return 0
        return value

    def empty(self) -> object:
        return self._kind()


class _Anything(_Reader):
    def read(self, walk: _Walk, value: object, path: str) -> object:
        return value

    def empty(self) -> object:
        return None


class _Choice(_Reader):
    """Literal and Enum: the written forms, and their values."""

    def __init__(self, choices: dict[object, object]) -> None:
        self._choices = choices
        self.kinds = tuple({type(choice) for choice in choices})
        self.what = _one_of(choices)

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        if value in self._choices:
            return self._choices[value]
        remedy = nearest(value, [c for c in self._choices if isinstance(c, str)]) if isinstance(value, str) else ""
        walk.fault(path, f"Unsupported value: {shown(value)}: must be {self.what}", remedy)
        return self.empty()

    def empty(self) -> object:
        return next(iter(self._choices.values()))


class _Written(_Reader):
    """A scalar with its own written form."""

    def __init__(self, scalar: Scalar, underlying: _Reader) -> None:
        self.kinds = scalar.accepts
        self.what = scalar.what
        self._parse = scalar.parse
        self._underlying = underlying

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        try:
            return self._parse(value)
        except ValueError as wrong:
            walk.fault(path, f"Invalid value: {shown(value)}: {wrong}")
            return self.empty()

    def empty(self) -> object:
        return self._underlying.empty()


class _Optional(_Reader):
    def __init__(self, inner: _Reader) -> None:
        self._inner = inner
        self.kinds = (*inner.kinds, NoneType)
        self.what = inner.what

    def read(self, walk: _Walk, value: object, path: str) -> object:
        return None if value is None else super().read(walk, value, path)

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        return self._inner.take(walk, value, path)

    def empty(self) -> object:
        return None


class _OneOf(_Reader):
    """A union; the first member that takes the kind of value reads it."""

    def __init__(self, members: list[_Reader]) -> None:
        self._members = members
        self.kinds = tuple(kind for member in members for kind in member.kinds)
        self.what = " or ".join(member.what for member in members)

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        return next(member for member in self._members if type(value) in member.kinds).take(walk, value, path)

    def empty(self) -> object:
        return self._members[0].empty()


class _List(_Reader):
    kinds = (list,)
    what = _KINDS[list]

    def __init__(self, item: _Reader) -> None:
        self._item = item

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        return tuple(_held(self._item, walk, item, item_path(path, n)) for n, item in enumerate(value))

    def empty(self) -> object:
        return ()


class _Map(_Reader):
    kinds = (dict,)
    what = _KINDS[dict]

    def __init__(self, item: _Reader) -> None:
        self._item = item

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        return {key: _held(self._item, walk, item, item_path(path, key)) for key, item in value.items()}

    def empty(self) -> object:
        return {}


def _held(reader: _Reader, walk: _Walk, item: object, path: str) -> object:
    """Return an item of a list or map. An empty string may be written as nothing at all there, as in ``labels: {a:
    }``."""
    return "" if item is None and reader.kinds == (str,) else reader.read(walk, item, path)


class _Struct(_Reader):
    kinds = (dict,)
    what = _KINDS[dict]

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        self._type = type_

    def take(self, walk: _Walk, value: Any, path: str) -> object:
        fields = _fields(self._type)
        read: dict[str, object] = {}
        for name, item in value.items():
            inner = member_path(path, name)
            field = fields.get(name)
            if field is None:
                walk.fault(inner, UNKNOWN_FIELD, nearest(name, fields) or "remove it, or move it where it belongs")
            elif item is not None:
                read[field.attribute] = field.reader.read(walk, item, inner)
        for name, field in fields.items():
            if field.required and field.attribute not in read:
                walk.fault(member_path(path, name), "Required value", f"add {name} here")
                read[field.attribute] = field.reader.empty()
        return self._type(**read)

    def empty(self) -> object:
        required = [field for field in _fields(self._type).values() if field.required]
        return self._type(**{field.attribute: field.reader.empty() for field in required})


class _Field(Frozen):
    attribute: str
    reader: _Reader
    required: bool


@cache
def _fields(type_: type[msgspec.Struct]) -> dict[str, _Field]:
    """Return a struct's fields by their names on the wire."""
    return {name: _Field(field.name, _reader(field.type), field.required) for name, field in fields_of(type_).items()}


@cache
def _reader(type_: Any) -> _Reader:
    """Return the reader of a type. Raises TypeError for unsupported types."""
    if isinstance(type_, NewType):
        return _reader(type_.__supertype__)
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is not None:
        return _READERS_OF_FORMS[origin](arguments)
    if type_ in (object, Any):
        return _Anything()
    if type_ in (str, int, float, bool):
        return _Plain(type_)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return _Struct(type_)
    if isinstance(type_, type) and issubclass(type_, Enum):
        return _Choice({member.value: member for member in type_})
    raise TypeError(f"the walk does not know {type_!r}")


def _union(arguments: tuple[Any, ...]) -> _Reader:
    members = [_reader(argument) for argument in arguments if argument is not NoneType]
    inner = members[0] if len(members) == 1 else _OneOf(members)
    return _Optional(inner) if NoneType in arguments else inner


def _annotated(arguments: tuple[Any, ...]) -> _Reader:
    underlying, *notes = arguments
    scalar = next((note for note in notes if isinstance(note, Scalar)), None)
    return _reader(underlying) if scalar is None else _Written(scalar, _reader(underlying))


_READERS_OF_FORMS: dict[Any, Callable[[tuple[Any, ...]], _Reader]] = {
    UnionType: _union,
    Union: _union,
    Annotated: _annotated,
    Literal: lambda arguments: _Choice({argument: argument for argument in arguments}),
    tuple: lambda arguments: _List(_reader(arguments[0])),
    dict: lambda arguments: _Map(_reader(arguments[1])),
}


def _one_of(choices: dict[object, object]) -> str:
    listed = [shown(choice) for choice in choices]
    return listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"


def _type_remedy(value: object, kinds: tuple[type, ...], written: str) -> str:
    """Return the remedy for the commonest mistakes."""
    if isinstance(value, (bool, int, float)) and str in kinds:
        return f'put it in quotes: "{written}"' if written else "put it in quotes"
    if isinstance(value, str) and (int in kinds or bool in kinds):
        return "write it without quotes"
    if value is None:
        return "give it a value or remove it"
    if list in kinds and value is not None:
        return 'begin each item with "- "'
    return ""
