"""Merges the layers of a configuration, and remembers the origin of every value.

A layer is a JSON merge patch (RFC 7386) over those before it: objects are merged member by member, lists are replaced,
``null`` removes a member. Flags are the last layer and replace whole fields, except feature gates, which are separate
settings. The result is one document without lines; ``Merged`` knows the origin of each of its leaves.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from trikubelet.core.field_path import Place, path_of, place_of
from trikubelet.model.api_names import fields_of
from trikubelet.model.duration import parse_duration
from trikubelet.model.faults import Fault
from trikubelet.model.frozen import Frozen
from trikubelet.model.kubelet_configuration import ZERO_IS_A_VALUE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.core.document import Document

_WORD = re.compile(r"\w+")


class FieldSetting(Frozen):
    """A field set by a flag: its place in the configuration, the value as JSON would have it, and the flag's name with
    its dashes."""

    place: Place
    value: object
    flag: str


class Origin(Frozen):
    """The origin of a value: a flag, or a line of a file."""

    source: str
    line: int | None

    def __str__(self) -> str:
        return f"flag {self.source}" if self.line is None else f"{self.source}:{self.line}"


class Merged(Frozen):
    """All layers as one value, and the origin of each of its leaves (scalars, lists, empty objects)."""

    value: dict[str, Any]
    origins: Mapping[Place, Origin]

    def given(self) -> tuple[Place, ...]:
        """The places of all leaves, in the order they were given."""
        return tuple(self.origins)

    def provenance(self) -> dict[str, str]:
        """Return the origins by field path, in words."""
        return {path_of(place): str(origin) for place, origin in self.origins.items()}

    def placed(self, fault: Fault) -> Fault:
        """Return a fault of the merged value at the place that its author can edit: a line of a file or a flag.

        A field that was not given can still be wrong because of one that was; then the fault's text names that one.
        """
        place = place_of(fault.path)
        for length in range(len(place), 0, -1):
            for leaf, origin in self.origins.items():
                if leaf[:length] == place[:length]:
                    path = fault.path if origin.line is not None else ""
                    return replace(fault, source=origin.source, line=origin.line, path=path)
        words = set(_WORD.findall(fault.problem))
        for leaf, origin in self.origins.items():
            if leaf[0] in words:
                return replace(fault, source=origin.source, line=origin.line)
        return replace(fault, source="the configuration")


def merge(documents: Sequence[Document], flags: Sequence[FieldSetting]) -> Merged:
    """Merge documents, whose values are objects, and then the flags."""
    value: dict[str, Any] = {}
    origins: dict[Place, Origin] = {}
    for document in documents:
        assert isinstance(document.value, dict)
        _patch(value, document.value, (), document, origins)
    for setting in flags:
        _set(value, setting.place, setting.value)
        _forget(origins, setting.place)
        origins[setting.place] = Origin(setting.flag, None)
    for name in ("apiVersion", "kind"):
        origins.pop((name,), None)  # the type of a document, not a setting
    return Merged(value, origins)


def _patch(
    target: dict[str, Any], patch: dict[str, Any], place: Place, document: Document, origins: dict[Place, Origin]
) -> None:
    for name, value in patch.items():
        inner = (*place, name)
        if isinstance(value, dict) and value:
            if not isinstance(target.get(name), dict):
                target[name] = {}
                _forget(origins, inner)
            origins.pop(inner, None)
            _patch(target[name], value, inner, document, origins)
            if not target[name]:  # it contained only nulls
                origins[inner] = Origin(document.source, document.line(path_of(inner)) or 1)
            continue
        if value == {} and isinstance(target.get(name), dict):
            continue
        _forget(origins, inner)
        if value is None:
            target.pop(name, None)
        else:
            target[name] = value
            origins[inner] = Origin(document.source, document.line(path_of(inner)) or 1)


def _set(target: dict[str, Any], place: Place, value: object) -> None:
    for name in place[:-1]:
        inner = target.get(name)
        if not isinstance(inner, dict):
            inner = target[name] = {}
        target = inner
    target[place[-1]] = value


def _forget(origins: dict[Place, Origin], place: Place) -> None:
    for other in [other for other in origins if other[: len(place)] == place]:
        del origins[other]


def without_zeros(document: Document, type_: type[msgspec.Struct]) -> Document:
    """Return the document without the members whose zero means "the default". See ``ZERO_IS_A_VALUE``."""
    return replace(document, value=_pruned(document.value, type_, ""))


def _pruned(value: object, type_: type[msgspec.Struct], prefix: str) -> object:
    if not isinstance(value, dict):
        return value
    fields = fields_of(type_)
    kept = {}
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            kept[name] = item
        elif _is_struct(field.type):
            inner = _pruned(item, field.type, f"{prefix}{name}.")
            if inner != {}:
                kept[name] = inner
        elif f"{prefix}{name}" in ZERO_IS_A_VALUE or not _is_zero(item, field.default):
            kept[name] = item
    return kept


def only_known(document: Document, type_: type[msgspec.Struct]) -> Document:
    """Return the document without the members that its type does not have. Those in lists stay: a list is one value
    here."""
    return replace(document, value=_known(document.value, type_))


def _known(value: object, type_: type[msgspec.Struct]) -> object:
    if not isinstance(value, dict):
        return value
    fields = fields_of(type_)
    return {
        name: _known(item, fields[name].type) if _is_struct(fields[name].type) else item
        for name, item in value.items()
        if name in fields
    }


def _is_struct(type_: object) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _is_zero(value: object, default: object) -> bool:
    """True if a value is the zero of its field's type; the type is taken from the default."""
    if type(value) is int or type(value) is float:
        return value == 0 and type(default) in (int, float)
    if type(value) is not str or type(default) not in (str, int, float):
        return False
    if type(default) is int or default == "0":
        return value == "0"  # a quantity: a quoted zero is no plain number
    if value == "":
        return type(default) is str
    if type(default) is not float:
        return False
    try:
        return parse_duration(value) == 0
    except ValueError:
        return False
