"""Spans of traces: which actions took place when, and within which others.

``app/tracing.py`` exports them to a collector. Without a collector there is no ``Spans`` object, and components are
assembled without tracing, so it costs nothing. The current span is part of a task's context, so tasks started within a
span inherit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager


class Asking(Protocol):
    """The span of a request to another process, begun when it is sent."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request, which make the other process's spans children of this one (W3C Trace Context)."""
        ...

    def end(self, *, failed: bool, status: str = "") -> None:
        """End the span; called once. ``status``: the HTTP status of the answer."""
        ...


class Spans(Protocol):
    """Creates spans."""

    def span(self, name: str, **attributes: str) -> AbstractContextManager[None]:
        """Return a span for the block; an exception of the block is recorded in it. Never blocks. ``attributes``: an
        underscore stands for a dot in the name."""
        ...

    def call(self, path: str) -> Asking:
        """Begin the span of a gRPC call, within the calling task's span."""
        ...

    def request(self, method: str, host: str, path: str) -> Asking:
        """Begin the span of an HTTP request."""
        ...

    def answer(self, method: str, route: str, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return a span for the block, which answers a request; it is a child of the span that the client names in
        ``headers``, whose names are in lower case."""
        ...
