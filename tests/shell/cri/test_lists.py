"""Lists past the message limit: streamed where the runtime can, else in parts, and whole again once they fit."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from trio.testing import wait_all_tasks_blocked

from shell.cri.crowdkit import (
    CREATED,
    EXITED,
    NOT_READY,
    READY,
    RUNNING,
    UNKNOWN,
    Crowd,
    all_of,
    containers_of,
    talking,
)
from trikubelet.core.relist import Relist
from trikubelet.cri.lists import PARTS_AT_ONCE_MAX, REFUSED_SECONDS
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime_errors import MessageTooLarge, RuntimeFailure, RuntimeUnavailable

# ---- which way is taken ----


async def test_a_list_that_fits_costs_one_call(autojump_clock: object) -> None:
    crowd = Crowd()
    crowd.add_pod("a", RUNNING)
    async with talking(crowd) as (runtime, _):
        for _ in range(3):
            assert all_of(crowd) == await containers_of(runtime)

    assert ["ListContainers"] * 3 == crowd.asked


async def test_a_list_that_outgrew_one_message_is_streamed_until_it_has_shrunk(autojump_clock: object) -> None:
    crowd = Crowd(10_000, streams=True)
    for number in range(20):
        crowd.add_pod(f"p{number}", EXITED)
    async with talking(crowd) as (runtime, _):
        for _ in range(2):
            assert all_of(crowd) == await containers_of(runtime)
        for number in range(15):
            del crowd.containers[f"p{number}/0"]
        for _ in range(2):
            assert all_of(crowd) == await containers_of(runtime)

    assert ["ListContainers", *["StreamContainers"] * 3, "ListContainers"] == crowd.asked


async def test_a_runtime_without_streams_is_asked_by_state(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    for number in range(9):
        crowd.add_pod(f"p{number}", RUNNING, EXITED)
    by_state = [f"ListContainers {state}" for state in (CREATED, RUNNING, UNKNOWN, EXITED)]
    async with talking(crowd) as (runtime, _):
        for _ in range(2):
            assert all_of(crowd) == await containers_of(runtime)

    assert ["ListContainers", "StreamContainers", *by_state, *by_state] == crowd.asked


async def test_only_the_state_that_is_too_large_is_split_and_only_the_namespace(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    crowd.add_pod("small", RUNNING, EXITED, namespace="few")
    for number in range(5):
        crowd.add_pod(f"p{number}", RUNNING, EXITED, EXITED, EXITED, namespace="many")
    async with talking(crowd) as (runtime, _):
        assert all_of(crowd) == await containers_of(runtime)
        crowd.asked.clear()
        assert all_of(crowd) == await containers_of(runtime)
        assert "containers are listed by pod" in (await runtime.info()).list_warning

    by_pod = [f"ListContainers {EXITED} many p{number}" for number in range(5)]
    assert [f"ListContainers {state}" for state in (CREATED, RUNNING, UNKNOWN)] == crowd.asked[:3]
    assert "ListPodSandbox" == crowd.asked[3]
    assert sorted([f"ListContainers {EXITED} few", *by_pod]) == sorted(crowd.asked[4:])


async def test_sandboxes_are_split_by_state(autojump_clock: object) -> None:
    crowd = Crowd(sandboxes_max=1_000)
    for number in range(16):
        crowd.add_pod(f"p{number}", state=number % 2)
    async with talking(crowd) as (runtime, _):
        relist = Relist()
        relist.observe(await runtime.list_sandboxes(), [])

    assert {f"p{number}" for number in range(16)} == {pod.uid for pod in relist.pods()}
    assert [f"ListPodSandbox {state}" for state in (READY, NOT_READY)] == crowd.asked[-2:]


async def test_one_pod_is_asked_for_as_if_nothing_were_split(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    for number in range(20):
        crowd.add_pod(f"p{number}", EXITED)
    async with talking(crowd) as (runtime, _):
        await runtime.list_containers()
        crowd.asked.clear()
        assert {"p7/0": EXITED} == await containers_of(runtime, "p7")

    assert ["ListContainers p7"] == crowd.asked


async def test_a_pod_too_large_for_one_message_is_split_by_state(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    crowd.add_pod("p", *[RUNNING] * 6, *[EXITED] * 6)
    async with talking(crowd) as (runtime, _):
        assert all_of(crowd) == await containers_of(runtime, "p")


async def test_what_cannot_be_split_any_further_is_named(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    crowd.add_pod("p", *[EXITED] * 12)
    crowd.add_pod("q", EXITED)
    async with talking(crowd) as (runtime, _):
        for _ in range(2):
            with pytest.raises(MessageTooLarge, match=r"the exited containers of pod p do not fit .* remove dead ones"):
                await runtime.list_containers()
        assert 1 == crowd.asked.count("ListContainers"), "it is known by now that one message does not do"
        assert {"q/0": EXITED} == await containers_of(runtime, "q")


async def test_of_too_many_ready_sandboxes_nothing_untrue_is_said(autojump_clock: object) -> None:
    crowd = Crowd(sandboxes_max=1000)
    for number in range(40):
        crowd.add_pod(f"p{number}")
    async with talking(crowd) as (runtime, _):
        with pytest.raises(MessageTooLarge, match=r"the ready sandboxes do not fit .*: move pods to other nodes, or"):
            await runtime.list_sandboxes()
        warning = (await runtime.info()).list_warning

    assert warning.startswith("ready sandboxes cannot be listed even by themselves: not all fit in one message")


@pytest.mark.parametrize("state", [READY, NOT_READY])
async def test_sandboxes_are_listed_again_soon_after_they_fit(autojump_clock: object, state: int) -> None:
    crowd = Crowd(sandboxes_max=1000)
    for number in range(40):
        crowd.add_pod(f"p{number}", state=state)
    async with talking(crowd) as (runtime, _):
        for _ in range(3):
            with pytest.raises(MessageTooLarge, match="sandboxes do not fit in one message"):
                await runtime.list_sandboxes()
        assert 2 == crowd.refused, "neither all nor that state is asked for again at once"
        for number in range(39):
            del crowd.sandboxes[f"s-p{number}"]
        await trio.sleep(REFUSED_SECONDS)
        crowd.asked.clear()
        for _ in range(2):
            [chunk] = await runtime.list_sandboxes()
            assert ["s-p39"] == [one.id for one in pb.ListPodSandboxResponse.FromString(chunk).items]
        assert ["ListPodSandbox"] * 2 == crowd.asked
        assert "" == (await runtime.info()).list_warning


# ---- what is remembered ----


async def test_a_list_is_whole_again_once_it_has_shrunk_and_says_so(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    for number in range(20):
        crowd.add_pod(f"p{number}", EXITED)
    async with talking(crowd) as (runtime, _):
        assert "" == (await runtime.info()).list_warning
        await runtime.list_containers()
        assert "containers are listed by pod" in (await runtime.info()).list_warning
        while crowd.containers:
            crowd.containers.popitem()
            assert all_of(crowd) == await containers_of(runtime)
        crowd.asked.clear()
        await runtime.list_containers()
        assert ["ListContainers"] == crowd.asked
        assert "" == (await runtime.info()).list_warning

    assert crowd.refused < 20, "one message must not be tried again and again while the list shrinks"


async def test_it_is_not_said_that_containers_are_listed_by_pod_once_their_namespace_has_gone(
    autojump_clock: object,
) -> None:
    crowd = Crowd(10_000)
    for namespace in ("gone", "stays"):
        for number in range(20):
            crowd.add_pod(f"{namespace}{number}", EXITED, namespace=namespace)
    async with talking(crowd) as (runtime, _):
        await runtime.list_containers()
        assert "containers are listed by pod" in (await runtime.info()).list_warning
        crowd.containers.clear()
        crowd.sandboxes.clear()
        for number in range(9):  # each state fits, the whole does not
            crowd.add_pod(f"new{number}", CREATED, RUNNING, namespace="stays")
        for _ in range(3):
            assert all_of(crowd) == await containers_of(runtime)

        assert "containers are listed by state" in (await runtime.info()).list_warning


async def test_what_was_learnt_of_a_runtime_is_forgotten_with_the_connection(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    for number in range(20):
        crowd.add_pod(f"p{number}", EXITED)
    async with talking(crowd) as (runtime, network):
        await runtime.list_containers()
        crowd.streams = True  # as after an upgrade
        await network.server_ends[-1].aclose()
        await trio.sleep(5)
        crowd.asked.clear()
        for _ in range(2):
            assert all_of(crowd) == await containers_of(runtime)

    assert ["ListContainers", "StreamContainers", "StreamContainers"] == crowd.asked


# ---- bounds ----


async def test_parts_are_asked_for_a_few_at_a_time(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    for number in range(50):
        crowd.add_pod(f"p{number}", EXITED)
    async with talking(crowd) as (runtime, _):
        await runtime.list_containers()

    assert 1 < crowd.inside_most <= PARTS_AT_ONCE_MAX


async def test_a_list_of_too_many_parts_is_given_up(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trikubelet.cri.lists.PARTS_MAX", 19)
    crowd = Crowd(10_000)
    for number in range(20):
        crowd.add_pod(f"p{number}", EXITED)
    async with talking(crowd) as (runtime, _):
        with pytest.raises(MessageTooLarge, match="would take 20 parts"):
            await runtime.list_containers()


@pytest.mark.parametrize(
    ("streams", "states"), [(True, [EXITED] * 20), (False, [EXITED] * 20), (False, [RUNNING, EXITED] * 8)]
)
async def test_a_list_has_a_bound_in_any_way(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, streams: bool, states: list[int]
) -> None:
    monkeypatch.setattr("trikubelet.cri.lists.LIST_BYTES_MAX", 15_000)
    crowd = Crowd(10_000, streams=streams)
    for number, state in enumerate(states):
        crowd.add_pod(f"p{number}", state)
    async with talking(crowd) as (runtime, _):
        with pytest.raises(MessageTooLarge, match="longer than 15000 bytes"):
            await runtime.list_containers()
        await wait_all_tasks_blocked()
        assert 0 == crowd.inside


# ---- problem ----


async def test_a_part_that_fails_is_no_list(autojump_clock: object) -> None:
    crowd = Crowd(10_000)
    for number in range(20):
        crowd.add_pod(f"p{number}", EXITED)

    def break_at(told: str) -> None:
        if told.endswith("p11"):
            raise GRPCError(Status.UNAVAILABLE, "going down")

    crowd.then = break_at
    async with talking(crowd) as (runtime, _):
        with pytest.raises(RuntimeUnavailable, match="going down"):
            await runtime.list_containers()
        await wait_all_tasks_blocked()
        assert 0 == crowd.inside


async def test_a_stream_that_fails_half_way_is_no_list(autojump_clock: object) -> None:
    class Breaks(Crowd):
        async def StreamContainers(self, stream: Any) -> None:
            await stream.recv_message()
            await stream.send_message(pb.StreamContainersResponse(containers=[pb.Container(id="half")]))
            raise GRPCError(Status.UNAVAILABLE, "going down")

    crowd = Breaks(10)
    crowd.add_pod("p", EXITED)
    async with talking(crowd) as (runtime, _):
        with pytest.raises(RuntimeUnavailable, match="going down"):
            await runtime.list_containers()


async def test_a_part_that_cannot_be_read_is_a_failure_of_the_runtime(autojump_clock: object) -> None:
    class Garbles(Crowd):
        async def ListContainers(self, stream: Any) -> None:
            if (await stream.recv_message()).HasField("filter"):
                await stream.send_raw(b"\x0a\xff")
                return
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "trying to send message larger than max (2 vs. 1)")

    async with talking(Garbles()) as (runtime, _):
        with pytest.raises(RuntimeFailure, match="cannot be read"):
            await runtime.list_containers()


async def test_a_list_larger_than_our_own_limit_is_split_as_well(autojump_clock: object) -> None:
    crowd = Crowd()
    for number in range(100):
        crowd.add_pod(f"p{number}", EXITED)
    async with talking(crowd, message_bytes_max=64 * 1024) as (runtime, _):
        assert all_of(crowd) == await containers_of(runtime)
