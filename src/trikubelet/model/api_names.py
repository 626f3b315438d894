"""The two names of a record's members: the attribute's, and the API's. Asked for each pod and each of its fields, so it
is looked up once for each type. ``fields_of`` has the types, too, for which msgspec evaluates the annotations: a
millisecond, and several for a configuration.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import structs

if TYPE_CHECKING:
    import msgspec


@cache
def attributes(record: type[msgspec.Struct]) -> dict[str, str]:
    """A type's attributes by their API names."""
    return dict(zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True))


def fields_of(record: Any) -> dict[str, structs.FieldInfo]:
    """A type's fields by their API names, with their types and defaults."""
    return _fields_of(record)


@cache
def _fields_of(record: Any) -> dict[str, structs.FieldInfo]:
    return {field.encode_name: field for field in structs.fields(record)}
