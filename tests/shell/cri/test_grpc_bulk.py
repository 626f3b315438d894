"""Replies that go past h2: large ones whole and in order, within the windows the client opens, in frames of 16 KiB, and
short ones in one piece."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import cycle
from typing import TYPE_CHECKING

import trio
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, TrailersReceived
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from shell.cri.grpckit import LIST, FakeRuntime, MemoryNetwork, calls_left, list_of, memory_pair
from trikubelet.core.grpc_messages import frame
from trikubelet.cri.bulk import FRAME_BYTES, BulkMessage
from trikubelet.cri.server import Stream, serve
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


STATUS = "/runtime.v1.RuntimeService/ContainerStatus"


class BulkRuntime(FakeRuntime):
    """Answers a list with as many bytes as asked for, in pieces of a thousand."""

    async def ContainerStatus(self, stream: Stream) -> None:
        """As many bytes as the id says, in one piece where they fit."""
        request = await stream.recv_message()
        await stream.answer(pb.ContainerStatusResponse(info={"": "x" * int(request.container_id)}).SerializeToString())

    async def ListContainers(self, stream: Stream) -> None:
        request = await stream.recv_message()
        self.inside += 1
        try:
            await stream.send_pieces(pieces_of(int(request.filter.id)))
            await stream.written()
        finally:
            self.inside -= 1


def pieces_of(size: int) -> list[bytes]:
    body = b"".join(number.to_bytes(4, "big") for number in range(size // 4 + 1))[:size]
    return [body[at : at + 1000] for at in range(0, size, 1000)]


@given(
    st.lists(st.integers(0, 3 * FRAME_BYTES), max_size=5),
    st.lists(st.integers(500, 3 * FRAME_BYTES), min_size=1),
)
def test_frames_hold_the_message_once_whatever_its_pieces_and_the_windows(sizes: list[int], windows: list[int]) -> None:
    pieces = [bytes([size % 251]) * size for size in sizes]
    message, room = BulkMessage(7, pieces), cycle(windows)
    taken = bytearray()
    while message.left:
        taken += message.take(min(next(room), message.left))

    body, at = bytearray(), 0
    while at < len(taken):
        length = int.from_bytes(taken[at : at + 3], "big")
        assert 0 < length <= FRAME_BYTES
        assert (0, 0, 7) == (taken[at + 3], taken[at + 4], int.from_bytes(taken[at + 5 : at + 9], "big"))
        body += taken[at + 9 : at + 9 + length]
        at += 9 + length
    whole = b"".join(pieces)
    assert b"\x00" + len(whole).to_bytes(4, "big") + whole == body


async def test_a_large_reply_in_pieces_arrives_whole_and_the_connection_lives_on(autojump_clock: MockClock) -> None:
    async with memory_pair(BulkRuntime(), message_bytes_max=64 * 2**20) as channel:
        stub = RuntimeServiceStub(channel)
        for size in (2_000_000, 3_000_000, 5):
            assert b"".join(pieces_of(size)) == await stub.ListContainers.raw(list_of(size))
        assert b"" == await stub.ListContainers.raw(list_of(0))
        assert "v" == (await stub.Version(pb.VersionRequest(version="v"))).version


async def test_short_answers_arrive_and_so_do_those_that_are_not_as_short_as_thought(autojump_clock: MockClock) -> None:
    async with memory_pair(BulkRuntime()) as channel:
        stub = RuntimeServiceStub(channel)
        for size in (0, 1, 200, FRAME_BYTES - 20, FRAME_BYTES, 100_000):
            reply = await stub.ContainerStatus(pb.ContainerStatusRequest(container_id=str(size)))
            assert "x" * size == reply.info[""]
        assert 0 == calls_left(channel)


async def test_short_answers_are_those_of_h2_to_a_client_of_h2_and_count_against_its_window(
    autojump_clock: MockClock,
) -> None:
    async with conversation(BulkRuntime()) as (client, stream):
        for call in range(1, 15, 2):
            ask(client, call, STATUS, pb.ContainerStatusRequest(container_id="10000").SerializeToString())
        await stream.send_all(client.data_to_send())
        await wait_all_tasks_blocked()
        events = client.receive_data(bytes(await stream.receive_some()))

    told = [[event for event in events if getattr(event, "stream_id", 0) == call] for call in range(1, 15, 2)]
    kinds = sorted(([type(event) for event in of_call] for of_call in told), key=len)
    # The first window has room for six answers of a little more than 10,000 bytes, and for the beginning of a seventh.
    assert [ResponseReceived, DataReceived] == kinds[0]
    assert [[ResponseReceived, DataReceived, TrailersReceived, StreamEnded]] * 6 == kinds[1:]
    response, _, trailers, _ = max(told, key=len)
    assert {(b":status", b"200"), (b"content-type", b"application/grpc")} == set(response.headers)
    assert [(b"grpc-status", b"0")] == trailers.headers


async def test_no_more_is_sent_than_the_client_has_room_for(autojump_clock: MockClock) -> None:
    async with asked(BulkRuntime(), 300_000) as (client, stream):
        body, room = b"", 65_535  # h2, like Go, begins with the protocol's smallest windows
        for more in (0, 1, 20_000, 100_000, 200_000):
            if more:
                client.increment_flow_control_window(more, 1)
                client.increment_flow_control_window(more)
                await stream.send_all(client.data_to_send())
                room += more
            await wait_all_tasks_blocked()
            # h2 itself would raise at a byte too many.
            events = client.receive_data(bytes(await stream.receive_some()))
            data = [event.data for event in events if isinstance(event, DataReceived)]
            body += b"".join(data)

            assert min(300_005, room) == len(body)
            assert FRAME_BYTES >= max(map(len, data))
        assert b"".join(pieces_of(300_000)) == body[5:]


async def test_a_client_that_leaves_amid_a_large_reply_ends_its_handler(autojump_clock: MockClock) -> None:
    runtime = BulkRuntime()
    async with asked(runtime, 300_000) as (client, stream):
        await wait_all_tasks_blocked()
        assert 1 == runtime.inside

        client.receive_data(bytes(await stream.receive_some()))
        client.reset_stream(1)
        await stream.send_all(client.data_to_send())
        await wait_all_tasks_blocked()

        assert 0 == runtime.inside


@asynccontextmanager
async def asked(runtime: BulkRuntime, size: int) -> AsyncIterator[tuple[H2Connection, trio.abc.Stream]]:
    """A client by h2 alone that has asked ``runtime`` for a list of that many bytes."""
    async with conversation(runtime) as (client, stream):
        ask(client, 1, LIST, list_of(size).SerializeToString())
        await stream.send_all(client.data_to_send())
        yield client, stream


@asynccontextmanager
async def conversation(runtime: BulkRuntime) -> AsyncIterator[tuple[H2Connection, trio.abc.Stream]]:
    """A client by h2 alone, connected to ``runtime``."""
    network, client = MemoryNetwork(), H2Connection()
    client.initiate_connection()
    async with trio.open_nursery() as servers:
        await servers.start(serve, [runtime], network)
        yield client, await network.connect()
        servers.cancel_scope.cancel()


def ask(client: H2Connection, stream_id: int, path: str, request: bytes) -> None:
    headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")]
    client.send_headers(stream_id, [*headers, ("content-type", "application/grpc")])
    client.send_data(stream_id, frame(request), end_stream=True)
