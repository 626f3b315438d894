"""The two names of a record's members: the attribute's, and the API's. Asked for each pod and each of its fields, so it
is looked up once for each type: msgspec reads a type's annotations again each time, which takes a millisecond.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    import msgspec


@cache
def attributes(record: type[msgspec.Struct]) -> dict[str, str]:
    """A type's attributes by their API names."""
    return {field.encode_name: field.name for field in structs.fields(record)}
