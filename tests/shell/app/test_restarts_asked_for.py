"""A restart that an operator asks for, on a whole node in memory: which containers, how often, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from shell.app.test_node_in_memory import Bench, phase, until
from shell.app.test_view import seen
from trikubelet.app.agent_view import AgentNotes
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation
from trikubelet.pods.restart_requests import REQUESTS_MAX, RestartRequests
from trikubelet.server.node_view import NoSuchPod, NotShown
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_host import VirtualClock

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.app.view import View


def notes(node: Node, view: View) -> AgentNotes:
    nothing: Any = SimpleNamespace()
    return AgentNotes(nothing, nothing, cast("Any", None), node, view, nothing, VirtualClock())


def restarts(node: Node, name: str) -> dict[str, int]:
    status = node.statuses.get(f"uid-{name}")
    assert status is not None
    every = (*status.init_container_statuses, *status.container_statuses)
    return {one.name: one.restart_count for one in every}


def running_id(node: Node, name: str) -> str:
    run = node.cache.get("uid-web").latest(name)
    assert run is not None
    return run.id


async def test_every_container_of_the_pod_is_restarted_once_and_no_other(autojump_clock: MockClock) -> None:
    bench = Bench()
    web = pod("web", container("a"), container("b"), init=[container("side", restart_policy="Always")])
    async with seen(bench, web, pod("api")) as (node, view):
        await until(lambda: phase(node, "web") == phase(node, "api") == "Running")

        assert ["side", "a", "b"] == list(notes(node, view).restart("default", "web", ""))
        await trio.sleep(100)

        assert {"side": 1, "a": 1, "b": 1} == restarts(node, "web")
        assert {"main": 0} == restarts(node, "api")
        assert ["a", "b", "main", "side"] == bench.running()
        messages = [event.message for event in node.events.about("uid-web") if event.reason == "Killing"]
        assert "Container a: a restart was asked for, will be restarted" in messages


async def test_one_container_can_be_named(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with seen(bench, pod("web", container("a"), container("b"))) as (node, view):
        await until(lambda: phase(node, "web") == "Running")
        assert {"b": running_id(node, "b")} == notes(node, view).restart("default", "web", "b")
        await trio.sleep(100)
        assert {"a": 0, "b": 1} == restarts(node, "web")


async def test_what_cannot_be_restarted_is_refused_with_the_reason(autojump_clock: MockClock) -> None:
    bench = Bench()
    once = pod("once", container("a"), policy="Never")
    async with seen(bench, pod("web", container("a")), once) as (node, view):
        await until(lambda: phase(node, "web") == phase(node, "once") == "Running")
        asked = notes(node, view)
        with pytest.raises(NoSuchPod):
            asked.restart("default", "nobody", "")
        with pytest.raises(NotShown, match='has no container "x" that can be restarted; it has a'):
            asked.restart("default", "web", "x")
        with pytest.raises(NotShown, match="a would not be started again: its restart policy is Never"):
            asked.restart("default", "once", "")
        await trio.sleep(50)
        assert {"a": 0} == restarts(node, "once")


async def test_of_a_pod_that_has_ended_its_end_is_reported(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with seen(bench, pod("job", policy="OnFailure")) as (node, view):
        await until(lambda: phase(node, "job") == "Running")
        (job,) = bench.world.running_of("uid-job")
        bench.world.end(job.id, 0)
        await until(lambda: phase(node, "job") == "Succeeded")

        with pytest.raises(NotShown, match='pod "job" has ended permanently: it is Succeeded'):
            notes(node, view).restart("default", "job", "")


def test_a_wish_is_fulfilled_with_the_end_of_its_run_and_wishes_are_bounded() -> None:
    def observed(state: ContainerState) -> PodObservation:
        return PodObservation("u", containers=(ContainerStatus("1", "a", 0, state, 1),))

    wishes = RestartRequests()
    wishes.add(["1"])
    assert {"1"} == wishes.about(observed(ContainerState.RUNNING))
    assert {"1"} == wishes.about(observed(ContainerState.RUNNING))
    assert frozenset() == wishes.about(observed(ContainerState.EXITED))
    assert frozenset() == wishes.about(observed(ContainerState.RUNNING))

    wishes.add(["1", *(f"other-{number}" for number in range(REQUESTS_MAX))])
    assert frozenset() == wishes.about(observed(ContainerState.RUNNING))
