"""An informer of config maps on a memory API server, for the tests of both."""

from __future__ import annotations

import random
from collections.abc import Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from trikubelet.kit.outage import Outage
from trikubelet.kube.informer import Informer
from trikubelet.model.api import CONFIG_MAPS, Item, PatchKind, Selection
from trikubelet.testing.api_link import Link
from trikubelet.testing.apiserver.server import ApiServer
from trikubelet.testing.memory_api import ApiProblems, MemoryApi
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trikubelet.kube.known import Key

ALL = Selection("default")
SOON = 0.01
AFTER_A_PAUSE = 2.0
"""The first pause is 0.8 s and at most as much again."""


class Cluster:
    """Owns a server, one client of it, an informer, and what that decoded and told."""

    def __init__(self, seed: int = 0, writes_kept_max: int = 1000) -> None:
        self.server = ApiServer(wall_ns, seed, writes_kept_max)
        self.link = Link()
        self.problems = ApiProblems(chance=random.Random(seed))
        self.api = MemoryApi(self.server, self.link, self.problems)
        self.decoded: list[str] = []
        self.told: list[Collection[Key]] = []
        self.outage = Outage("API server")
        self.informer = Informer(self.api, CONFIG_MAPS, ALL, self._decode, self.outage, random.Random(seed))
        self.informer.add_listener(self.told.append)

    def _decode(self, raw: bytes) -> dict[str, Any]:
        tree = msgspec.json.decode(raw, type=dict[str, Any])
        self.decoded.append(tree["metadata"]["name"])
        if tree.get("data", {}).get("broken"):
            raise ValueError("spec.broken: not to be read")
        return tree

    def create(self, name: str, **data: str) -> Item:
        """A new object, past every connection."""
        return self.server.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, "default")

    def change(self, name: str, **data: str) -> Item:
        """Another version of an object."""
        data = data or {"version": str(self.server.store.version)}
        return self.server.patch(CONFIG_MAPS, name, {"data": data}, "default", kind=PatchKind.MERGE)

    def delete(self, name: str) -> None:
        """The end of an object."""
        self.server.delete(CONFIG_MAPS, name, "default")

    def truth(self) -> dict[Key, str]:
        """The version of every object there is."""
        return {(i.namespace, i.name): i.resource_version for i in self.server.list(CONFIG_MAPS, ALL).items}

    def known(self) -> dict[Key, str]:
        """The version of every object the informer has."""
        return {key: tree["metadata"]["resourceVersion"] for key, tree in self.informer.objects.items()}

    def asked(self) -> list[str]:
        """The verbs of the requests since this was last asked."""
        verbs = [request.split()[0] for request in self.api.requests]
        self.api.requests.clear()
        return verbs

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The informer runs."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.informer.run)
            yield
            nursery.cancel_scope.cancel()


def key(name: str) -> Key:
    """The key of an object of that name."""
    return ("default", name)
