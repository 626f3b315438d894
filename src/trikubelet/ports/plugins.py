"""What is asked of plugins of this node (``cri.plugin_sockets``): who they are, and of a CSI driver its volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractAsyncContextManager

    from trikubelet.model.csi import Capability, DriverInfo, Expand, Publish, Stage, VolumeStats
    from trikubelet.model.plugins import PluginInfo


class CsiDriver(Protocol):
    """A driver's node service. All of it may take as long as the caller's scope allows and may be repeated; who gives
    up does not know whether it was done. All raise ``model.plugins.PluginFailed``."""

    async def info(self) -> DriverInfo:
        """What this node is to the driver."""
        ...

    async def capabilities(self) -> AbstractSet[Capability]:
        """What it can do; what this agent does not know is left out."""
        ...

    async def stage(self, request: Stage) -> None:
        """Make a volume ready on this node. Idempotent."""
        ...

    async def unstage(self, volume_id: str, staging_path: str) -> None:
        """The end of ``stage``. Idempotent."""
        ...

    async def publish(self, request: Publish) -> None:
        """Make a volume visible at a path, whose parent is there. Idempotent."""
        ...

    async def unpublish(self, volume_id: str, target_path: str) -> None:
        """The end of ``publish``. Idempotent."""
        ...

    async def volume_stats(self, volume_id: str, path: str) -> VolumeStats:
        """How full a published volume is, and how it is. Of a driver with GET_VOLUME_STATS."""
        ...

    async def expand(self, request: Expand) -> None:
        """Let what is on a published volume have the size that the volume has by now. Idempotent. Of a driver with
        EXPAND_VOLUME."""
        ...


class PluginSockets(Protocol):
    """Plugins' sockets in the directory where they register."""

    async def info(self, socket: str) -> PluginInfo:
        """How the plugin that listens there introduces itself. Raises ``model.plugins.PluginFailed``."""
        ...

    async def notify(self, socket: str, error: str) -> None:
        """Notify the plugin of what became of its registration: "" that it is used. Raises
        ``model.plugins.PluginFailed``."""
        ...

    def driver(self, endpoint: str) -> AbstractAsyncContextManager[CsiDriver]:
        """A CSI driver, for the length of the block."""
        ...
