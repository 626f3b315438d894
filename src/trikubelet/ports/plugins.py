"""Ports of the node's plugins (``cri.plugin_sockets``): their registration, and the volumes of a CSI driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractAsyncContextManager

    from trikubelet.model.csi import Capability, DriverInfo, Expand, Publish, Stage, VolumeStats
    from trikubelet.model.plugins import PluginInfo


class CsiDriver(Protocol):
    """A driver's node service. Its calls take as long as the caller's scope allows and may be repeated; a cancelled
    call may or may not have been done. All raise ``model.plugins.PluginFailed``."""

    async def info(self) -> DriverInfo:
        """Return the driver's id and topology of this node."""
        ...

    async def capabilities(self) -> AbstractSet[Capability]:
        """Return the driver's capabilities, without those that this agent does not know."""
        ...

    async def stage(self, request: Stage) -> None:
        """Stage a volume on this node. Idempotent."""
        ...

    async def unstage(self, volume_id: str, staging_path: str) -> None:
        """Undo ``stage``. Idempotent."""
        ...

    async def publish(self, request: Publish) -> None:
        """Publish a volume at a path, whose parent exists. Idempotent."""
        ...

    async def unpublish(self, volume_id: str, target_path: str) -> None:
        """Undo ``publish``. Idempotent."""
        ...

    async def volume_stats(self, volume_id: str, path: str) -> VolumeStats:
        """Return how full a published volume is, and its condition. For a driver with GET_VOLUME_STATS."""
        ...

    async def expand(self, request: Expand) -> None:
        """Grow the file system on a published volume to the volume's new size. Idempotent. For a driver with
        EXPAND_VOLUME."""
        ...


class PluginSockets(Protocol):
    """The sockets of plugins in the directory where they register."""

    async def info(self, socket: str) -> PluginInfo:
        """Return the information that the plugin at that socket reports about itself. Raises
        ``model.plugins.PluginFailed``."""
        ...

    async def notify(self, socket: str, error: str) -> None:
        """Notify the plugin of the result of its registration: "" for success. Raises
        ``model.plugins.PluginFailed``."""
        ...

    def driver(self, endpoint: str) -> AbstractAsyncContextManager[CsiDriver]:
        """Return a CSI driver, for the length of the block."""
        ...
