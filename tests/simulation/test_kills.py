"""What becomes of a call whose caller is killed before it is answered: it has had its effect, or that is taken back."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from trio.testing import MockClock

from trikubelet.model.runtime import ContainerState
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
from trikubelet.model.runtime_errors import RuntimeUnavailable
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.world import World

SANDBOX = SandboxConfig(name="web", uid="uid-1", namespace="default", attempt=0)
CONTAINER = ContainerConfig(name="main", attempt=0, image="app:1")


async def start_one(runtime: MemoryRuntime) -> None:
    sandbox = await runtime.run_sandbox(SANDBOX)
    await runtime.start_container(await runtime.create_container(sandbox, CONTAINER, SANDBOX))


async def what_is_left(killed_at: str, seed: int) -> list[ContainerState]:
    """The states of the containers when the killed agent's successor looks."""
    world = World()
    runtime = MemoryRuntime(world, chance=random.Random(seed))
    runtime.at_effect[killed_at] = runtime.kill_caller
    with pytest.raises(RuntimeUnavailable):
        await start_one(runtime)
    with pytest.raises(RuntimeUnavailable):
        await runtime.list_sandboxes()  # a killed agent asks for nothing
    successor = MemoryRuntime(world)
    return [(await successor.container_status(one.id)).decode().state for one in world.all_containers()]


@pytest.mark.parametrize(
    ("killed_at", "possible"),
    [
        ("CreateContainer", {(), (ContainerState.CREATED,)}),
        ("StartContainer", {(ContainerState.CREATED,), (ContainerState.RUNNING,)}),
    ],
)
async def test_a_killed_agents_call_is_done_or_taken_back(
    autojump_clock: MockClock, killed_at: str, possible: set[tuple[ContainerState, ...]]
) -> None:
    assert possible == {tuple(await what_is_left(killed_at, seed)) for seed in range(12)}


async def test_a_start_that_was_taken_back_counts_as_never_made(autojump_clock: MockClock) -> None:
    world = World()
    runtime = MemoryRuntime(world)
    sandbox = await runtime.run_sandbox(SANDBOX)
    first = await runtime.create_container(sandbox, CONTAINER, SANDBOX)
    await runtime.start_container(first)
    world.give_start_up(first)

    await runtime.start_container(await runtime.create_container(sandbox, replace(CONTAINER, attempt=1), SANDBOX))

    assert 1 == len(world.runs["uid-1", "main"])
