"""Device plugins over gRPC (``ports.DeviceSockets``, ``ports.DevicePlugin``): calls with the same Channel class as the
runtime's, and the server for their registration."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from google.protobuf.message import DecodeError
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from trikubelet.cri.channel import open_channel
from trikubelet.cri.plugin_sockets import answer, dial
from trikubelet.cri.plugin_v1 import device_pb2 as pb
from trikubelet.cri.plugin_v1.device_grpc import DevicePluginStub, RegistrationBase
from trikubelet.cri.server import serve
from trikubelet.model.devices import HEALTHY, Device, PluginOptions, Registering, RunOptions
from trikubelet.model.plugins import PluginFailed
from trikubelet.model.runtime_config import Device as Node
from trikubelet.model.runtime_config import Mount
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable

    from trikubelet.core.devices.choice import Question
    from trikubelet.cri.channel import Channel
    from trikubelet.cri.server import Stream
    from trikubelet.ports import DevicePlugin


class GrpcDeviceSockets:
    """Calls device plugins, and serves their registration. Owns no state."""

    @asynccontextmanager
    async def plugin(self, endpoint: str) -> AsyncGenerator[DevicePlugin, None]:
        """See ``ports.DeviceSockets``; the same holds for the next two methods."""
        async with open_channel(endpoint, peer="device plugin") as channel:
            yield GrpcDevicePlugin(channel)

    def run_options(self, answer: bytes) -> RunOptions:
        try:
            found = pb.ContainerAllocateResponse.FromString(answer)
        except DecodeError as error:
            raise PluginFailed("Internal", f"the plugin's answer cannot be read: {error}") from error
        return RunOptions(
            envs=tuple(sorted(found.envs.items())),
            mounts=tuple(Mount(one.container_path, one.host_path, one.read_only) for one in found.mounts),
            devices=tuple(Node(one.container_path, one.host_path, one.permissions) for one in found.devices),
            annotations=dict(found.annotations),
            cdi_devices=tuple(one.name for one in found.cdi_devices),
        )

    async def serve_registration(
        self,
        socket: str,
        register: Callable[[Registering], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await serve([_Registration(register)], socket, task_status=task_status)


class _Registration(RegistrationBase):
    def __init__(self, register: Callable[[Registering], Awaitable[None]]) -> None:
        self._register = register

    async def Register(self, stream: Stream[pb.RegisterRequest, pb.Empty]) -> None:  # noqa: N802 - the service's name
        request = await stream.recv_message()
        if request is None:
            return
        try:
            await self._register(Registering(request.version, request.endpoint, request.resource_name))
        except (PluginFailed, ValueError) as error:
            raise GRPCError(Status.UNKNOWN, str(error)) from error  # like Go's server for a plain error
        await stream.send_message(pb.Empty())


class GrpcDevicePlugin:
    """One plugin's service. Owns no state."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._stub = DevicePluginStub(channel)

    async def options(self) -> PluginOptions:
        """See ``ports.DevicePlugin``; the same holds for the methods below."""
        reply = await answer(self._channel, lambda: self._stub.GetDevicePluginOptions(pb.Empty()))
        return PluginOptions(reply.get_preferred_allocation_available, reply.pre_start_required)

    @asynccontextmanager
    async def lists(self) -> AsyncGenerator[AsyncIterator[tuple[Device, ...]], None]:
        await dial(self._channel)
        try:
            async with self._stub.ListAndWatch.raw(pb.Empty()) as replies:
                yield _Lists(replies)
        except RuntimeCallError as error:
            raise PluginFailed("Unavailable", str(error)) from error

    async def preferred(self, question: Question) -> tuple[str, ...]:
        one = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=question.available,
            must_include_deviceIDs=question.must,
            allocation_size=question.count,
        )
        request = pb.PreferredAllocationRequest(container_requests=[one])
        reply = await answer(self._channel, lambda: self._stub.GetPreferredAllocation(request))
        return tuple(reply.container_responses[0].deviceIDs) if reply.container_responses else ()

    async def allocate(self, ids: Iterable[str]) -> bytes:
        one = pb.ContainerAllocateRequest(devices_ids=sorted(ids))
        reply = await answer(self._channel, lambda: self._stub.Allocate(pb.AllocateRequest(container_requests=[one])))
        if not reply.container_responses:
            raise PluginFailed("Internal", "no containers return in allocation response")
        return reply.container_responses[0].SerializeToString()

    async def pre_start(self, ids: Iterable[str]) -> None:
        request = pb.PreStartContainerRequest(devices_ids=sorted(ids))
        await answer(self._channel, lambda: self._stub.PreStartContainer(request))

    def __repr__(self) -> str:
        return f"<GrpcDevicePlugin on {self._channel!r}>"


class _Lists:
    """The decoded lists of a plugin. Not an async generator, because those need cleanup when a loop is left early."""

    def __init__(self, replies: AsyncIterator[bytes]) -> None:
        self._replies = replies

    def __aiter__(self) -> _Lists:
        return self

    async def __anext__(self) -> tuple[Device, ...]:
        reply = await self._replies.__anext__()
        try:
            return tuple(map(_device, pb.ListAndWatchResponse.FromString(reply).devices))
        except DecodeError as error:
            raise PluginFailed("Internal", f"the plugin's list of devices cannot be read: {error}") from error


def _device(one: pb.Device) -> Device:
    return Device(one.ID, one.health == HEALTHY, frozenset(node.ID for node in one.topology.nodes))
