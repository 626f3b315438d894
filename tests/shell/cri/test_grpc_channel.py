"""The channel over a network in memory and on virtual time: deadlines, cancellation, waiting, reconnecting."""

from __future__ import annotations

import logging

import pytest
import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived
from h2.settings import SettingCodes
from hyperframe.frame import RstStreamFrame, SettingsFrame, WindowUpdateFrame
from trio.testing import lockstep_stream_pair, wait_all_tasks_blocked

from shell.cri.grpckit import (
    EVENTS,
    LIST,
    VERSION,
    FakeRuntime,
    MemoryNetwork,
    calls_left,
    cancelled_at_every_step,
    list_of,
    memory_pair,
    running,
)
from shell.portkit import full_queue
from trikubelet.cri.channel import Channel, State, open_channel
from trikubelet.cri.goaway import goaway_bytes
from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeFailure, RuntimeTimeout, RuntimeUnavailable

pytestmark = pytest.mark.usefixtures("either_reader")

WAIT = pb.VersionRequest(version="wait")
ANY = pb.VersionRequest(version="v")


async def test_the_callers_scope_is_the_deadline_at_the_other_end(autojump_clock):
    runtime = FakeRuntime()
    async with memory_pair(runtime) as channel:
        await channel.unary_raw(VERSION, ANY)
        assert float("inf") == runtime.deadline
        with trio.fail_after(40):
            now = trio.current_time()
            await channel.unary_raw(VERSION, ANY)
        assert 40 == pytest.approx(runtime.deadline - now, abs=0.001)


async def test_cancelled_caller_cancels_its_handler(autojump_clock):
    runtime = FakeRuntime()
    async with memory_pair(runtime) as channel:
        with trio.move_on_after(5) as scope:
            await channel.unary_raw(VERSION, WAIT)
        await wait_all_tasks_blocked()

        assert scope.cancelled_caught
        assert 0 == runtime.inside
        assert 0 == calls_left(channel)


async def test_a_runtime_that_gives_up_by_itself_is_a_timeout(autojump_clock):
    class Slow(FakeRuntime):
        async def Version(self, stream):
            with trio.fail_after(1):
                await trio.sleep_forever()

    class Late(FakeRuntime):
        async def Version(self, stream):
            stream.scope.deadline = trio.current_time() + 1
            await trio.sleep_forever()

    async with memory_pair(Slow()) as channel:
        with pytest.raises(RuntimeFailure, match="TooSlowError"):
            await channel.unary_raw(VERSION, ANY)
    async with memory_pair(Late()) as channel:
        with pytest.raises(RuntimeTimeout, match="deadline"):
            await channel.unary_raw(VERSION, ANY)


async def unary(channel):
    await channel.unary_raw(VERSION, ANY)


async def large_reply(channel):
    await channel.unary_raw(LIST, list_of(12 * 2**20))


async def large_request(channel):
    await channel.unary_raw(VERSION, pb.VersionRequest(version="x" * 12 * 2**20))


async def stream(channel):
    async with channel.stream_raw(EVENTS, pb.GetEventsRequest()) as events:
        number = 0
        async for _ in events:
            number += 1
            if number == 3:
                break


@pytest.mark.parametrize("call", [unary, large_reply, large_request, stream])
async def test_a_call_may_be_cancelled_at_every_await_and_leaves_nothing_behind(call):
    runtime = FakeRuntime()
    async with memory_pair(runtime) as channel:
        async for _ in cancelled_at_every_step(lambda: call(channel)):
            await channel.unary_raw(VERSION, ANY)
            await wait_all_tasks_blocked()
            assert 0 == channel.statistics().calls_in_flight
            assert 0 == calls_left(channel)
            assert 0 == runtime.inside

        assert 0 == channel.statistics().reconnects


async def test_waiting_for_a_connection_may_be_cancelled_at_every_await(autojump_clock):
    network = MemoryNetwork()
    network.up = False
    async with open_channel("memory", connector=network.connect) as channel:
        for _ in range(3):
            with trio.move_on_after(1) as scope:
                await channel.unary_raw(VERSION, ANY)
            assert scope.cancelled_caught
        assert 0 == channel.statistics().calls_waiting


