"""Both ends on rubbish: a recorded conversation with bytes changed, dropped and put in, cut anywhere.

Whatever comes, a caller gets its answer, one of our errors or its own deadline; no other exception, no task left over.
"""

from __future__ import annotations

from contextlib import suppress

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from drawn_examples import examples
from shell.cri.grpckit import VERSION, FakeRuntime, MemoryNetwork, running
from trikubelet.cri.channel import Channel
from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime_errors import RuntimeCallError

ANY = pb.VersionRequest(version="v" * 50)


class Recorder(trio.abc.Stream):
    """Passes bytes through and keeps those of one direction."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self.inner = inner
        self.sent = b""
        self.received = b""

    async def send_all(self, data):
        self.sent += bytes(data)
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self):
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes=None):
        data = await self.inner.receive_some(max_bytes)
        self.received += data
        return data

    async def aclose(self):
        await self.inner.aclose()


async def conversation() -> tuple[bytes, bytes]:
    """Return the bytes of client and server in a call that succeeds and one that fails."""
    network = MemoryNetwork()
    recorders = []

    async def connect():
        recorders.append(Recorder(await network.connect()))
        return recorders[-1]

    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [FakeRuntime()], network)
        async with running(Channel("memory", connector=connect)) as channel:
            await channel.unary_raw(VERSION, ANY)
            with suppress(RuntimeCallError):
                await channel.unary_raw("/no.Such/Method", ANY)
        nursery.cancel_scope.cancel()
    return recorders[0].sent, recorders[0].received


CLIENT_SAYS, SERVER_SAYS = trio.run(conversation, clock=MockClock(autojump_threshold=0))

changes = st.lists(
    st.tuples(st.sampled_from(["change", "drop", "put in"]), st.integers(0, 5000), st.binary(min_size=1, max_size=12)),
    max_size=4,
)


def spoil(data: bytes, what: list[tuple[str, int, bytes]]) -> bytes:
    for kind, place, words in what:
        at = place % (len(data) + 1)
        if kind == "change":
            data = data[:at] + words + data[at + len(words) :]
        elif kind == "drop":
            data = data[:at] + data[at + len(words) :]
        else:
            data = data[:at] + words + data[at:]
    return data


@settings(deadline=None, max_examples=examples(150))
@given(changes, st.booleans())
def test_a_channel_survives_any_server(what, closes):
    async def main() -> None:
        network = MemoryNetwork()
        async with running(Channel("memory", connector=network.connect)) as channel, trio.open_nursery() as nursery:

            async def server() -> None:
                while True:
                    stream = await network.accept()
                    await stream.send_all(spoil(SERVER_SAYS, what))
                    if closes:
                        await stream.aclose()

            nursery.start_soon(server)
            for _ in range(3):
                with trio.move_on_after(1), suppress(RuntimeCallError):
                    await channel.unary_raw(VERSION, ANY)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


@settings(deadline=None, max_examples=examples(150))
@given(changes, st.booleans())
def test_a_server_survives_any_client(what, closes):
    async def main() -> None:
        network = MemoryNetwork()
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, [FakeRuntime()], network)
            rude = await network.connect()
            await rude.send_all(spoil(CLIENT_SAYS, what))
            with trio.move_on_after(1):
                await rude.receive_some()
            if closes:
                await rude.aclose()
            async with running(Channel("memory", connector=network.connect)) as channel:
                with trio.fail_after(10):
                    await channel.unary_raw(VERSION, ANY)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
