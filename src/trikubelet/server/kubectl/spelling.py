"""Formats objects as kubectl requests them: the objects themselves, or rows of a table that the server lays out.

    Accept: application/json;as=Table;g=meta.k8s.io;v=v1,application/json     a Table, for `get` without -o
    Accept: application/json                                                  objects, for everything else

A row carries the object's metadata, the whole object or nothing, by ``includeObject``: kubectl reads namespaces and
labels from it, and sorts by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.httpd.messages import Request
    from trikubelet.ports import Clock
    from trikubelet.server.kubectl.resources import Resource, Thing

_META: Final = "meta.k8s.io/v1"
_USUAL, _WIDE = 0, 1
"""The priorities of columns: only ``-o wide`` shows others than 0."""


class Spelling(Frozen):
    """The format that one client wants for one resource. ``include``: the part of an object in a table's row."""

    resource: Resource
    clock: Clock
    in_tables: bool
    include: str = "Metadata"

    def many(self, things: Sequence[Thing], version: str) -> dict[str, Any]:
        """Return a list of these objects, of a version."""
        if self.in_tables:
            return self._table(things, version)
        metadata = {"resourceVersion": version}
        return {"kind": f"{self.resource.kind}List", "apiVersion": "v1", "metadata": metadata, "items": things}

    def one(self, thing: Thing) -> object:
        """Return a single object: itself, or a table of one row."""
        return self._table([thing], thing.metadata.resource_version) if self.in_tables else thing

    def _table(self, things: Sequence[Thing], version: str) -> dict[str, Any]:
        now_ns = self.clock.now_ns()
        columns = [_column(name, _USUAL) for name in self.resource.columns]
        columns += [_column(name, _WIDE) for name in self.resource.wide]
        rows = [{"cells": list(self.resource.cells(one, now_ns)), "object": self._carried(one)} for one in things]
        metadata = {"resourceVersion": version}
        shared = {"kind": "Table", "apiVersion": _META, "metadata": metadata}
        return {**shared, "columnDefinitions": columns, "rows": rows}

    def _carried(self, thing: Thing) -> object:
        if self.include == "Object":
            return thing
        if self.include == "None":
            return None
        return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": thing.metadata}


def spelling_for(request: Request, resource: Resource, clock: Clock) -> Spelling:
    """Return the format that comes first in the request's ``Accept`` header."""
    first = request.headers.get("accept", "").partition(",")[0]
    parameters = {one.strip() for one in first.split(";")}
    in_tables = {"as=Table", "g=meta.k8s.io"} <= parameters
    return Spelling(resource, clock, in_tables, request.query.get("includeObject", "Metadata"))


def _column(name: str, priority: int) -> dict[str, object]:
    form = "name" if name == "NAME" else ""
    return {"name": name, "type": "string", "format": form, "description": "", "priority": priority}


def line(type_: str, document: object) -> bytes:
    """Return one line of a watch."""
    return msgspec.json.encode({"type": type_, "object": document}) + b"\n"
