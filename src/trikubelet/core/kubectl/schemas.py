"""The fields of API objects as OpenAPI schemas, for ``kubectl explain``: generated from the types that the agent reads.

They contain names, types and required fields, but no descriptions: each schema links to the API's reference.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DESCRIPTION: Final = (
    "The fields of {} that this agent knows. https://kubernetes.io/docs/reference/kubernetes-api/ says what they mean."
)
_PREFIX: Final = "io.k8s.api.core.v1."
_PLAIN: Final[dict[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KIND: Final = "x-kubernetes-group-version-kind"


def schemas(kinds: Iterable[type]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schema of each kind, and of every object in it, with OpenAPI's name for it. One at a time, because
    together they take a while."""
    kinds = tuple(kinds)
    waiting = list(kinds)
    seen = set(kinds)
    while waiting:
        kind = waiting.pop()
        fields = msgspec.structs.fields(kind)
        schema: dict[str, Any] = {
            "type": "object",
            "description": _DESCRIPTION.format(kind.__name__),
            "properties": {field.encode_name: _schema(field.type) for field in fields},
        }
        if required := [field.encode_name for field in fields if field.required]:
            schema["required"] = required
        if kind in kinds:
            schema[_KIND] = [{"group": "", "version": "v1", "kind": kind.__name__}]
        inner = {one for field in fields for one in _objects(field.type)}
        waiting += inner - seen
        seen |= inner
        yield _name(kind), schema


def _objects(annotation: Any) -> Iterator[type]:
    """Yield the types of objects inside a value of this type."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for one in get_args(annotation):
        yield from _objects(one)


def _schema(annotation: Any) -> dict[str, Any]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return {"$ref": f"#/components/schemas/{_name(annotation)}"}
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    origin, parts = get_origin(annotation), [one for one in get_args(annotation) if one not in (NoneType, ...)]
    if origin is Annotated:
        return _schema(parts[0])
    if origin is tuple:
        return {"type": "array", "items": _schema(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1])}
    if origin in (Union, UnionType):  # unions are quantities, or a number or a name: text covers all of them
        return _schema(parts[0]) if len(parts) == 1 else {"type": "string"}
    return {"type": "object"}


def _name(kind: type) -> str:
    return f"{_PREFIX}{kind.__name__}"
