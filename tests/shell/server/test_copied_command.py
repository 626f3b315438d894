"""What a client hears of a command whose stream is copied, when the agent goes down in the middle of telling it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from trikubelet.core import spdy
from trikubelet.core.remote_command import STREAM_TYPE
from trikubelet.model.standard_streams import StandardStreams
from trikubelet.server.copied_command import CopiedCommand
from trikubelet.server.relay import relay

if TYPE_CHECKING:
    from trio.testing import MockClock


class Slow(trio.abc.Stream):
    """A stream that takes nothing until it is told to, and keeps what it took."""

    def __init__(self, below: trio.StapledStream) -> None:
        self._below = below
        self.takes = trio.Event()
        self.taken = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.takes.wait()
        self.taken += bytes(data)
        await self._below.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._below.receive_some(max_bytes))

    async def aclose(self) -> None:
        await self._below.aclose()


async def test_what_was_being_told_with_a_ping_behind_it_is_told_once(autojump_clock: MockClock) -> None:
    (near, far), (runtime, its) = memory_stream_pair(), memory_stream_pair()
    client, frames = Slow(far), spdy.FrameWriter()
    wanted = StandardStreams(stdin=False, stdout=True, stderr=False, tty=False)

    async def run() -> None:
        async with CopiedCommand(client, runtime, wanted) as command:
            await relay(command, command.runtime, 60, command.sender.finishes)

    async def take_later() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.5)
            client.takes.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        opened = [frames.syn_stream(1, {STREAM_TYPE: "error"}), frames.syn_stream(3, {STREAM_TYPE: "stdout"})]
        await near.send_all(b"".join(opened))
        await wait_all_tasks_blocked()
        await its.send_all(spdy.data(3, b"OUTPUT"))
        await wait_all_tasks_blocked()
        await near.send_all(spdy.ping(1))
        await wait_all_tasks_blocked()
        nursery.start_soon(take_later)
        nursery.cancel_scope.cancel()

    assert 1 == client.taken.count(b"OUTPUT")
    assert b"agent is stopping" in client.taken
