"""An API server in memory (``ports.Api``): one client's connections to an ``ApiServer``, with problems.

The server outlives its clients; the network between is a ``Link`` (``testing.api_link``). Random problems are drawn by
``ApiProblems``; a test plans its own (``MemoryApi.plan``). Like the real client no request waits for ever: an answer
that does not arrive within ``ANSWER_SECONDS_MAX`` is lost.
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import trio

from trikubelet.model.api_errors import ApiBusy, ApiError, ApiFailure, ApiLost, ApiUnreachable
from trikubelet.testing.api_link import Link, LinkState, Watch
from trikubelet.testing.chance import NO_PROBLEM, Problems

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from trikubelet.model.api import Change, Item, Page, PatchKind, Resource, Selection
    from trikubelet.testing.apiserver.server import ApiServer

T = TypeVar("T")

ANSWER_SECONDS_MAX = 60.0
REQUESTS_KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Fail:
    """A planned outcome: nothing is done, and this is raised."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """A planned outcome: it is done, and the answer is lost."""


@dataclass(frozen=True, slots=True)
class Hang:
    """A planned outcome: nothing is done, and there is no answer."""


class ApiProblems(Problems):
    """Draws an API client's problems. ``lag_versions_max``: how many versions old a list may be that may be stale."""

    lag_versions_max = 0

    def error(self, call: str, *, done: bool) -> ApiError:
        """Return the client's error."""
        if done:
            return ApiLost(f"{call}: the connection was lost")
        kinds: list[ApiError] = [
            ApiUnreachable(f"{call}: connection refused"),
            ApiLost(f"{call}: the connection was lost"),
            ApiBusy(f"{call}: too many requests", "TooManyRequests", after=1.0),
            ApiFailure(f"{call}: simulated failure", "InternalError"),
        ]
        return self.chance.choice(kinds)

    def lag_versions(self) -> int:
        """Return how many versions old the next list is that may be stale."""
        return self.chance.randint(0, self.lag_versions_max)


class MemoryApi:
    """One client of a server, which may be replaced by another. Owns ``requests``, the newest it made, as "verb path".
    ``watcher`` is called with the verb and path of each, before anything is done."""

    def __init__(
        self,
        server: ApiServer,
        link: Link | None = None,
        problems: ApiProblems | None = None,
        watcher: Callable[[str, str], None] | None = None,
    ) -> None:
        self._watcher = watcher
        self.requests: deque[str] = deque(maxlen=REQUESTS_KEPT_MAX)
        self.link = link or Link()
        self.server = server
        self._problems = problems or ApiProblems()
        self._plans: dict[str, deque[Fail | LoseAnswer | Hang]] = {}

    def plan(self, verb: str, *outcomes: Fail | LoseAnswer | Hang) -> None:
        """The outcomes of the next requests of this verb ("get", "list", "watch", "create", ...), one each."""
        self._plans.setdefault(verb, deque()).extend(outcomes)

    def calm(self) -> None:
        """Drop the planned outcomes that are left, and draw no more problems."""
        self._plans.clear()
        self._problems.odds = NO_PROBLEM

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Item:
        """One object."""
        path = resource.path(namespace, name)
        return await self._ask("get", path, lambda: self.server.get(resource, name, namespace))

    async def list(
        self,
        resource: Resource,
        selection: Selection,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """Objects, page by page."""
        lag = self._problems.lag_versions() if resource_version else 0
        link = self.link
        return await self._ask(
            "list",
            resource.path(selection.namespace),
            lambda: self.server.list(resource, selection, limit, continue_token, resource_version, lag, link.heard),
        )

    @asynccontextmanager
    async def watch(
        self, resource: Resource, selection: Selection, *, resource_version: str, initial: bool = False
    ) -> AsyncGenerator[AsyncIterator[Change], None]:
        """The changes."""

        watchers = self.server.store.watchers
        begun: list[Watch] = []

        def begin() -> Watch:
            heard, since = self.link.heard, 0 if initial else int(resource_version)
            held: Sequence[Change] | None = None
            if initial:
                first = self.server.initial(resource, selection, resource_version, heard)
                if heard is not None:
                    held = self.server.changes_since(resource, selection, str(heard)) if resource_version else ()
            else:
                first = self.server.changes_since(resource, selection, resource_version)
                if heard is not None:
                    held = [one for one in first if int(one.item.resource_version) > heard]
                    first = first[: len(first) - len(held)]
            watch = Watch(self.server, resource, selection, self._problems, first, since, held)
            begun.append(watch)  # at once, so that no write falls between the answer and the first change
            watchers.append(watch.put)
            self.link.watches.add(watch)
            return watch

        try:
            yield await self._ask("watch", resource.path(selection.namespace), begin)
        finally:
            for watch in begun:
                watchers.remove(watch.put)
                self.link.watches.remove(watch)

    async def create(self, resource: Resource, body: object, namespace: str = "", *, under: str = "") -> Item:
        """Create an object."""
        path = resource.path(namespace, under)
        return await self._ask("create", path, lambda: self.server.create(resource, body, namespace, under))

    async def replace(
        self, resource: Resource, name: str, body: object, namespace: str = "", *, subresource: str = ""
    ) -> Item:
        """Replace an object."""
        path = resource.path(namespace, name, subresource)
        return await self._ask(
            "replace", path, lambda: self.server.replace(resource, name, body, namespace, subresource)
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        kind: PatchKind,
        subresource: str = "",
    ) -> Item:
        """Merge into an object."""
        path = resource.path(namespace, name, subresource)

        def work() -> Item:
            return self.server.patch(resource, name, body, namespace, kind=kind, subresource=subresource)

        return await self._ask("patch", path, work)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
    ) -> None:
        """Delete an object."""
        path = resource.path(namespace, name)
        await self._ask("delete", path, lambda: self.server.delete(resource, name, namespace, grace_seconds, uid))

    async def _ask(self, verb: str, path: str, work: Callable[[], T]) -> T:
        """Do the work on the server, with the problems of the request and of the answer."""
        self.requests.append(f"{verb} {path}")
        if self._watcher is not None:
            self._watcher(verb, path)
        plans = self._plans.get(verb)
        outcome = plans.popleft() if plans else None
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            await self._problems.before(verb)
            if self.link.state is LinkState.DOWN:
                raise ApiUnreachable(f"{verb} {path}: connection refused")
            if isinstance(outcome, Hang) or self.link.state is LinkState.SILENT:
                await trio.sleep_forever()
            if isinstance(outcome, Fail):
                raise outcome.error
            answer = work()
            await self._problems.after(verb)
            if isinstance(outcome, LoseAnswer) or self.link.state is not LinkState.UP:
                raise ApiLost(f"{verb} {path}: the connection was lost")
            return answer
        raise ApiLost(f"{verb} {path}: no answer within {ANSWER_SECONDS_MAX:g} s")
