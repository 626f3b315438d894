"""Starts that were given up: what the runtime left of them goes before the next one is made, or stays for good."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_node
from trikubelet.model.runtime import NO_PROGRAM, ContainerState
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.k8s import Pod

WEB = pod("web", container("main"), uid="uid-web", policy="Never")
REFUSED = "cannot delete running task"


class Stubborn(MemoryRuntime):
    """A runtime that does not remove some containers. ``asked``: how often it was to."""

    kept: frozenset[str] = frozenset()
    asked = 0

    async def remove_container(self, container_id: str) -> None:
        if container_id in self.kept:
            self.asked += 1
            raise RuntimeFailure(REFUSED, "FAILED_PRECONDITION")
        await super().remove_container(container_id)


@asynccontextmanager
async def agent(bench: Bench, runtime: MemoryRuntime, *pods: Pod) -> AsyncIterator[Node]:
    node = bench.build_node(runtime=runtime)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot(pods))
        yield node
        nursery.cancel_scope.cancel()


async def with_a_start_given_up(bench: Bench, reason: str) -> str:
    """The id of the pod's container, which was made and, as the runtime tells it, never ran."""
    async with bench.agent(WEB) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
    [made] = bench.world.all_containers()
    held = bench.world.containers[made.id]
    held.status = replace(made, state=ContainerState.CREATED, started_at=0, reason=reason)
    held.run = None
    return made.id


async def test_what_the_runtime_keeps_of_a_start_it_gave_up_keeps_no_pod_from_running(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    left = await with_a_start_given_up(bench, NO_PROGRAM)
    runtime = Stubborn(bench.world, bench.problems)
    runtime.kept = frozenset({left})
    async with agent(bench, runtime, WEB) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        await trio.sleep(200)

        assert ["main"] == bench.running()
        assert {0, 1} == {one.attempt for one in bench.world.all_containers()}
        assert "Running" == phase(node, "uid-web")
    assert 1 == sum("keeps the rest of it" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("reason", ["", "StartError"])
async def test_start_that_may_have_run_its_program_is_waited_for(reason: str, autojump_clock: MockClock) -> None:
    bench = Bench()
    left = await with_a_start_given_up(bench, reason)
    runtime = Stubborn(bench.world, bench.problems)
    runtime.kept = frozenset({left})
    async with agent(bench, runtime, WEB) as node:
        await until(lambda: runtime.asked > 1)
        status = node.statuses.get("uid-web")

        assert [] == bench.running()
        assert status is not None
        [shown] = status.container_statuses
        assert shown.state is not None
        assert shown.state.waiting is not None
        assert ("CreateContainerError", REFUSED) == (shown.state.waiting.reason, shown.state.waiting.message)

        runtime.kept = frozenset()
        await until(lambda: bench.running() == ["main"])
        assert {0} == {one.attempt for one in bench.world.all_containers()}


async def test_what_is_left_goes_only_when_the_next_one_can_be_made(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then nothing else tells that the pod goes on."""
    bench = Bench()
    left = await with_a_start_given_up(bench, "")
    with monkeypatch.context() as patch:

        def fail(directory: str, name: str) -> list[int]:
            raise OSError(errno.EIO, "no disk")

        patch.setattr(bench.files, "log_attempts", fail)
        async with bench.agent(WEB) as node:
            await trio.sleep(30)
            assert [left] == [one.id for one in bench.world.all_containers()]
            assert "Pending" == phase(node, "uid-web")
    async with bench.agent(WEB) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
    assert [0] == [one.attempt for one in bench.world.all_containers()]


async def test_the_next_one_that_cannot_be_made_tells_of_itself_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    left = await with_a_start_given_up(bench, NO_PROGRAM)
    bench.problems.odds = Odds(error=1.0, only=frozenset({"CreateContainer"}))
    runtime = Stubborn(bench.world, bench.problems)
    runtime.kept = frozenset({left})
    async with agent(bench, runtime, WEB) as node:
        await until(lambda: runtime.asked > 2)
        assert not any("keeps the rest of it" in record.getMessage() for record in caplog.records)
        bench.problems.odds = Odds(0.002)
        await until(lambda: phase(node, "uid-web") == "Running")
    assert 1 == sum("keeps the rest of it" in record.getMessage() for record in caplog.records)


async def test_container_created_before_the_machine_booted_counts_as_a_run(autojump_clock: MockClock) -> None:
    """A machine that lost its power may have lost the runtime's record of the start, too."""
    bench = Bench()
    await with_a_start_given_up(bench, "")
    bench.world.reboot()
    async with bench.agent(WEB) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        status = node.statuses.get("uid-web")

        assert [1] == [one.attempt for one in bench.world.all_containers()]
        assert status is not None
        assert [1] == [one.restart_count for one in status.container_statuses]
