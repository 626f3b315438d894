"""From an API server's JSON to a typed object.

To the API a member that is null is one that is not there, and servers write null for times that have not happened; the
types of ``model.k8s`` know only absence. So a text that has a null in it loses its nulls first, which costs about as
much again as reading it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from trikubelet.model.api_errors import ApiFailure

if TYPE_CHECKING:
    from trikubelet.model.api import Item

T = TypeVar("T")

_NESTED: Final = (dict, list)


def decode_object(raw: bytes, type_: type[T]) -> T:
    """The object. Raises msgspec.DecodeError and its kind ValidationError, naming the path; so for bytes that are no
    UTF-8 and for nesting without end, of which msgspec lets Python's own errors through."""
    try:
        if b"null" not in raw:
            return msgspec.json.decode(raw, type=type_)
        return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), type_)
    except msgspec.DecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def read_item(item: Item, type_: type[T]) -> T:
    """The object that a server answered. Raises ApiFailure for one that cannot be read: the next answer may be
    better."""
    try:
        return decode_object(item.raw, type_)
    except msgspec.DecodeError as error:
        raise ApiFailure(f"the server's answer is no {type_.__name__}: {error}") from error


def _without_nulls(value: Any) -> Any:
    """The value, whose members are looked into only where they have some: a call for each would take several times as
    long as all the rest."""
    if isinstance(value, dict):
        return {
            name: _without_nulls(one) if one and isinstance(one, _NESTED) else one
            for name, one in value.items()
            if one is not None
        }
    if isinstance(value, list):
        return [_without_nulls(one) if one and isinstance(one, _NESTED) else one for one in value]
    return value
