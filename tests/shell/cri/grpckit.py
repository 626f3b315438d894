"""What the gRPC tests share: a runtime that knows its calls, a network in memory, and server processes."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from trio.testing import memory_stream_pair

from trikubelet.cri.channel import Channel
from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_grpc
from trikubelet.cri.v1 import api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

PEERS = Path(__file__).parent / "peers"
VERSION = "/runtime.v1.RuntimeService/Version"
LIST = "/runtime.v1.RuntimeService/ListContainers"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"


async def _unimplemented(self: Any, stream: Any) -> None:
    raise GRPCError(Status.UNIMPLEMENTED, "not here")


Bare: Any = type(
    "Bare",
    (api_grpc.RuntimeServiceBase,),
    dict.fromkeys(api_grpc.RuntimeServiceBase.__abstractmethods__, _unimplemented),
)


class FakeRuntime(Bare):
    """Answers what the request asks for, and counts who is inside."""

    def __init__(self) -> None:
        self.inside = 0
        self.served = 0
        self.gate = trio.Event()
        self.deadline = 0.0

    async def Version(self, stream: Any) -> None:
        self.inside += 1
        try:
            request = await stream.recv_message()
            self.deadline = stream.deadline
            if request.version == "wait":
                await self.gate.wait()
            if request.version == "bug":
                raise KeyError("a bug of the handler")
            self.served += 1
            await stream.send_message(pb.VersionResponse(version=request.version))
        finally:
            self.inside -= 1

    async def ListContainers(self, stream: Any) -> None:
        """As many bytes as the filter's id says."""
        request = await stream.recv_message()
        await stream.send_raw(bytes(int(request.filter.id)))

    async def GetContainerEvents(self, stream: Any) -> None:
        """Three events, then silence until the client leaves."""
        self.inside += 1
        try:
            await stream.recv_message()
            for number in range(3):
                await stream.send_message(pb.ContainerEventResponse(container_id=f"c{number}"))
            await trio.sleep_forever()
        finally:
            self.inside -= 1

    async def StreamContainers(self, stream: Any) -> None:
        """A thousand messages, then the end."""
        await stream.recv_message()
        for number in range(1000):
            await stream.send_message(pb.StreamContainersResponse(containers=[pb.Container(id=str(number))]))


def list_of(size: int) -> pb.ListContainersRequest:
    """A request for a reply of that many bytes."""
    return pb.ListContainersRequest(filter=pb.ContainerFilter(id=str(size)))


class MemoryNetwork(trio.abc.Listener[trio.abc.Stream]):
    """A listener and its connector without a kernel. ``up`` False: nobody is there."""

    def __init__(self) -> None:
        self.up = True
        self.connects = 0
        self.attempts: list[float] = []
        self.server_ends: list[trio.abc.Stream] = []
        self._send, self._receive = trio.open_memory_channel[trio.abc.Stream](100)

    async def connect(self) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.attempts.append(trio.current_time())
        if not self.up:
            raise FileNotFoundError("down")
        self.connects += 1
        ours, theirs = memory_stream_pair()
        self.server_ends.append(theirs)
        self._send.send_nowait(theirs)
        return ours

    async def accept(self) -> trio.abc.Stream:
        return await self._receive.receive()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        self.up = False


@asynccontextmanager
async def running(channel: Channel) -> AsyncGenerator[Channel, None]:
    """A channel with options that ``open_channel`` does not offer, for the length of the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        yield channel
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def memory_pair(runtime: Any, **options: Any) -> AsyncGenerator[Channel, None]:
    """A channel to ``runtime``, both ends of our own, without a kernel."""
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [runtime], network)
        async with running(Channel("memory", connector=network.connect, **options)) as channel:
            yield channel
        nursery.cancel_scope.cancel()


def calls_left(channel: Channel) -> int:
    """Streams that h2 still counts as open at the client's end, on every connection."""
    return sum(c._wire.h2.open_outbound_streams for c in channel._connections)


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when its task is about to take its n-th step."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self.task, self.scope, self.left = task, scope, step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


async def cancelled_at_every_step(act: Callable[[], Awaitable[object]]) -> AsyncGenerator[int, None]:
    """Call ``act`` again and again, cancelled before its first step, its second, …, until it gets through; after each
    time the block may look at what is left."""
    step, cancelled = 0, True
    while cancelled:
        step += 1
        with trio.CancelScope() as scope:
            instrument = CancelAtStep(trio.lowlevel.current_task(), scope, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                await act()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        cancelled = scope.cancelled_caught
        yield step
    assert step > 1, "nothing was there to be cancelled"


@asynccontextmanager
async def peer(script: str, *arguments: str) -> AsyncGenerator[trio.Process, None]:
    """A process of ``peers/``, ready to be talked to; killed with the block, whatever its state."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(PEERS / f"{script}.py"), *arguments], stdout=-1, stdin=-1
    )
    try:
        assert process.stdout is not None
        said = b""
        while not said.endswith(b"ready\n"):  # an unbuffered Python writes the end of a line by itself
            part = await process.stdout.receive_some(64)
            assert part, f"{script}.py ended before it was ready, having said {said!r}"
            said += part
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):  # ends with the process, which has just been killed
            await process.wait()
            for pipe in (process.stdout, process.stdin):
                if pipe is not None:
                    await pipe.aclose()
