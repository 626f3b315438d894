"""A device plugin of the tests' own, which serves gRPC at a Unix socket in this process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from trikubelet.cri.channel import open_channel
from trikubelet.cri.plugin_v1 import device_pb2 as pb
from trikubelet.cri.plugin_v1.device_grpc import DevicePluginBase, RegistrationStub
from trikubelet.cri.server import serve
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from trikubelet.cri.server import Stream


class TestPlugin(DevicePluginBase):
    """Owns the devices, by id, with their health and NUMA nodes, and notes what it is asked. ``answering`` and
    ``allocating`` block its options and allocations while they are not set; ``advice``: what it prefers; ``refuses``:
    it allocates for no container."""

    __test__ = False

    def __init__(self, *ids: str, advice: tuple[str, ...] = ()) -> None:
        self.devices: dict[str, tuple[str, tuple[int, ...]]] = dict.fromkeys(ids, ("Healthy", ()))
        self.advice = advice
        self.refuses = False
        self.answering = trio.Event()
        self.answering.set()
        self.allocating = trio.Event()
        self.allocating.set()
        self.asked: list[object] = []
        self._changes = trio.Event()
        self._is_ending = False

    def change(self, **health: str) -> None:
        """Devices have this health from now on, and the agent is told."""
        self.devices |= {name: (one, ()) for name, one in health.items()}
        self._wake()

    def end(self) -> None:
        """End each stream of lists."""
        self._is_ending = True
        self._wake()

    def _wake(self) -> None:
        self._changes.set()
        self._changes = trio.Event()

    async def GetDevicePluginOptions(self, stream: Stream[pb.Empty, pb.DevicePluginOptions]) -> None:
        await stream.recv_message()
        await self.answering.wait()
        await stream.send_message(
            pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=bool(self.advice))
        )

    async def ListAndWatch(self, stream: Stream[pb.Empty, pb.ListAndWatchResponse]) -> None:
        await stream.recv_message()
        self._is_ending = False
        while not self._is_ending:
            changes = self._changes
            devices = [
                pb.Device(ID=name, health=health, topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=n) for n in nodes]))
                for name, (health, nodes) in self.devices.items()
            ]
            await stream.send_message(pb.ListAndWatchResponse(devices=devices))
            await changes.wait()

    async def GetPreferredAllocation(
        self, stream: Stream[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse]
    ) -> None:
        request = await stream.recv_message()
        assert request is not None
        one = request.container_requests[0]
        self.asked.append((list(one.available_deviceIDs), list(one.must_include_deviceIDs), one.allocation_size))
        answer = pb.ContainerPreferredAllocationResponse(deviceIDs=self.advice)
        await stream.send_message(pb.PreferredAllocationResponse(container_responses=[answer]))

    async def Allocate(self, stream: Stream[pb.AllocateRequest, pb.AllocateResponse]) -> None:
        request = await stream.recv_message()
        assert request is not None
        ids = list(request.container_requests[0].devices_ids)
        self.asked.append(ids)
        await self.allocating.wait()
        answer = pb.ContainerAllocateResponse(envs={"DEVICES": ",".join(ids)})
        await stream.send_message(pb.AllocateResponse(container_responses=[] if self.refuses else [answer]))

    async def PreStartContainer(
        self, stream: Stream[pb.PreStartContainerRequest, pb.PreStartContainerResponse]
    ) -> None:
        request = await stream.recv_message()
        assert request is not None
        self.asked.append(("start", list(request.devices_ids)))
        if "broken" in request.devices_ids:
            raise GRPCError(Status.INTERNAL, "it is broken")
        await stream.send_message(pb.PreStartContainerResponse())

    @asynccontextmanager
    async def serving(self, directory: Path, name: str) -> AsyncGenerator[None, None]:
        """The plugin listens there, for the length of the block."""
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, [self], str(directory / name), farewell_seconds_max=0.0))
            yield
            nursery.cancel_scope.cancel()


async def register(directory: Path, endpoint: str, resource: str, version: str = "v1beta1") -> str:
    """Register a plugin with the agent. Return the text of the refusal; "" if it is used."""
    request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)
    async with open_channel(str(directory / "kubelet.sock")) as channel:
        try:
            await RegistrationStub(channel).Register(request)
        except RuntimeCallError as error:
            return str(error)
    return ""
