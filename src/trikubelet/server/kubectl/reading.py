"""Answers a GET on a resource: lists, single objects and watches.

    query ─► Selection (name, namespace, labels, fields) ─► History's objects ─► Spelling ─► one document
                                                        └► History's changes ─► a line for each that matters

A watch reports a change by its effect on the selection: an object that begins to match is ADDED, one that no longer
matches DELETED.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.kubectl.fields import holds
from trikubelet.core.query import flag, whole
from trikubelet.core.selectors import parse_field_selector, parse_selector
from trikubelet.httpd.messages import Response, json
from trikubelet.kit.every import Every
from trikubelet.server.kubectl.history import Expired
from trikubelet.server.kubectl.spelling import line, spelling_for
from trikubelet.server.kubectl.statuses import Refused, failure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from trikubelet.core.selectors import FieldTerm, Selector
    from trikubelet.httpd.messages import Request
    from trikubelet.ports import Clock
    from trikubelet.server.kubectl.history import Change, History
    from trikubelet.server.kubectl.resources import Resource, Thing
    from trikubelet.server.kubectl.spelling import Spelling

WATCH_SECONDS: Final = 0.5
"""How often a watch looks for changes, in seconds."""
_VERSION_MAX: Final = 2**63 - 1
"""The largest version, as on an API server."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected objects. An empty ``namespace`` is all of them."""

    resource: Resource
    namespace: str = ""
    labels: Selector = field(default=lambda _: True)
    fields: Sequence[FieldTerm] = ()

    def has(self, thing: Thing | None) -> bool:
        """True if the object is selected."""
        return (
            thing is not None
            and self.namespace in ("", thing.metadata.namespace)
            and self.labels(thing.metadata.labels)
            and holds(self.fields, self.resource.fields, thing)
        )


class Reading:
    """Answers for one resource. Owns nothing: the objects and changes are the history's."""

    def __init__(self, history: History, clock: Clock) -> None:
        self._history = history
        self._resource = history.resource
        self._clock = clock

    async def one(self, request: Request, namespace: str, name: str) -> Response:
        """Return the object of that name. Raises Refused if there is none."""
        await self._history.look(fresh=True)
        named = [one for one in self._history.things if one.metadata.name == name]
        found = [one for one in named if namespace in ("", one.metadata.namespace)]
        if not found:
            raise Refused(HTTPStatus.NOT_FOUND, f'{self._resource.name} "{name}" not found')
        return json(self._spelling(request).one(found[0]))

    async def many(self, request: Request, namespace: str) -> Response:
        """Return the selected objects, or a watch of them. Raises ValueError and Refused."""
        selection = Selection(
            self._resource,
            namespace,
            parse_selector(request.query.get("labelSelector", "")),
            parse_field_selector(request.query.get("fieldSelector", ""), self._resource.fields),
        )
        if flag(request.query, "watch"):
            return await self._watch(request, selection)
        await self._history.look(fresh=True)
        chosen = [one for one in self._history.things if selection.has(one)]
        return json(self._spelling(request).many(chosen, str(self._history.version)))

    async def _watch(self, request: Request, selection: Selection) -> Response:
        """Return a watch. Raises Refused for a version that is not kept any more, and ValueError."""
        if flag(request.query, "sendInitialEvents"):
            raise Refused(
                HTTPStatus.UNPROCESSABLE_ENTITY, "sendInitialEvents: Forbidden: list first, and watch from there"
            )
        begin = whole(request.query, "resourceVersion", most=_VERSION_MAX) or 0
        seconds = whole(request.query, "timeoutSeconds") or float("inf")
        await self._history.look(fresh=not begin)
        if begin:
            try:
                self._history.since(begin)
            except Expired as error:
                raise Refused(HTTPStatus.GONE, str(error)) from error
        lines = self._lines(self._spelling(request), selection, begin, trio.current_time() + seconds)
        return Response(headers={"content-type": "application/json"}, body=lines)

    async def _lines(
        self, spelling: Spelling, selection: Selection, version: int, until: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the changes after a version, as they come; from 0 on, first all objects."""
        first = b""
        if not version:
            there = [one for one in self._history.things if selection.has(one)]
            version = self._history.version
            first = b"".join(line("ADDED", spelling.one(one)) for one in there)
        yield first
        async for now in Every(WATCH_SECONDS):
            if now >= until:
                return
            await self._history.look(fresh=False)
            try:
                changes = self._history.since(version)
            except Expired as error:
                yield line("ERROR", failure(HTTPStatus.GONE, str(error)))
                return
            version = self._history.version
            events = [(change, _became(change, selection)) for change in changes]
            yield b"".join(line(type_, spelling.one(change.thing)) for change, type_ in events if type_)

    def _spelling(self, request: Request) -> Spelling:
        return spelling_for(request, self._resource, self._clock)


def _became(change: Change, selection: Selection) -> str:
    """Return the type of a change for a watch of the selection; "" if it does not concern it."""
    was, is_ = selection.has(change.before), not change.gone and selection.has(change.thing)
    if was:
        return "MODIFIED" if is_ else "DELETED"
    return "ADDED" if is_ else ""
