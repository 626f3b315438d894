"""The few questions of the CRI that a relist asks, for the peers that are not trikubelet."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from trikubelet.cri import from_wire
from trikubelet.cri.runtime import CriRuntime
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub
from trikubelet.model.runtime_errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.cri.channel import Channel
    from trikubelet.cri.methods import Message, UnaryStreamMethod
    from trikubelet.model.runtime import ContainerStatus, SandboxStatus


class Statuses(NamedTuple):
    """The observation of a pod: the statuses of the items that had not gone since it was listed."""

    sandboxes: list[SandboxStatus]
    containers: list[ContainerStatus]


class Asking:
    """A runtime behind a channel; errors are those of ``model.runtime_errors``."""

    def __init__(self, channel: Channel, streaming: bool) -> None:
        self._stub = RuntimeServiceStub(channel)
        self._runtime = CriRuntime(channel)
        self._streaming = streaming

    async def lists(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Sandboxes, then containers, undecoded."""
        if self._streaming:
            sandboxes = await _collected(self._stub.StreamPodSandboxes, pb.StreamPodSandboxesRequest())
            return sandboxes, await _collected(self._stub.StreamContainers, pb.StreamContainersRequest())
        listed = await self._stub.ListPodSandbox.raw(pb.ListPodSandboxRequest())
        return [listed], [await self._stub.ListContainers.raw(pb.ListContainersRequest())]

    async def inspect(self, sandboxes: Iterable[str], containers: Iterable[str]) -> Statuses:
        """The statuses of a pod's sandboxes and containers, by id, asked one after another."""
        found = Statuses([], [])
        for id_ in sandboxes:
            await self._sandbox(id_, found)
        for id_ in containers:
            await self._container(id_, found)
        return found

    async def inspect_side_by_side(self, sandboxes: Sequence[str], containers: Sequence[str]) -> Statuses:
        """Inspect in a round of questions, as trikubelet does: a peer that could not would be compared with another
        client, and not with another language. Raises the first error."""
        found = await self._runtime.statuses(sandboxes, containers)
        return Statuses([one.decode() for one in found.sandboxes], [one.decode() for one in found.containers])

    async def _sandbox(self, id_: str, found: Statuses) -> None:
        with suppress(NotFound):
            asked = pb.PodSandboxStatusRequest(pod_sandbox_id=id_)
            found.sandboxes.append(from_wire.sandbox_status(await self._stub.PodSandboxStatus(asked)))

    async def _container(self, id_: str, found: Statuses) -> None:
        with suppress(NotFound):
            asked = pb.ContainerStatusRequest(container_id=id_)
            found.containers.append(from_wire.container_status(await self._stub.ContainerStatus(asked)))


async def _collected(method: UnaryStreamMethod[Any, Any], request: Message) -> Sequence[bytes]:
    async with method.raw(request) as replies:
        return [reply async for reply in replies]
