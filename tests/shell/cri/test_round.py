"""Many unary calls asked by one task: every answer in its place, the first error at once, never too many."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from trio.testing import wait_all_tasks_blocked

from shell.cri.grpckit import VERSION, Bare, MemoryNetwork, calls_left, cancelled_at_every_step, running
from trikubelet.cri.channel import Channel
from trikubelet.cri.round import UNDER_WAY_MAX, UnaryCall
from trikubelet.cri.server import serve
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime_errors import NotFound, ResourceExhausted


class Oracle(Bare):
    """Answers with the question, when its time has come: ``3 gone`` is not found after three seconds."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0

    async def Version(self, stream: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            said = (await stream.recv_message()).version
            seconds, _, what = said.partition(" ")
            await trio.sleep(float(seconds))
            if what == "gone":
                raise GRPCError(Status.NOT_FOUND, said)
            if what == "full":
                raise GRPCError(Status.RESOURCE_EXHAUSTED, said)
            await stream.send_message(pb.VersionResponse(version=said))
        finally:
            self.inside -= 1


@asynccontextmanager
async def asking(oracle: Oracle, **options: Any):
    """A channel to it."""
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: serve([oracle], network, task_status=task_status, **options))
        async with running(Channel("memory", connector=network.connect)) as channel:
            await channel.wait_connected()
            yield channel
        nursery.cancel_scope.cancel()


async def answers(channel: Channel, *said: str) -> list[str]:
    """The answers to these calls; of what was not found, ``-``."""
    calls = [UnaryCall(VERSION, pb.VersionRequest(version=one).SerializeToString()) for one in said]
    return [
        "-" if isinstance(answer, NotFound) else pb.VersionResponse.FromString(answer).version
        for answer in await channel.round(calls)
    ]


async def test_every_answer_stands_in_the_place_of_its_question_whenever_it_came(autojump_clock: Any) -> None:
    async with asking(Oracle()) as channel:
        assert ["3 a", "-", "2 b", "0 c"] == await answers(channel, "3 a", "1 gone", "2 b", "0 c")
        assert 3 == trio.current_time()
        assert [] == await answers(channel)


async def test_first_error_is_raised_at_once_and_cancels_the_others(
    autojump_clock: Any,
) -> None:
    oracle = Oracle()
    async with asking(oracle) as channel:
        with pytest.raises(ResourceExhausted, match="1 full"):
            await answers(channel, "120 a", "2 full", "1 full", "0 b")
        assert 1 == trio.current_time()
        await wait_all_tasks_blocked()

        assert (0, 0) == (oracle.inside, calls_left(channel))


async def test_a_pod_with_hundreds_of_dead_containers_leaves_the_runtime_room_for_others(autojump_clock: Any) -> None:
    oracle = Oracle()
    said = [f"{1 + number % 3} {number}" for number in range(100)]
    async with asking(oracle) as channel:
        assert said == await answers(channel, *said)

    assert UNDER_WAY_MAX == oracle.most


async def test_questions_wait_for_room_where_the_runtime_takes_few_at_a_time(autojump_clock: Any) -> None:
    oracle = Oracle()
    said = [f"1 {number}" for number in range(9)]
    async with asking(oracle, calls_max=2) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(answers, channel, "10 first", "10 second")
        await wait_all_tasks_blocked()

        assert said == await answers(channel, *said)
    assert 2 == oracle.most


async def test_lists_among_long_rounds_wait_in_turn_and_no_place_is_left_empty(autojump_clock: Any) -> None:
    waits: list[float] = []

    async def whole_round() -> None:
        await answers(channel, *("1 status" for _ in range(100)))

    async with asking(Oracle(), calls_max=16) as channel:
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(whole_round)
            await trio.sleep(0.5)
            for _ in range(10):
                asked = trio.current_time()
                await answers(channel, "0 list")
                waits.append(trio.current_time() - asked)

        assert 1 >= max(waits)  # four rounds stand before it, and sixteen places are free every second
        assert 400 / 16 == trio.current_time()


async def test_single_calls_do_not_overtake_one_another(autojump_clock: Any) -> None:
    async def single_calls() -> None:
        for _ in range(10):
            await answers(channel, "1 status")

    async with asking(Oracle(), calls_max=16) as channel, trio.open_nursery() as nursery:
        for _ in range(64):
            nursery.start_soon(single_calls)
        await trio.sleep(0.5)
        asked = trio.current_time()
        await answers(channel, "0 list")

        assert 64 / 16 >= trio.current_time() - asked


async def test_cancelled_call_in_the_queue_delays_no_other(autojump_clock: Any) -> None:
    async with asking(Oracle(), calls_max=1) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(answers, channel, "5 first")
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await answers(channel, "0 given up", "0 as well")
        assert 0 == channel.statistics().calls_waiting
        assert ["0 behind"] == await answers(channel, "0 behind")
        assert 5 == trio.current_time()


async def test_error_is_seen_while_the_next_request_has_no_room(autojump_clock: Any) -> None:
    async with asking(Oracle(), calls_max=2) as channel:
        with pytest.raises(ResourceExhausted):
            await answers(channel, "120 a", "1 full", "0 b")

        assert 1 == trio.current_time()


async def test_a_round_given_up_anywhere_leaves_nothing_behind(autojump_clock: Any) -> None:
    oracle = Oracle()
    async with asking(oracle, calls_max=3) as channel:

        async def once() -> None:
            assert ["0 a", "1 b", "-", "0 c"] == await answers(channel, "0 a", "1 b", "0 gone", "0 c")

        async for _ in cancelled_at_every_step(once):
            await wait_all_tasks_blocked()
            assert (0, 0) == (oracle.inside, calls_left(channel))


async def test_calls_are_counted_with_their_time_and_those_given_up_have_failed(autojump_clock: Any) -> None:
    async with asking(Oracle()) as channel:
        await answers(channel, "3 a", "1 gone")
        with trio.move_on_after(2):
            await answers(channel, "120 a")
        with pytest.raises(ResourceExhausted):
            await answers(channel, "1 full")

        spread, failures = channel.figures.durations[VERSION], channel.figures.failures
        assert (4, pytest.approx(3 + 1 + 2 + 1), {VERSION: 3}) == (spread.buckets[-1][1], spread.sum, failures)
