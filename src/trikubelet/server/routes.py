"""The routes of the node's API: the table of ``core.node_access`` with a handler for each row.

    request ─► the first row with its path ─► the row has its method ─► the handler
                 └ none: 404                  └ no: 405

The same rows have the rights that the caller needs; ``node_api.Gate`` checks them first.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

import trio

from trikubelet.core.node_access import PLACES
from trikubelet.httpd.messages import text
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from trikubelet.core.node_access import Opened, Place
    from trikubelet.httpd.messages import Request, Response, Upgrade
    from trikubelet.kit.spans import Spans

    Handler: TypeAlias = Callable[..., Awaitable[Response | Upgrade]]
    """Receives the request, and the values of the braces in its path."""


class Route(Frozen):
    """One row and its handler."""

    place: Place
    answer: Handler

    @property
    def path(self) -> str:
        """See ``Place``; so for all below."""
        return self.place.path

    @property
    def rights(self) -> tuple[str, ...]:
        return self.place.rights

    @property
    def methods(self) -> tuple[str, ...]:
        return self.place.methods

    @property
    def opened(self) -> Opened:
        return self.place.opened

    def parts(self, path: str) -> tuple[str, ...] | None:
        """Return the values of the braces, or None for another path."""
        return parts(self.path, path)


def table(handlers: Mapping[str, Handler | None]) -> tuple[Route, ...]:
    """Return every row with its handler. ``handlers`` has exactly the paths of the table; None for a path that this
    node's configuration disables."""
    assert handlers.keys() == {place.path for place in PLACES}, handlers.keys() ^ {place.path for place in PLACES}
    return tuple(Route(place, answer) for place in PLACES if (answer := handlers[place.path]) is not None)


async def answer_by(routes: Iterable[Route], request: Request, spans: Spans | None = None) -> Response | Upgrade:
    """Have the request answered. ``spans``: makes a span of the answer, or None."""
    await trio.lowlevel.checkpoint()
    for route in routes:
        parts = route.parts(plain(request.path))
        if parts is None:
            continue
        if request.method not in route.methods:
            allow = {"allow": ", ".join(route.methods)}
            return text("method not allowed", HTTPStatus.METHOD_NOT_ALLOWED, allow)
        with nullcontext() if spans is None else spans.answer(request.method, route.path, request.headers):
            return await route.answer(request, *parts)
    return text("404 page not found", HTTPStatus.NOT_FOUND)


def parts(template: str, path: str) -> tuple[str, ...] | None:
    """Return the values of a template's braces in a path (see ``Place``), or None for another path."""
    pattern = re.sub(r"{\w+(\.\.\.)?}", lambda part: "(.+)" if part[1] else "([^/]+)", template)
    found = re.fullmatch(pattern, path, re.DOTALL)
    return None if found is None else found.groups()


def plain(path: str) -> str:
    """Return a path in the form for lookups and rights: with a leading slash and no trailing one."""
    return "/" + path.removeprefix("/").rstrip("/")
