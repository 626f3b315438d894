"""A fake runtime in memory, with a client, for the length of a block."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import h11
import trio

from shell.cri.grpckit import MemoryNetwork, running
from trikubelet.cri.channel import Channel
from trikubelet.cri.runtime import CriRuntime
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub
from trikubelet.fake.runtime import Plan, run_fake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(frozen=True)
class Fake:
    """A fake runtime's clients: the raw stub, the adapter, and HTTP."""

    stub: RuntimeServiceStub
    runtime: CriRuntime
    http: MemoryNetwork

    async def container(self, id_: str) -> pb.ContainerStatus:
        """A container's status."""
        return (await self.stub.ContainerStatus(pb.ContainerStatusRequest(container_id=id_))).status

    async def sandbox(self, id_: str) -> pb.PodSandboxStatus:
        """A sandbox's status."""
        return (await self.stub.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id=id_))).status

    async def ask(
        self, method: str, target: str, body: bytes = b"", *, host: str = "127.0.0.1:8080", **headers: str
    ) -> tuple[int, str]:
        """One HTTP request; the status and the body."""
        stream, client = await self.http.connect(), h11.Connection(h11.CLIENT)
        words = [("host", host), ("connection", "close"), ("content-length", str(len(body))), *headers.items()]
        await stream.send_all(client.send(h11.Request(method=method, target=target, headers=words)) or b"")
        await stream.send_all((client.send(h11.Data(data=body)) or b"") + (client.send(h11.EndOfMessage()) or b""))
        status, answer = 0, b""
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                client.receive_data(bytes(await stream.receive_some()))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                answer += event.data
        return status, answer.decode()


@asynccontextmanager
async def fake(journal: IO[str] | None = None, **plan: Any) -> AsyncIterator[Fake]:
    """A fake runtime of this plan."""
    network, http = MemoryNetwork(), MemoryNetwork()
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_fake, Plan(**plan), network, http=[http], journal=journal))
        async with running(Channel("memory", connector=network.connect)) as channel:
            yield Fake(RuntimeServiceStub(channel), CriRuntime(channel), http)
        nursery.cancel_scope.cancel()