async def test_a_runtime_that_is_not_there_is_waited_for_ever_more_patiently_and_logged_once(autojump_clock, caplog):
    caplog.set_level(logging.INFO)
    network = MemoryNetwork()
    network.up = False
    async with open_channel("memory", connector=network.connect) as channel, trio.open_nursery() as nursery:
        await nursery.start(serve, [FakeRuntime()], network)
        nursery.start_soon(channel.unary_raw, VERSION, ANY)
        await trio.sleep(30)

        now = channel.statistics()
        assert (State.WAITING, 1, 0) == (now.state, now.calls_waiting, now.calls_in_flight)
        assert "no socket at memory" in now.last_error
        assert "waiting to try again, 0 calls in flight, 1 waiting" in repr(channel)
        waits = [b - a for a, b in zip(network.attempts, network.attempts[1:], strict=False)]
        assert all(
            0.999 * wait <= waited <= 1.21 * wait
            for wait, waited in zip([0.1, 0.2, 0.4, 0.8, 1.0, 1.0], waits, strict=False)
        )
        assert len(waits) > 20
        assert max(waits) <= 1.2
        assert 1 == len([r for r in caplog.records if r.levelno >= logging.WARNING])

        network.up = True
        await trio.sleep(1.3)
        now = channel.statistics()
        assert (State.CONNECTED, 0, 0) == (now.state, now.calls_waiting, now.calls_in_flight)
        nursery.cancel_scope.cancel()


async def test_runtime_with_a_full_queue_is_reported_and_retried(tmp_path, autojump_clock, caplog):
    with full_queue(tmp_path / "s"):
        async with open_channel(str(tmp_path / "s")) as channel:
            await trio.sleep(30)
            assert State.WAITING is channel.statistics().state
    [told] = caplog.records
    why = f"cannot connect to {tmp_path}/s: its queue is full: it does not accept connections"
    assert f"runtime at {tmp_path}/s: {why}; retrying until it answers" == told.getMessage()


async def test_what_accepts_and_says_nothing_is_left_after_five_seconds(autojump_clock):
    network = MemoryNetwork()
    async with open_channel("memory", connector=network.connect) as channel:
        await trio.sleep(4.9)
        assert State.CONNECTING is channel.statistics().state
        await trio.sleep(0.2)
        assert "within 5 s" in channel.statistics().last_error


async def test_what_does_not_speak_http2_is_named_and_tried_again(autojump_clock):
    network = MemoryNetwork()
    async with open_channel("memory", connector=network.connect) as channel:
        await wait_all_tasks_blocked()
        await network.server_ends[0].send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await wait_all_tasks_blocked()
        expected = 'no gRPC at memory: not HTTP/2 as we know it: it answers "HTTP/1.1 400 Bad Request"'
        assert expected == channel.statistics().last_error
        await trio.sleep(1)
        assert network.connects > 1


async def test_rubbish_is_logged_once_however_it_differs_and_again_after_the_runtime_was_there(autojump_clock, caplog):
    network = MemoryNetwork()

    def told():
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    async with open_channel("memory", connector=network.connect) as channel, trio.open_nursery() as nursery:
        reasons = set()
        for number in range(10):
            stream = await network.accept()
            await stream.send_all(bytes([9, number]) + bytes(40))  # the header of a frame of another length each time
            await wait_all_tasks_blocked()
            reasons.add(channel.statistics().last_error)
        assert 10 == len(reasons)
        assert 1 == len(told())
        assert "not HTTP/2 as we know it: a frame of 589824 bytes" in told()[0]

        await nursery.start(serve, [FakeRuntime()], network)
        await channel.unary_raw(VERSION, ANY)
        nursery.cancel_scope.cancel()
    assert 1 < len(told())


