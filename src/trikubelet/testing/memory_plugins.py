"""Plugins of a node in memory (``ports.PluginSockets``) and a CSI driver that mounts nothing (``ports.CsiDriver``).

The driver records requests and the staged and published volumes with their paths, like a real one, and rejects what the
CSI specification requires it to reject. A test makes it slow, failing or hanging by its attributes.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.model.csi import CSI_PLUGIN, Capability, DriverInfo, VolumeStats
from trikubelet.model.plugins import PluginFailed, PluginInfo

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from collections.abc import Set as AbstractSet

    from trikubelet.model.csi import Expand, Publish, Stage
    from trikubelet.ports import CsiDriver

EVERYTHING = frozenset(Capability)
SIZE_BYTES = 1024**2
USED_BYTES = 4096


class MemoryDriver:
    """Owns the staged and published volumes, by path, and the volumes' new sizes, in bytes by their ids. ``calls``: the
    changing ones, as words; ``failing``: is raised by every one of them; ``answering``: blocks them while it is not
    set. ``condition``: the volumes' abnormal condition, if any; ``expands_in_use``: they grow while they are published.
    """

    def __init__(self, capabilities: AbstractSet[Capability] = EVERYTHING, node: DriverInfo | None = None) -> None:
        self.can = frozenset(capabilities)
        self.node = node or DriverInfo("node-of-driver")
        self.staged: dict[str, Stage] = {}
        self.published: dict[str, Publish] = {}
        self.sizes: dict[str, int] = {}
        self.condition = ""
        self.expands_in_use = True
        self.calls: list[str] = []
        self.failing: PluginFailed | None = None
        self.answering = trio.Event()
        self.answering.set()

    async def info(self) -> DriverInfo:
        """See ``ports.CsiDriver``; so for all below."""
        await self._answer()
        return self.node

    async def capabilities(self) -> AbstractSet[Capability]:
        await self._answer()
        return self.can

    async def stage(self, request: Stage) -> None:
        await self._change(f"stage {request.volume_id}")
        _check(request.volume_id, request.staging_path)
        self.staged[request.staging_path] = request

    async def unstage(self, volume_id: str, staging_path: str) -> None:
        await self._change(f"unstage {volume_id}")
        _check(volume_id, staging_path)
        self.staged.pop(staging_path, None)

    async def publish(self, request: Publish) -> None:
        await self._change(f"publish {request.volume_id}")
        _check(request.volume_id, request.target_path)
        if Capability.STAGE_UNSTAGE_VOLUME in self.can and request.staging_path not in {"", *self.staged}:
            raise PluginFailed("FailedPrecondition", "the volume is not staged there")
        self.published[request.target_path] = request

    async def unpublish(self, volume_id: str, target_path: str) -> None:
        await self._change(f"unpublish {volume_id}")
        _check(volume_id, target_path)
        self.published.pop(target_path, None)

    async def volume_stats(self, volume_id: str, path: str) -> VolumeStats:
        await self._answer()
        self._check_published(volume_id, path)
        size = self.sizes.get(volume_id, SIZE_BYTES)
        condition = self.condition or "well"
        return VolumeStats(size - USED_BYTES, size, USED_BYTES, 99, 100, 1, bool(self.condition), condition)

    async def expand(self, request: Expand) -> None:
        await self._change(f"expand {request.volume_id}")
        if request.path not in self.staged:
            self._check_published(request.volume_id, request.path)
        if not self.expands_in_use and any(one.volume_id == request.volume_id for one in self.published.values()):
            raise PluginFailed("FailedPrecondition", "the volume is published")
        self.sizes[request.volume_id] = request.required_bytes

    def _check_published(self, volume_id: str, path: str) -> None:
        _check(volume_id, path)
        if path not in self.published:
            raise PluginFailed("NotFound", "the volume is not published there")

    async def _change(self, what: str) -> None:
        self.calls.append(what)
        await self._answer()
        if self.failing is not None:
            raise self.failing

    async def _answer(self) -> None:
        await trio.lowlevel.checkpoint()
        await self.answering.wait()


def _check(volume_id: str, path: str) -> None:
    if not volume_id or not path:
        raise PluginFailed("InvalidArgument", "a volume's id and a path are needed")


class MemoryPlugins:
    """Owns the plugins by socket, and the results of their registration: ``notified``, by socket."""

    def __init__(self) -> None:
        self.drivers: dict[str, MemoryDriver] = {}
        self.infos: dict[str, PluginInfo] = {}
        self.notified: dict[str, list[str]] = {}

    def listen(
        self, socket: str, name: str, driver: MemoryDriver, type_: str = CSI_PLUGIN, version: str = "1.0.0"
    ) -> None:
        """Have a plugin listen there from now on."""
        self.drivers[socket] = driver
        self.infos[socket] = PluginInfo(type_, name, socket, (version,))

    async def info(self, socket: str) -> PluginInfo:
        """See ``ports.PluginSockets``; so for all below."""
        await trio.lowlevel.checkpoint()
        if socket not in self.infos:
            raise PluginFailed("Unavailable", f"connection error: no plugin listens at {socket}")
        return self.infos[socket]

    async def notify(self, socket: str, error: str) -> None:
        await self.info(socket)
        self.notified.setdefault(socket, []).append(error)

    @asynccontextmanager
    async def driver(self, endpoint: str) -> AsyncGenerator[CsiDriver, None]:
        await trio.lowlevel.checkpoint()
        yield self.drivers[endpoint]
