"""The channel against server processes: well-behaved ones of two makes, and one that misbehaves in every way we know.

After each case the channel must be usable and nothing left behind on it.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shell.cri.grpckit import EVENTS, LIST, calls_left, list_of, peer, running
from trikubelet.core import frames_twin
from trikubelet.cri import wire
from trikubelet.cri.channel import Channel, open_channel
from trikubelet.cri.http2 import STREAMS_BEFORE_CLEARANCE
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.cri.v1.api_grpc import RuntimeServiceStub
from trikubelet.model.runtime_errors import (
    MessageTooLarge,
    NotFound,
    NotImplementedByRuntime,
    RuntimeFailure,
    RuntimeLost,
    RuntimeUnavailable,
)

pytestmark = [pytest.mark.usefixtures("either_reader"), pytest.mark.timeout(180)]

MAKES = pytest.mark.parametrize("make", ["ours", "grpcio_server"])
ANY = pb.VersionRequest(version="v")


@pytest.fixture
def endpoint(tmp_path):
    return f"unix://{tmp_path}/r.sock"


def test_the_two_ways_to_read_are_two(either_reader, request):
    (backend,) = (mark for mark in ("rust", "python") if mark in request.node.name)
    frames = wire.Frames(frame_bytes_max=1)
    assert (backend == "python") == isinstance(frames._inner, frames_twin.Frames)


def path_of(endpoint):
    return endpoint.removeprefix("unix://")


@MAKES
@pytest.mark.slow
async def test_a_thousand_calls_at_once_are_all_answered(make, endpoint):
    answers = []

    async def ask(number):
        answers.append((await stub.Version(pb.VersionRequest(version=str(number)))).version)

    async with peer(make, path_of(endpoint)), open_channel(endpoint) as channel:
        stub = RuntimeServiceStub(channel)
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(ask, number)

        assert sorted(map(str, range(1000))) == sorted(answers)
        assert calls_left(channel) == 0


@MAKES
@pytest.mark.slow
async def test_a_reply_of_100_mb_arrives_whole_where_the_limit_allows_it(make, endpoint):
    async with peer(make, path_of(endpoint)), open_channel(endpoint, message_bytes_max=101 * 10**6) as channel:
        reply = await channel.unary_raw(LIST, list_of(100 * 10**6))

        assert 100 * 10**6 == len(reply)
        assert not any(reply[:: 10**6])


@MAKES
async def test_a_reply_above_the_limit_is_refused_and_the_channel_lives_on(make, endpoint):
    async with peer(make, path_of(endpoint)), open_channel(endpoint, message_bytes_max=10**6) as channel:
        with pytest.raises(MessageTooLarge, match="2000000 bytes is larger than max 1000000"):
            await channel.unary_raw(LIST, list_of(2 * 10**6))

        assert 10**6 == len(await channel.unary_raw(LIST, list_of(10**6)))
        assert channel.statistics().reconnects == 0
        assert calls_left(channel) == 0


@MAKES
async def test_a_server_stream_ends_at_the_runtime_when_its_reader_leaves(make, endpoint):
    async with peer(make, path_of(endpoint)), open_channel(endpoint) as channel:
        seen = []
        async with channel.stream_raw(EVENTS, pb.GetEventsRequest()) as events:
            async for raw in events:
                seen.append(pb.ContainerEventResponse.FromString(raw).container_id)
                if len(seen) == 3:
                    break

        assert ["c0", "c1", "c2"] == seen
        assert calls_left(channel) == 0


async def test_statuses_texts_and_deadlines_are_those_of_an_independent_server(endpoint):
    async with peer("grpcio_server", path_of(endpoint)), open_channel(endpoint) as channel:
        stub = RuntimeServiceStub(channel)
        with pytest.raises(NotFound, match=r'^container "ü%" in namespace "k8s.io": not found$'):
            await stub.Version(pb.VersionRequest(version="missing"))
        with pytest.raises(NotImplementedByRuntime):
            await stub.Status(pb.StatusRequest())
        with trio.fail_after(5000):
            assert (await stub.Version(pb.VersionRequest(version="deadline"))).version == "5000"


async def test_a_cancelled_call_ends_at_an_independent_server(endpoint):
    async with peer("grpcio_server", path_of(endpoint)), open_channel(endpoint) as channel:
        stub = RuntimeServiceStub(channel)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stub.Version, pb.VersionRequest(version="wait"))
            await stub.Version(pb.VersionRequest(version="are they in"))
            nursery.cancel_scope.cancel()

        assert (await stub.Version(pb.VersionRequest(version="have they left"))).version == "have they left"


# ---- a runtime that misbehaves ----


async def rough(channel, manner):
    return await channel.unary_raw(f"/rough/{manner}", ANY)


@pytest.mark.parametrize("manner", ["dies", "closes", "rubbish"])
async def test_a_connection_lost_in_the_middle_fails_every_call_on_it(endpoint, manner):
    errors = []

    async def ask(channel, how):
        with pytest.raises(RuntimeLost) as caught:
            await rough(channel, how)
        errors.append(caught.value)

    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        await rough(channel, "well")
        async with trio.open_nursery() as nursery:
            for _ in range(19):
                nursery.start_soon(ask, channel, "holds")
            await wait_all_tasks_blocked()
            assert channel.statistics().calls_in_flight == 19
            await ask(channel, manner)

        assert 20 == len(errors)
        assert channel.statistics().calls_in_flight == 0
        assert channel.statistics().last_error != ""


async def test_a_runtime_that_died_is_waited_for_and_the_waiting_call_answered_once_it_is_back(endpoint):
    answers = []

    async def ask():
        answers.append(await rough(channel, "well"))

    async with open_channel(endpoint) as channel, trio.open_nursery() as nursery:
        async with peer("rough", path_of(endpoint)):
            with pytest.raises(RuntimeLost):
                await rough(channel, "dies")
        await trio.Path(path_of(endpoint)).unlink()
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        assert channel.statistics().calls_waiting == 1
        async with peer("rough", path_of(endpoint)):
            await rough(channel, "well")
        assert [b"fine"] == answers
        assert channel.statistics().reconnects == 1


async def test_calls_below_the_goaway_mark_are_answered_and_those_above_it_are_asked_again(endpoint):
    answers = []

    async def ask(channel):
        answers.append(await rough(channel, "goes"))

    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, channel)
            nursery.start_soon(ask, channel)

        assert [b"first connection", b"second connection"] == answers
        assert "restarting" in channel.statistics().last_error


async def test_a_runtime_that_goes_with_many_words_is_found_again_and_cut_short(endpoint):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        assert [b"an answer"] * 2 == [await rough(channel, "goes_wordily") for _ in range(2)]
        assert channel.statistics().reconnects == 1
        assert "restarting" in channel.statistics().last_error
        assert len(channel.statistics().last_error) < 1100


@pytest.mark.slow
async def test_a_runtime_that_stops_reading_costs_bounded_memory_and_its_callers_their_patience_only(endpoint):
    long = pb.VersionRequest(version="x" * 10**6)
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        await rough(channel, "well")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rough, channel, "stops")
            await wait_all_tasks_blocked(0.05)
            for number in range(2000):
                with trio.move_on_after(0 if number else 0.2):  # each leaves at once: a flood of calls and resets
                    await channel.unary_raw("/rough/well", long)
            nursery.cancel_scope.cancel()

        assert channel._connections[-1]._wire._outbox_bytes < 2 * 2**20
        assert channel.statistics().calls_in_flight == 0
        assert calls_left(channel) == 0


async def test_an_answer_that_trickles_one_byte_at_a_time_arrives(endpoint):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        assert bytes(range(256)) * 4 == await rough(channel, "trickles")


async def test_a_refused_call_is_asked_again_a_few_times(endpoint):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        assert await rough(channel, "refuses") == b"fine"
        with pytest.raises(RuntimeUnavailable, match="refused"):
            await rough(channel, "refuses_always")


@pytest.mark.parametrize(
    ("manner", "error", "words"),
    [
        ("resets", RuntimeFailure, "HTTP/2 error code 2"),
        ("http503", RuntimeUnavailable, "HTTP status 503"),
        ("html", RuntimeFailure, "text/html"),
        ("silent_end", RuntimeFailure, "without saying how it went"),
        ("silent_end_at_its_length", RuntimeFailure, "without saying how it went"),
        ("cut_message", RuntimeFailure, "in the middle of a message"),
        ("compressed", RuntimeFailure, "compressed"),
        ("no_message", RuntimeFailure, "said OK and nothing else"),
        ("two_messages", RuntimeFailure, "more than once"),
        ("after_the_message", RuntimeFailure, "in the middle of a message"),
        ("html_with_a_length", RuntimeFailure, "text/html"),
        ("odd_status", RuntimeFailure, "status 99 and no word"),
        ("blanks", RuntimeFailure, "exit status 1"),
        ("no_number", RuntimeFailure, "status 'fine'"),
        ("long_number", RuntimeFailure, "status '9999"),
    ],
)
async def test_a_wrong_answer_fails_its_own_call_only(endpoint, manner, error, words):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        for _ in range(4):  # headers that have come twice are known, which changes nothing
            with pytest.raises(error, match=words):
                await rough(channel, manner)
            assert await rough(channel, "well") == b"fine"

        assert channel.statistics().reconnects == 0
        assert calls_left(channel) == 0


@pytest.mark.parametrize("manner", ["padded", "with_a_length", "empty_frames"])
async def test_an_unusual_answer_is_an_answer(endpoint, manner):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        for _ in range(4):
            assert await rough(channel, manner) == b"fine"
        assert channel.statistics().reconnects == 0
        assert calls_left(channel) == 0


async def test_a_call_reset_beside_late_headers_of_a_forgotten_one_fails_alone(endpoint):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        await rough(channel, "well")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rough, channel, "holds")
            await wait_all_tasks_blocked()
            (held,) = channel._connections[-1].exchanges
            nursery.cancel_scope.cancel()
        for _ in range(STREAMS_BEFORE_CLEARANCE):
            await rough(channel, "well")
        assert held not in channel._connections[-1]._wire.h2.streams
        with pytest.raises(RuntimeFailure, match="HTTP/2 error code 2"):
            await rough(channel, "resets_with_a_length")

        assert await rough(channel, "well") == b"fine"
        assert channel.statistics().reconnects == 0
        assert calls_left(channel) == 0


@pytest.mark.parametrize(("manner", "words"), [("resets", "HTTP/2 error code 2"), ("blanks", "exit status 1")])
async def test_a_question_that_ends_while_it_waits_for_a_window_waits_no_longer(endpoint, manner, words):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        with trio.fail_after(60), pytest.raises(RuntimeFailure, match=words):
            await channel.unary_raw(f"/rough/{manner}", pb.VersionRequest(version="x" * 200_000))

        assert await rough(channel, "well") == b"fine"
        assert channel.statistics().reconnects == 0
        assert calls_left(channel) == 0


async def test_a_runtime_that_sends_more_than_the_window_allows_is_left(endpoint):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        with trio.fail_after(60):
            async with channel.stream_raw("/rough/floods", ANY) as replies:
                await channel._replaced.park()  # and take nothing until then
                with pytest.raises(RuntimeLost, match="FlowControlError"):
                    _ = [reply async for reply in replies]


async def test_the_runtimes_limit_on_calls_is_kept_by_waiting(endpoint):
    async with peer("rough", path_of(endpoint)), open_channel(endpoint) as channel:
        await rough(channel, "one_call_at_a_time")
        seen = []

        async def ask():
            seen.append(await rough(channel, "one_call_at_a_time"))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(ask)

        assert [b"1"] * 50 == seen


async def test_a_connection_that_is_used_up_is_replaced_without_anyone_noticing(endpoint):
    async with (
        peer("rough", path_of(endpoint)),
        running(Channel(endpoint, calls_per_connection_max=3)) as channel,
    ):
        assert [b"fine"] * 7 == [await rough(channel, "well") for _ in range(7)]
        assert channel.statistics().reconnects == 2
