"""Plugins of this node over gRPC (``ports.PluginSockets``, ``ports.CsiDriver``), with the same Channel class as the
runtime.

A plugin's registration uses its own, short connection. A driver's channel is kept while the driver is registered, and
reconnects when the driver restarts. A call to a driver that is not running fails after a while instead of waiting.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from trikubelet.cri.channel import Channel, open_channel
from trikubelet.cri.errors import status_for
from trikubelet.cri.plugin_v1 import csi_pb2, registration_pb2
from trikubelet.cri.plugin_v1.csi_grpc import NodeStub
from trikubelet.cri.plugin_v1.registration_grpc import RegistrationStub
from trikubelet.model.csi import Capability, DriverInfo, VolumeStats
from trikubelet.model.plugins import PluginFailed, PluginInfo
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeLost

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from collections.abc import Set as AbstractSet

    from trikubelet.model.csi import Expand, Publish, Stage, Use
    from trikubelet.ports import CsiDriver

Reply = TypeVar("Reply")

DIAL_SECONDS_MAX: Final = 10.0
"""Upstream's value."""
_GO_NAMES: Final = {"CANCELLED": "Canceled", "OK": "OK"}


class GrpcPlugins:
    """Calls the plugin that listens on a socket. Owns no state."""

    async def info(self, socket: str) -> PluginInfo:
        """See ``ports.PluginSockets``; the same holds for the methods below."""
        async with open_channel(socket, peer="plugin") as channel:
            ask = RegistrationStub(channel).GetInfo
            reply = await answer(channel, lambda: ask(registration_pb2.InfoRequest()))
        return PluginInfo(reply.type, reply.name, reply.endpoint or socket, tuple(reply.supported_versions))

    async def notify(self, socket: str, error: str) -> None:
        said = registration_pb2.RegistrationStatus(plugin_registered=not error, error=error)
        async with open_channel(socket, peer="plugin") as channel:
            notify = RegistrationStub(channel).NotifyRegistrationStatus
            await answer(channel, lambda: notify(said))

    @asynccontextmanager
    async def driver(self, endpoint: str) -> AsyncGenerator[CsiDriver, None]:
        async with open_channel(endpoint, peer="CSI driver") as channel:
            yield GrpcDriver(channel)


class GrpcDriver:
    """One driver's node service. Owns no state."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._node = NodeStub(channel)

    async def info(self) -> DriverInfo:
        """See ``ports.CsiDriver``; the same holds for the methods below."""
        reply = await self._ask(lambda: self._node.NodeGetInfo(csi_pb2.NodeGetInfoRequest()))
        topology = dict(reply.accessible_topology.segments)
        return DriverInfo(reply.node_id, max(reply.max_volumes_per_node, 0), topology)

    async def capabilities(self) -> AbstractSet[Capability]:
        reply = await self._ask(lambda: self._node.NodeGetCapabilities(csi_pb2.NodeGetCapabilitiesRequest()))
        known = {capability.value for capability in Capability}
        return frozenset(Capability(one.rpc.type) for one in reply.capabilities if one.rpc.type in known)

    async def stage(self, request: Stage) -> None:
        message = csi_pb2.NodeStageVolumeRequest(
            volume_id=request.volume_id,
            publish_context=request.attached,
            staging_target_path=request.staging_path,
            volume_capability=_capability(request.use),
            secrets=request.secrets,
            volume_context=request.context,
        )
        await self._ask(lambda: self._node.NodeStageVolume(message))

    async def unstage(self, volume_id: str, staging_path: str) -> None:
        message = csi_pb2.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=staging_path)
        await self._ask(lambda: self._node.NodeUnstageVolume(message))

    async def publish(self, request: Publish) -> None:
        message = csi_pb2.NodePublishVolumeRequest(
            volume_id=request.volume_id,
            publish_context=request.attached,
            staging_target_path=request.staging_path,
            target_path=request.target_path,
            volume_capability=_capability(request.use),
            readonly=request.read_only,
            secrets=request.secrets,
            volume_context=request.context,
        )
        await self._ask(lambda: self._node.NodePublishVolume(message))

    async def unpublish(self, volume_id: str, target_path: str) -> None:
        message = csi_pb2.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=target_path)
        await self._ask(lambda: self._node.NodeUnpublishVolume(message))

    async def volume_stats(self, volume_id: str, path: str) -> VolumeStats:
        message = csi_pb2.NodeGetVolumeStatsRequest(volume_id=volume_id, volume_path=path)
        return _volume_stats(await self._ask(lambda: self._node.NodeGetVolumeStats(message)))

    async def expand(self, request: Expand) -> None:
        message = csi_pb2.NodeExpandVolumeRequest(
            volume_id=request.volume_id,
            volume_path=request.path,
            capacity_range=csi_pb2.CapacityRange(required_bytes=request.required_bytes),
            staging_target_path=request.staging_path,
            volume_capability=_capability(request.use),
            secrets=request.secrets,
        )
        await self._ask(lambda: self._node.NodeExpandVolume(message))

    async def _ask(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        return await answer(self._channel, call)

    def __repr__(self) -> str:
        return f"<GrpcDriver on {self._channel!r}>"


def _capability(use: Use) -> csi_pb2.VolumeCapability:
    mode = csi_pb2.VolumeCapability.AccessMode(mode=use.access_mode.name)
    if use.is_block:
        return csi_pb2.VolumeCapability(block=csi_pb2.VolumeCapability.BlockVolume(), access_mode=mode)
    mount = csi_pb2.VolumeCapability.MountVolume(
        fs_type=use.fs_type, mount_flags=use.mount_flags, volume_mount_group=use.group
    )
    return csi_pb2.VolumeCapability(mount=mount, access_mode=mode)


def _volume_stats(reply: csi_pb2.NodeGetVolumeStatsResponse) -> VolumeStats:
    of = {one.unit: one for one in reply.usage}
    space, inodes = of.get(csi_pb2.VolumeUsage.BYTES), of.get(csi_pb2.VolumeUsage.INODES)
    condition = reply.volume_condition if reply.HasField("volume_condition") else None
    return VolumeStats(
        available_bytes=space.available if space else None,
        capacity_bytes=space.total if space else None,
        used_bytes=space.used if space else None,
        inodes_free=inodes.available if inodes else None,
        inodes=inodes.total if inodes else None,
        inodes_used=inodes.used if inodes else None,
        is_abnormal=condition.abnormal if condition else None,
        condition=condition.message if condition else "",
    )


async def dial(channel: Channel) -> None:
    """Wait until the plugin is connected. Raises PluginFailed if that takes too long."""
    with trio.move_on_after(DIAL_SECONDS_MAX) as dialling:
        await channel.wait_connected()
    if dialling.cancelled_caught:
        raise PluginFailed("Unavailable", f"connection error: {channel.statistics().last_error}")


async def answer(channel: Channel, call: Callable[[], Awaitable[Reply]]) -> Reply:
    """Return a plugin's answer. Raises PluginFailed."""
    await dial(channel)
    try:
        return await call()
    except RuntimeLost as error:  # the channel's text names a runtime; other errors have the plugin's own text
        raise PluginFailed("Unavailable", "the connection to the plugin was lost before its answer") from error
    except RuntimeCallError as error:
        status, text = status_for(error)
        raise PluginFailed(_go_name(status.name), text) from error


def _go_name(name: str) -> str:
    """Return a status' name as in Go: ``InvalidArgument`` for ``INVALID_ARGUMENT``."""
    return _GO_NAMES.get(name) or "".join(word.capitalize() for word in name.split("_"))
