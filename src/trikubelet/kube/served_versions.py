"""The API server, asked for a kind of object in whichever version of its API it serves.

A kind comes to a newer version with an upgrade of the API server, and the older version is no longer served then, or
only on request. The agent may be older or newer than the server. So a request goes to the newest version first; where
the server does not have it (404), to the older ones (``Resource.older``). The version that was served is asked first
from then on, until it is not served any more: the server has been upgraded, or downgraded, meanwhile.

The objects must be the same in all versions, as far as the agent reads and writes them.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from trikubelet.model.api_errors import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from trikubelet.model.api import Change, Item, Page, PatchKind, Resource, Selection
    from trikubelet.ports import Api

Answer = TypeVar("Answer")


class ServedVersions:
    """An ``Api`` of several versions. Owns which version of each resource the server served last."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: dict[Resource, Resource] = {}

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Item:
        """See ``ports.Api``; so for all below."""
        return await self._ask(resource, lambda one: self._api.get(one, name, namespace))

    async def list(
        self,
        resource: Resource,
        selection: Selection,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        return await self._ask(
            resource,
            lambda one: self._api.list(
                one, selection, limit=limit, continue_token=continue_token, resource_version=resource_version
            ),
        )

    @asynccontextmanager
    async def watch(
        self, resource: Resource, selection: Selection, *, resource_version: str, initial: bool = False
    ) -> AsyncGenerator[AsyncIterator[Change], None]:
        async with AsyncExitStack() as stack:
            yield await self._ask(
                resource,
                lambda one: stack.enter_async_context(
                    self._api.watch(one, selection, resource_version=resource_version, initial=initial)
                ),
            )

    async def create(self, resource: Resource, body: object, namespace: str = "", *, under: str = "") -> Item:
        return await self._ask(
            resource, lambda one: self._api.create(one, _written_in(one, body), namespace, under=under)
        )

    async def replace(
        self, resource: Resource, name: str, body: object, namespace: str = "", *, subresource: str = ""
    ) -> Item:
        return await self._ask(
            resource,
            lambda one: self._api.replace(one, name, _written_in(one, body), namespace, subresource=subresource),
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
        return await self._ask(
            resource, lambda one: self._api.patch(one, name, body, namespace, kind=kind, subresource=subresource)
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
    ) -> None:
        await self._ask(
            resource, lambda one: self._api.delete(one, name, namespace, grace_seconds=grace_seconds, uid=uid)
        )

    async def _ask(self, resource: Resource, ask: Callable[[Resource], Awaitable[Answer]]) -> Answer:
        """The answer of the first version that has one. Raises what the first version raised where none has."""
        versions = [resource, *(replace(resource, version=version) for version in resource.older)]
        served = self._served.get(resource, resource)
        versions.sort(key=lambda one: one != served)  # a stable sort: the others stay newest first
        missing: ObjectMissing | None = None
        for one in versions:
            try:
                answer = await ask(one)
            except ObjectMissing as error:
                missing = missing or error
            else:
                self._served[resource] = one
                return answer
        assert missing is not None
        raise missing

    def __repr__(self) -> str:
        versions = ", ".join(f"{one.plural} in {one.api_version}" for one in self._served.values())
        return f"<ServedVersions: {versions or 'none known'}>"


def _written_in(resource: Resource, body: object) -> object:
    """A body with the version that it is sent to."""
    return {**body, "apiVersion": resource.api_version} if isinstance(body, dict) and "apiVersion" in body else body
