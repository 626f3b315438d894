"""What the contract of an API server is tried on: a server, a client of it, and small things that every test makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from trikubelet.model.api import CONFIG_MAPS, PODS, Change, ChangeKind, Item, PatchKind, Resource, Selection
from trikubelet.model.api_errors import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trikubelet.ports import Api

WAIT_SECONDS_MAX = 60


@dataclass(frozen=True)
class Subject:
    """A server under test, and a client that may do everything there. ``namespace`` is there and has a service account
    "default"; ``mark`` is a label value and a node's name that nobody else uses."""

    api: Api
    namespace: str
    mark: str

    @property
    def marked(self) -> Selection:
        """Return the objects that this test made."""
        return Selection(self.namespace, labels=f"contract={self.mark}")

    @property
    def nowhere(self) -> str:
        """The name of a node there is not. Of this test alone: a server's pod garbage collector remembers for how long
        it has missed a node, and takes every pod of one it has missed for a minute."""
        return f"nowhere-{self.mark}"

    def meta(self, name: str, **fields: object) -> dict[str, object]:
        """An object's metadata."""
        return {"name": name, "labels": {"contract": self.mark}, **fields}

    async def config_map(self, name: str, **data: str) -> Item:
        """A config map."""
        return await self.api.create(CONFIG_MAPS, {"metadata": self.meta(name), "data": data}, self.namespace)

    async def pod(self, name: str, node: str | None = None, grace: int = 30) -> Item:
        """A pod that is bound to a node, `nowhere` if not said, or by an empty name to none."""
        node = self.nowhere if node is None else node
        containers = [{"name": "main", "image": "app:1"}, {"name": "side", "image": "app:1"}]
        spec: dict[str, object] = {"containers": containers, "terminationGracePeriodSeconds": grace}
        spec |= {"nodeName": node} if node else {}
        return await self.api.create(PODS, {"metadata": self.meta(name), "spec": spec}, self.namespace)

    async def patch_pod(self, name: str, status: Mapping[str, object]) -> dict[str, Any]:
        """The status of a pod after a strategic merge patch of it."""
        body = {"status": status}
        item = await self.api.patch(PODS, name, body, self.namespace, kind=PatchKind.STRATEGIC, subresource="status")
        return dict(tree(item)["status"])

    async def is_gone(self, resource: Resource, name: str) -> bool:
        """True if there is no such object."""
        try:
            await self.api.get(resource, name, self.namespace)
        except ObjectMissing:
            return True
        return False


def tree(item: Item) -> dict[str, Any]:
    """The object's JSON."""
    return msgspec.json.decode(item.raw, type=dict[str, Any])


def meta(item: Item) -> dict[str, Any]:
    """The object's metadata."""
    return dict(tree(item)["metadata"])


async def told(changes: AsyncIterator[Change], count: int) -> list[tuple[ChangeKind, str]]:
    """The next so many changes but for bookmarks, as kind and name."""
    found: list[tuple[ChangeKind, str]] = []
    with trio.fail_after(WAIT_SECONDS_MAX):
        while len(found) < count:
            change = await anext(changes)
            if change.kind is not ChangeKind.BOOKMARK:
                found.append((change.kind, change.item.name))
    return found
