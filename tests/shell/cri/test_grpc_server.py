"""Our gRPC server: with an independent client, with clients that misbehave, and when it goes down."""

from __future__ import annotations

import socket
import stat
from functools import partial

import pytest
import trio
from h2.connection import H2Connection
from h2.events import ResponseReceived, StreamEnded, StreamReset
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from shell.cri.grpckit import (
    EVENTS,
    VERSION,
    FakeRuntime,
    MemoryNetwork,
    memory_pair,
    peer,
    running,
)
from trikubelet.core.grpc_messages import frame
from trikubelet.cri.channel import Channel, open_channel
from trikubelet.cri.round import UnaryCall
from trikubelet.cri.server import serve
from trikubelet.cri.server_connection import ServerConnection
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime_errors import (
    AlreadyExists,
    RuntimeFailure,
    RuntimeLost,
    RuntimeUnavailable,
)

ANY = pb.VersionRequest(version="v")


@pytest.mark.slow
async def test_an_independent_client_finds_everything_as_gRPC_has_it(tmp_path, nursery):
    runtime = FakeRuntime()
    await nursery.start(serve, [runtime], str(tmp_path / "r.sock"))
    said = b""
    async with peer("grpcio_client", str(tmp_path / "r.sock")) as process:
        async for part in process.stdout:
            said += part

    assert [
        "version a",
        "metadata b",
        "many 500",
        "large 100000000",
        "stream 1000",
        "events ['c0', 'c1', 'c2']",
        "bug UNKNOWN KeyError('a bug of the handler')",
        "large request RESOURCE_EXHAUSTED a message of 17825797 bytes is larger than max 16777216",
        "deadline DEADLINE_EXCEEDED",
        "missing UNIMPLEMENTED unknown method /no.Such/Method",
        "nonsense INTERNAL the request cannot be read: Error parsing message",
        "alive z",
    ] == [
        line.split(" Deadline")[0].split(" the deadline")[0].split(" with type ")[0]  # words that differ by version
        for line in said.decode().splitlines()
    ]
    assert 0 == runtime.inside


async def test_a_bug_in_a_handler_fails_its_call_and_nothing_else(autojump_clock, caplog):
    async with memory_pair(FakeRuntime()) as channel:
        with pytest.raises(RuntimeFailure, match="a bug of the handler"):
            await channel.unary_raw(VERSION, pb.VersionRequest(version="bug"))
        assert await channel.unary_raw(VERSION, ANY)
    assert "Traceback" in caplog.text


async def test_an_error_of_ours_raised_by_a_handler_reaches_the_caller_as_itself(autojump_clock):
    class Taken(FakeRuntime):
        async def Version(self, stream):
            raise AlreadyExists('name "x" is reserved')

    async with memory_pair(Taken()) as channel:
        with pytest.raises(AlreadyExists, match=r'^name "x" is reserved$'):
            await channel.unary_raw(VERSION, ANY)


async def test_limit_of_calls_makes_clients_wait_and_rejects_others(autojump_clock):
    runtime = FakeRuntime()
    network = MemoryNetwork()
    async with trio.open_nursery() as servers:

        async def serve_few(task_status):
            await serve([runtime], network, calls_max=3, task_status=task_status)

        await servers.start(serve_few)
        async with running(Channel("memory", connector=network.connect)) as channel, trio.open_nursery() as callers:
            for _ in range(10):
                callers.start_soon(channel.unary_raw, VERSION, pb.VersionRequest(version="wait"))
            await wait_all_tasks_blocked()
            assert 3 == runtime.inside
            assert 7 == channel.statistics().calls_waiting
            runtime.gate.set()
        assert 10 == runtime.served
        servers.cancel_scope.cancel()


async def test_a_client_answered_before_it_has_asked_need_not_go_on(autojump_clock):
    network = MemoryNetwork()
    client = H2Connection()
    client.initiate_connection()
    asked = [(":method", "POST"), (":scheme", "http"), (":path", "/no.Such/Method"), (":authority", "x")]
    client.send_headers(1, [*asked, ("content-type", "application/grpc")])
    async with trio.open_nursery() as servers:
        await servers.start(serve, [FakeRuntime()], network)
        stream = await network.connect()
        await stream.send_all(client.data_to_send())
        await wait_all_tasks_blocked()
        events = client.receive_data(bytes(await stream.receive_some()))

        assert [(ResponseReceived, 1), (StreamEnded, 1), (StreamReset, 1)] == [
            (type(event), event.stream_id)
            for event in events
            if isinstance(event, ResponseReceived | StreamEnded | StreamReset)
        ]
        servers.cancel_scope.cancel()


def version_or_handler(request: bytes) -> bytes | None:
    version = pb.VersionRequest.FromString(request).version
    return None if version == "wait" else pb.VersionResponse(version=f"at once: {version}").SerializeToString()


async def test_what_can_be_answered_at_once_needs_no_handler_and_the_rest_has_one(autojump_clock):
    runtime = FakeRuntime()
    runtime.gate.set()
    network = MemoryNetwork()
    async with trio.open_nursery() as servers:
        await servers.start(partial(serve, prompts={VERSION: version_or_handler}), [runtime], network)
        async with running(Channel("memory", connector=network.connect)) as channel:
            for version, answer, served in (
                ("v", "at once: v", 0),
                ("wait", "wait", 1),
                ("x" * 40_000, "x" * 40_000, 2),
            ):
                reply = await channel.unary_raw(VERSION, pb.VersionRequest(version=version))
                assert (answer, served) == (pb.VersionResponse.FromString(reply).version, runtime.served)
            [answer] = await channel.round([UnaryCall(VERSION, b"")])
            assert "at once: " == pb.VersionResponse.FromString(answer).version
            with pytest.raises(RuntimeFailure, match="the request cannot be read"):
                await channel.round([UnaryCall(VERSION, b"\xff")])
        servers.cancel_scope.cancel()


