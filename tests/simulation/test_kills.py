"""What becomes of a call whose caller is killed before it is answered: it has had its effect, or that is taken back."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
from trikubelet.model.runtime_errors import RuntimeUnavailable
from trikubelet.testing.chance import Odds, Problems
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.simulation import run_node
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trio.testing import MockClock

SANDBOX = SandboxConfig(name="web", uid="uid-1", namespace="default", attempt=0)
CONTAINER = ContainerConfig(name="main", attempt=0, image="app:1")


async def start_one(runtime: MemoryRuntime) -> None:
    sandbox = await runtime.run_sandbox(SANDBOX)
    await runtime.start_container(await runtime.create_container(sandbox, CONTAINER, SANDBOX))


async def what_is_left(killed_at: str, seed: int) -> list[object]:
    """The states of the sandboxes and containers when the killed agent's successor looks."""
    world = World()
    runtime = MemoryRuntime(world, chance=random.Random(seed))
    runtime.caller.at_effect[killed_at] = runtime.caller.kill
    with pytest.raises(RuntimeUnavailable):
        await start_one(runtime)
    with pytest.raises(RuntimeUnavailable):
        await runtime.list_sandboxes()  # a killed agent asks for nothing
    successor = MemoryRuntime(world)
    boxes = [(await successor.sandbox_status(id_)).decode().state for id_ in world.sandboxes]
    return [*boxes, *[(await successor.container_status(one.id)).decode().state for one in world.all_containers()]]


@pytest.mark.parametrize(
    ("killed_at", "possible"),
    [
        ("RunPodSandbox", {(), (SandboxState.READY,)}),
        ("CreateContainer", {(SandboxState.READY,), (SandboxState.READY, ContainerState.CREATED)}),
        (
            "StartContainer",
            {(SandboxState.READY, ContainerState.CREATED), (SandboxState.READY, ContainerState.RUNNING)},
        ),
    ],
)
async def test_a_killed_agents_call_is_done_or_taken_back(
    autojump_clock: MockClock, killed_at: str, possible: set[tuple[object, ...]]
) -> None:
    assert possible == {tuple(await what_is_left(killed_at, seed)) for seed in range(12)}


async def killed_within(call: Callable[[], Awaitable[object]], runtime: MemoryRuntime, seconds: float) -> float:
    """Kill the caller so many seconds after its call began; how many seconds the call took."""
    began = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def kill() -> None:
            await trio.sleep(seconds)
            runtime.caller.kill()

        nursery.start_soon(kill)
        with pytest.raises(RuntimeUnavailable):
            await call()
    return trio.current_time() - began


async def test_what_a_killed_agent_asked_for_on_the_way_is_not_done(autojump_clock: MockClock) -> None:
    world = World()
    slow = MemoryRuntime(world, Problems(Odds(latency_seconds=0.0, hang=1.0), random.Random(0)))

    assert 1.0 == await killed_within(partial(slow.run_sandbox, SANDBOX), slow, 1.0)
    assert {} == world.sandboxes


async def test_a_killed_agent_does_not_wait_for_a_containers_end(autojump_clock: MockClock) -> None:
    world = World()
    runtime = MemoryRuntime(world)
    sandbox = await runtime.run_sandbox(SANDBOX)
    stubborn = replace(CONTAINER, command=("stubborn",))
    id_ = await runtime.create_container(sandbox, stubborn, SANDBOX)
    await runtime.start_container(id_)

    assert 2.0 == await killed_within(partial(runtime.stop_container, id_, 600), runtime, 2.0)
    assert ContainerState.RUNNING is world.container(id_).state


def test_seeds_kill_agents_in_the_middle_of_their_calls_and_starts_are_taken_back() -> None:
    traces = "\n".join("\n".join(run_node(seed, trace=True).trace) for seed in range(26))

    assert traces.count("** and is killed at once") >= 4
    assert traces.count("** the agent is killed before it is answered") >= 3
    assert traces.count("is taken back") >= 1


async def test_a_start_that_was_taken_back_counts_as_never_made(autojump_clock: MockClock) -> None:
    world = World()
    runtime = MemoryRuntime(world)
    sandbox = await runtime.run_sandbox(SANDBOX)
    first = await runtime.create_container(sandbox, CONTAINER, SANDBOX)
    await runtime.start_container(first)
    world.roll_back_start(first)

    await runtime.start_container(await runtime.create_container(sandbox, replace(CONTAINER, attempt=1), SANDBOX))

    assert 1 == len(world.runs["uid-1", "main"])