async def test_a_runtime_that_goes_away_after_every_connect_is_logged_once_until_it_has_answered(
    autojump_clock, caplog
):
    caplog.set_level(logging.INFO)
    network = MemoryNetwork()

    def told():
        return [record.getMessage() for record in caplog.records if "channel" in record.name]

    async def greet_and_go(nursery):
        while True:
            stream = await network.accept()
            await stream.send_all(SettingsFrame(0).serialize() + goaway_bytes(0))
            nursery.start_soon(drained, stream)

    async def drained(stream):
        while await stream.receive_some():
            pass

    there = "connected to the runtime at memory"
    gone = "runtime at memory: received GOAWAY (NO_ERROR); retrying until it answers"
    async with open_channel("memory", connector=network.connect) as channel, trio.open_nursery() as nursery:
        async with trio.open_nursery() as peers:
            peers.start_soon(greet_and_go, peers)
            await trio.sleep(60)
            peers.cancel_scope.cancel()
        assert network.connects > 10
        assert [there, gone] == told()

        for _ in range(2):
            async with trio.open_nursery() as servers:
                await servers.start(serve, [FakeRuntime()], network)
                await channel.unary_raw(VERSION, ANY)
                servers.cancel_scope.cancel()
            network.up = True
        nursery.cancel_scope.cancel()
    lost = [line for line in told()[2:] if line != there]
    assert [there, gone, there] == told()[:3]
    assert 2 == told()[2:].count(there)
    assert 1 <= len(lost) <= 2


async def test_quiet_channel_leaves_reports_to_its_callers(autojump_clock, caplog):
    caplog.set_level(logging.INFO)
    network = MemoryNetwork()
    network.up = False
    async with open_channel("memory", connector=network.connect, quiet=True) as channel, trio.open_nursery() as nursery:
        await nursery.start(serve, [FakeRuntime()], network)
        await trio.sleep(1)
        assert "no socket at memory" in channel.statistics().last_error
        network.up = True
        await channel.unary_raw(VERSION, ANY)
        nursery.cancel_scope.cancel()
    assert [] == [record.getMessage() for record in caplog.records if "channel" in record.name]


async def test_a_connection_that_breaks_at_once_is_not_made_again_in_a_loop(autojump_clock):
    network = MemoryNetwork()

    async def slam(nursery):
        while True:
            await (await network.accept()).aclose()

    async with open_channel("memory", connector=network.connect), trio.open_nursery() as nursery:
        nursery.start_soon(slam, nursery)
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert 50 <= network.connects <= 65


async def test_farewells_can_be_said_after_the_owner_was_cancelled(autojump_clock):
    network = MemoryNetwork()
    said = []
    async with trio.open_nursery() as servers:
        await servers.start(serve, [FakeRuntime()], network)
        with trio.move_on_after(1):
            async with open_channel("memory", connector=network.connect) as channel:
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.move_on_after(1, shield=True):
                        said.append(await channel.unary_raw(VERSION, ANY))
        servers.cancel_scope.cancel()

    assert 1 == len(said)


async def test_a_closed_channel_says_so(autojump_clock):
    network = MemoryNetwork()
    async with open_channel("memory", connector=network.connect) as channel:
        pass

    with pytest.raises(RuntimeUnavailable, match="closed"):
        await channel.unary_raw(VERSION, ANY)
    assert State.CLOSED is channel.statistics().state


async def test_an_error_of_the_block_leaves_it_as_it_was_raised():
    network = MemoryNetwork()
    with pytest.raises(KeyError):
        async with open_channel("memory", connector=network.connect):
            raise KeyError("x")


async def test_a_question_that_waits_for_room_ends_when_its_stream_is_reset(autojump_clock):
    async def refuse_the_rest(*, task_status):
        task_status.started()
        stream, h2 = await network.accept(), H2Connection(H2Configuration(client_side=False))
        h2.initiate_connection()
        while data := bytes(await stream.receive_some()):
            for event in h2.receive_data(data):
                if isinstance(event, DataReceived) and h2.streams[event.stream_id].open:
                    h2.reset_stream(event.stream_id, ErrorCodes.INTERNAL_ERROR)
            await stream.send_all(h2.data_to_send())

    network = MemoryNetwork()
    async with trio.open_nursery() as nursery, running(Channel("memory", connector=network.connect)) as channel:
        await nursery.start(refuse_the_rest)
        with trio.fail_after(5), pytest.raises(RuntimeFailure, match="reset the call"):
            await channel.unary_raw(VERSION, pb.VersionRequest(version="x" * 100_000))
        nursery.cancel_scope.cancel()