async def test_a_client_that_leaves_before_its_question_is_whole_makes_room_for_others(autojump_clock):
    network = MemoryNetwork()
    client = H2Connection()
    client.initiate_connection()
    begun = [(":method", "POST"), (":scheme", "http"), (":path", VERSION), (":authority", "x")]
    async with trio.open_nursery() as servers:
        bound = partial(serve, prompts={VERSION: version_or_handler}, calls_max=1)
        await servers.start(bound, [FakeRuntime()], network)
        stream = await network.connect()
        for stream_id in (1, 3, 5):
            client.send_headers(stream_id, [*begun, ("content-type", "application/grpc")])
            if stream_id == 1:
                client.reset_stream(stream_id)
        client.send_data(3, frame(b"")[:2])
        client.send_data(3, frame(b"")[2:], end_stream=True)
        await stream.send_all(client.data_to_send())
        await wait_all_tasks_blocked()
        events = client.receive_data(bytes(await stream.receive_some()))

        assert [(StreamReset, 5), (StreamEnded, 3)] == [
            (type(event), event.stream_id) for event in events if isinstance(event, StreamEnded | StreamReset)
        ]
        servers.cancel_scope.cancel()


async def test_a_handler_ends_with_its_client(autojump_clock):
    runtime = FakeRuntime()
    network = MemoryNetwork()
    async with trio.open_nursery() as servers:
        await servers.start(serve, [runtime], network)
        async with running(Channel("memory", connector=network.connect)) as channel, trio.open_nursery() as callers:
            callers.start_soon(expect_lost, channel)
            await wait_all_tasks_blocked()
            assert 1 == runtime.inside
            await network.server_ends[0].aclose()
            await wait_all_tasks_blocked()
            assert 0 == runtime.inside
        servers.cancel_scope.cancel()


async def expect_lost(channel):
    with pytest.raises(RuntimeLost):
        await channel.unary_raw(VERSION, pb.VersionRequest(version="wait"))


async def test_going_down_lets_the_present_calls_end(autojump_clock):
    runtime = FakeRuntime()
    network = MemoryNetwork()
    done = []
    async with running(Channel("memory", connector=network.connect)) as channel, trio.open_nursery() as nursery:
        server = await nursery.start(serve_in_scope, runtime, network)

        async def ask():
            done.append(await channel.unary_raw(VERSION, pb.VersionRequest(version="wait")))

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        server.cancel()
        await wait_all_tasks_blocked()
        assert "received GOAWAY" in channel.statistics().last_error
        runtime.gate.set()
        await wait_all_tasks_blocked()

    assert 1 == len(done)


async def test_going_down_waits_for_a_stream_without_end_no_longer_than_it_said(autojump_clock):
    network = MemoryNetwork()
    async with running(Channel("memory", connector=network.connect)) as channel, trio.open_nursery() as nursery:
        server = await nursery.start(serve_in_scope, FakeRuntime(), network)
        async with channel.stream_raw(EVENTS, pb.GetEventsRequest()) as events:
            assert await anext(aiter(events))
            start = trio.current_time()
            server.cancel()
            with pytest.raises(RuntimeUnavailable):
                async for _ in events:
                    pass
            assert 1.0 == pytest.approx(trio.current_time() - start)


async def serve_in_scope(runtime, network, task_status):
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, [runtime], network)
            task_status.started(scope)


@pytest.mark.parametrize(
    "words", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 50]
)
async def test_a_client_that_talks_rubbish_is_cut_off_and_the_others_are_served(autojump_clock, words):
    network = MemoryNetwork()
    async with trio.open_nursery() as servers:
        await servers.start(serve, [FakeRuntime()], network)
        rude = await network.connect()
        await rude.send_all(words)
        while await rude.receive_some():
            pass
        async with running(Channel("memory", connector=network.connect)) as channel:
            assert await channel.unary_raw(VERSION, ANY)
        servers.cancel_scope.cancel()


# ---- the socket ----


async def test_a_socket_left_behind_is_replaced_and_taken_away_at_the_end(tmp_path):
    path = tmp_path / "r.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [FakeRuntime()], f"unix://{path}")
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        async with open_channel(str(path)) as channel:
            assert await channel.unary_raw(VERSION, ANY)
        nursery.cancel_scope.cancel()

    assert not path.exists()


async def test_served_socket_is_left_alone(tmp_path, nursery):
    path = str(tmp_path / "r.sock")
    await nursery.start(serve, [FakeRuntime()], path)
    with pytest.raises(OSError, match="another process listens"):
        await serve([FakeRuntime()], path)
    async with open_channel(path) as channel:
        assert await channel.unary_raw(VERSION, ANY)


async def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "r.sock"
    path.write_text("precious")
    with pytest.raises(OSError, match="not a socket"):
        await serve([FakeRuntime()], str(path))

    assert "precious" == await trio.Path(path).read_text()


async def test_a_goodbye_may_come_at_whatever_moment_the_client_leaves(autojump_clock, nursery):
    for steps in range(40):
        for _ in range(5):  # which of two tasks that are due comes first is by chance
            ours, theirs = memory_stream_pair()
            connection = ServerConnection(theirs, {}, {}, message_bytes_max=1000, calls_max=10)
            nursery.start_soon(connection.run)
            await wait_all_tasks_blocked()
            await ours.aclose()
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            connection.drain()
