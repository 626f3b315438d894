"""A runtime with a crowd of pods and a message limit, behind the product's own server, and an adapter to it."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from shell.cri.grpckit import Bare, MemoryNetwork, running
from trikubelet.core.names import POD_NAMESPACE, POD_UID
from trikubelet.cri.channel import Channel
from trikubelet.cri.runtime import CriRuntime
from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

CREATED, RUNNING, EXITED, UNKNOWN = range(4)
READY, NOT_READY = range(2)
PADDING = "x" * 1000


class Crowd(Bare):
    """A runtime with any number of pods that sends no list of more than so many bytes in one message. ``asked`` has
    every list that was asked for, in words; ``then`` is called after each."""

    def __init__(self, containers_max: int = 2**24, sandboxes_max: int = 2**24, *, streams: bool = False) -> None:
        self.containers_max = containers_max
        self.sandboxes_max = sandboxes_max
        self.streams = streams
        self.sandboxes: dict[str, pb.PodSandbox] = {}
        self.containers: dict[str, pb.Container] = {}
        self.asked: list[str] = []
        self.refused = 0
        self.inside = 0
        self.inside_most = 0
        self.then: Callable[[str], None] = lambda _: None

    def add_pod(self, uid: str, *states: int, namespace: str = "default", state: int = READY) -> None:
        """A pod with one sandbox, and a container for each of ``states``, called ``uid/0``, ``uid/1``, …"""
        labels = {POD_UID: uid, POD_NAMESPACE: namespace}
        metadata = pb.PodSandboxMetadata(name=uid, uid=uid, namespace=namespace)
        self.sandboxes[f"s-{uid}"] = pb.PodSandbox(id=f"s-{uid}", metadata=metadata, state=state, labels=labels)
        for number, container_state in enumerate(states):
            id_ = f"{uid}/{number}"
            self.containers[id_] = pb.Container(
                id=id_,
                pod_sandbox_id=f"s-{uid}",
                metadata=pb.ContainerMetadata(name=f"c{number}"),
                state=container_state,
                labels=labels,
                annotations={"padding": PADDING},
            )

    async def Version(self, stream: Any) -> None:
        await stream.send_message(pb.VersionResponse(runtime_name="crowd"))

    async def Status(self, stream: Any) -> None:
        await stream.send_message(pb.StatusResponse())

    async def PodSandboxStatus(self, stream: Any) -> None:
        one = self.sandboxes[(await stream.recv_message()).pod_sandbox_id]
        status = pb.PodSandboxStatus(id=one.id, metadata=one.metadata, state=one.state, labels=one.labels, created_at=1)
        await stream.send_message(pb.PodSandboxStatusResponse(status=status))

    async def ContainerStatus(self, stream: Any) -> None:
        one = self.containers[(await stream.recv_message()).container_id]
        status = pb.ContainerStatus(id=one.id, metadata=one.metadata, state=one.state, labels=one.labels, created_at=1)
        await stream.send_message(pb.ContainerStatusResponse(status=status))

    async def RemoveContainer(self, stream: Any) -> None:
        self.containers.pop((await stream.recv_message()).container_id, None)
        await stream.send_message(pb.RemoveContainerResponse())

    async def StopPodSandbox(self, stream: Any) -> None:
        await stream.send_message(pb.StopPodSandboxResponse())

    async def RemovePodSandbox(self, stream: Any) -> None:
        self.sandboxes.pop((await stream.recv_message()).pod_sandbox_id, None)
        await stream.send_message(pb.RemovePodSandboxResponse())

    async def ListPodSandbox(self, stream: Any) -> None:
        await self._answer(stream, self.sandboxes, lambda found: pb.ListPodSandboxResponse(items=found))

    async def ListContainers(self, stream: Any) -> None:
        await self._answer(stream, self.containers, lambda found: pb.ListContainersResponse(containers=found))

    async def StreamPodSandboxes(self, stream: Any) -> None:
        await self._stream(stream, self.sandboxes, lambda one: pb.StreamPodSandboxesResponse(pod_sandboxes=[one]))

    async def StreamContainers(self, stream: Any) -> None:
        await self._stream(stream, self.containers, lambda one: pb.StreamContainersResponse(containers=[one]))

    async def _answer(self, stream: Any, everything: dict[str, Any], reply: Callable[[list[Any]], Any]) -> None:
        self.inside += 1
        self.inside_most = max(self.inside_most, self.inside)
        try:
            request = await stream.recv_message()
            await trio.sleep(0.001)
            told = _words(request)
            self.asked.append(told)
            found = reply([one for one in everything.values() if _matches(request.filter, one)])
            size = found.ByteSize()
            bytes_max = self.containers_max if everything is self.containers else self.sandboxes_max
            if size > bytes_max:
                self.refused += 1
                text = f"grpc: trying to send message larger than max ({size} vs. {bytes_max})"
                raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
            self.then(told)
            await stream.send_message(found)
        finally:
            self.inside -= 1

    async def _stream(self, stream: Any, everything: dict[str, Any], reply: Callable[[Any], Any]) -> None:
        request = await stream.recv_message()
        self.asked.append(_words(request))
        if not self.streams:
            raise GRPCError(Status.UNIMPLEMENTED, "unknown method")
        for one in everything.values():
            if _matches(request.filter, one):
                await stream.send_message(reply(one))


def _words(request: Any) -> str:
    """``ListContainers 2 default uid``: the method and what its filter has."""
    name = type(request).__name__.removesuffix("Request")
    only = request.filter
    state = str(only.state.state) if only.HasField("state") else ""
    labels = [only.label_selector.get(label, "") for label in (POD_NAMESPACE, POD_UID)]
    return " ".join(filter(None, [name, state, *labels]))


def _matches(only: Any, one: Any) -> bool:
    right_state = not only.HasField("state") or only.state.state == one.state
    return right_state and all(one.labels.get(name) == value for name, value in only.label_selector.items())


@asynccontextmanager
async def talking(crowd: Crowd, **options: Any) -> AsyncGenerator[tuple[CriRuntime, MemoryNetwork], None]:
    """A runtime adapter over a channel to ``crowd``, and what lies between."""
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [crowd], network)
        async with running(Channel("memory", connector=network.connect, **options)) as channel:
            yield CriRuntime(channel), network
        nursery.cancel_scope.cancel()


async def containers_of(runtime: CriRuntime, uid: str | None = None) -> dict[str, int]:
    """The state of every container that is listed, by id, as often as it is listed or it fails."""
    chunks = await runtime.list_containers(uid)
    found = [one for chunk in chunks for one in pb.ListContainersResponse.FromString(chunk).containers]
    assert all(count == 1 for count in Counter(one.id for one in found).values())
    return {one.id: one.state for one in found}


def all_of(crowd: Crowd) -> dict[str, int]:
    return {id_: one.state for id_, one in crowd.containers.items()}