async def test_a_slow_reader_holds_up_its_own_stream_only(autojump_clock):
    class Fountain(FakeRuntime):
        sent = 0

        async def GetContainerEvents(self, stream):
            await stream.recv_message()
            while True:
                await stream.send_raw(bytes(2**20))
                self.sent += 1

    runtime = Fountain()
    async with memory_pair(runtime) as channel, channel.stream_raw(EVENTS, pb.GetEventsRequest()) as events:
        await wait_all_tasks_blocked()
        assert runtime.sent <= 20
        assert 20 * 2**20 <= len(await channel.unary_raw(LIST, list_of(15 * 2**20))) + 5 * 2**20

        number = 0
        async for _ in events:
            number += 1
            if number == 100:
                break
        assert runtime.sent >= 100


async def test_long_request_reset_while_unread_fails_with_the_reason(autojump_clock):
    ours, theirs = lockstep_stream_pair()

    async def connect():
        await trio.lowlevel.checkpoint()
        return ours

    async def runtime():
        wide = SettingsFrame(0, settings={SettingCodes.INITIAL_WINDOW_SIZE: 2**25})
        await theirs.send_all(wide.serialize() + WindowUpdateFrame(0, window_increment=2**25).serialize())
        await theirs.receive_some(1000)
        await wait_all_tasks_blocked()
        assert channel._connections[-1]._wire.crowded
        await theirs.send_all(RstStreamFrame(1, error_code=2).serialize())
        await wait_all_tasks_blocked()
        while await theirs.receive_some(2**20):
            pass

    async with trio.open_nursery() as nursery, running(Channel("memory", connector=connect)) as channel:
        nursery.start_soon(runtime)
        with pytest.raises(RuntimeFailure, match="HTTP/2 error code 2"):
            await channel.unary_raw(VERSION, pb.VersionRequest(version="x" * 6_000_000))
        nursery.cancel_scope.cancel()


async def test_a_method_the_runtime_lacks_is_not_implemented_and_nothing_else(autojump_clock):
    async with memory_pair(FakeRuntime()) as channel:
        with pytest.raises(NotImplementedByRuntime, match="not here"):
            await RuntimeServiceStub(channel).Status(pb.StatusRequest())
        with pytest.raises(NotImplementedByRuntime, match=r"unknown method /no\.Such/Method"):
            await channel.unary_raw("/no.Such/Method", ANY)
        assert await channel.unary_raw(VERSION, ANY)


async def test_a_stream_of_a_thousand_messages_arrives_in_order(autojump_clock):
    async with memory_pair(FakeRuntime()) as channel:
        replies = await RuntimeServiceStub(channel).StreamContainers(pb.StreamContainersRequest())

    assert list(map(str, range(1000))) == [reply.containers[0].id for reply in replies]


async def test_a_reply_that_is_no_protobuf_is_a_failure_with_the_methods_name(autojump_clock):
    class Wrong(FakeRuntime):
        async def Version(self, stream):
            await stream.send_raw(b"\xff\xff\xff")

    async with memory_pair(Wrong()) as channel:
        with pytest.raises(RuntimeFailure, match="RuntimeService/Version: the runtime's reply cannot be read"):
            await RuntimeServiceStub(channel).Version(ANY)


async def test_waiting_until_the_channel_is_connected(autojump_clock):
    network = MemoryNetwork()
    network.up = False
    async with trio.open_nursery() as nursery, running(Channel("memory", connector=network.connect)) as channel:
        await nursery.start(serve, [FakeRuntime()], network)
        with trio.move_on_after(5) as scope:
            await channel.wait_connected()
        assert scope.cancelled_caught
        with trio.fail_after(5):
            async with trio.open_nursery() as waiters:
                for _ in range(20):
                    waiters.start_soon(channel.wait_connected)
                waiters.start_soon(channel.unary_raw, VERSION, ANY)
                await wait_all_tasks_blocked()
                network.up = True
        nursery.cancel_scope.cancel()
