"""Spans: which actions took place when, and within which others, for observers outside.

``app/tracing.py`` gives them to a collector. Without a collector there is no ``Spans`` at all, and the parts that would
make some are composed without: it costs nothing, not even a question. The span that is open is part of a task's
context, so whatever a task starts within one is within it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager


class Asking(Protocol):
    """The span of a question to another process, from when it is asked on."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that are sent with it, so that spans of the other process are within this one (W3C Trace
        Context)."""
        ...

    def end(self, *, failed: bool, status: str = "") -> None:
        """It is over, once. ``status``: of an answer in HTTP."""
        ...


class Spans(Protocol):
    """Makes spans."""

    def span(self, name: str, **attributes: str) -> AbstractContextManager[None]:
        """One for the length of the block; an error that leaves it is its own. Never blocks. ``attributes``: dots in
        their names are written as underscores."""
        ...

    def call(self, path: str) -> Asking:
        """One for a gRPC call that begins now, within the span of the task that asks."""
        ...

    def request(self, method: str, host: str, path: str) -> Asking:
        """Begin the span of a request in HTTP."""
        ...

    def answer(self, method: str, route: str, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """One for the length of the block, in which a request is answered; within the span its client names in
        ``headers``, whose names are in lower case."""
        ...
