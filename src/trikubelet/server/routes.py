"""Who answers at which path of the node's API: the table of ``core.node_access`` with a handler at each of its rows.

    request ─► the first row whose path it has ─► its method is one of the row's ─► the handler
                 └ none: 404                        └ no: 405

What the caller must be allowed stands in the same rows, and is asked before anybody comes here (``node_api.Gate``).
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

import trio

from trikubelet.core.node_access import PLACES
from trikubelet.httpd.messages import text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from trikubelet.core.node_access import Opened, Place
    from trikubelet.httpd.messages import Request, Response, Upgrade
    from trikubelet.kit.spans import Spans

    Handler: TypeAlias = Callable[..., Awaitable[Response | Upgrade]]
    """It is given the request, and what stands for the braces of its path."""


@dataclass(frozen=True, slots=True)
class Route:
    """One row, and what answers there."""

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
        """What stands for the braces, or None for another path."""
        return parts(self.path, path)


def table(handlers: Mapping[str, Handler | None]) -> tuple[Route, ...]:
    """Every row with its handler. ``handlers`` has one for each path of the table and for no other; None where the path
    is not to be, as this node is configured."""
    assert handlers.keys() == {place.path for place in PLACES}, handlers.keys() ^ {place.path for place in PLACES}
    return tuple(Route(place, answer) for place in PLACES if (answer := handlers[place.path]) is not None)


async def answer_by(routes: Iterable[Route], request: Request, spans: Spans | None = None) -> Response | Upgrade:
    """Have the request answered. ``spans``: who makes one of the answer, if anybody does."""
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
    """What stands in a path for the braces of a template (see ``Place``), or None for another path."""
    pattern = re.sub(r"{\w+(\.\.\.)?}", lambda part: "(.+)" if part[1] else "([^/]+)", template)
    found = re.fullmatch(pattern, path, re.DOTALL)
    return None if found is None else found.groups()


def plain(path: str) -> str:
    """A path as it is looked up and as rights are asked for it: with a slash before it and none behind."""
    return "/" + path.removeprefix("/").rstrip("/")
