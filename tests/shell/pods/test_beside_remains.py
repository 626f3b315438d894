"""A pod that starts over beside containers of its earlier life that cannot be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing import world
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.fixture
def nothing_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: MemoryRuntime, identity: str) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeFailure(f"cannot remove {identity}: busy", "FAILED_PRECONDITION")

    for method in ("remove_container", "remove_sandbox"):
        monkeypatch.setattr(MemoryRuntime, method, refuse)


@pytest.mark.usefixtures("nothing_goes")
async def test_an_agent_that_restarts_knows_which_containers_are_of_the_earlier_life(autojump_clock: MockClock) -> None:
    bench = Bench()
    init = container("first", ["exit", "0", "30"])
    job = pod("job", container(command=("exit", "0", "20")), init=(init,), policy="Never")
    async with bench.agent(job) as node:
        await until(lambda: phase(node, "uid-job") == "Succeeded", 120)
        node.slots["file"].put(Snapshot(()))
        await trio.sleep(15)
        node.slots["file"].put(Snapshot((job,)))
        await until(lambda: bench.running() == ["first"], 60)
        await trio.sleep(5)
    async with bench.agent(job) as node:
        await trio.sleep(200)
        assert "Succeeded" == phase(node, "uid-job")
    assert {"first": 2, "main": 2} == {key[1]: len(runs) for key, runs in bench.world.runs.items()}


@pytest.mark.usefixtures("nothing_goes")
async def test_a_deadline_is_counted_from_the_beginning_of_this_life(autojump_clock: MockClock) -> None:
    bench, web = Bench(), pod("web", container())
    web = msgspec.structs.replace(web, spec=msgspec.structs.replace(web.spec, active_deadline_seconds=60))
    async with bench.agent(web) as node:
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(20)
        node.slots["file"].put(Snapshot(()))
        await trio.sleep(60)
        node.slots["file"].put(Snapshot((web,)))
        await until(lambda: bench.running() == ["main"])
    async with bench.agent(web) as node:  # the next agent knows it, too
        await trio.sleep(45)
        assert ("Running", ["main"]) == (phase(node, "uid-web"), bench.running())
        await until(lambda: phase(node, "uid-web") == "Failed", 30)


@pytest.mark.usefixtures("nothing_goes")
async def test_a_clock_set_back_starts_nothing_twice(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, web = Bench(), pod("web", container())
    async with bench.agent(web) as node:
        await until(lambda: bench.running() == ["main"])
        node.slots["file"].put(Snapshot(()))
        await until(lambda: not bench.running())
        await trio.sleep(5)
        monkeypatch.setattr(bench.world, "now_ns", lambda: world.wall_ns() - 600 * 10**9)
        node.slots["file"].put(Snapshot((web,)))
        await until(lambda: bench.running() == ["main"], 60)
        await trio.sleep(300)
        assert ("Running", ["main"]) == (phase(node, "uid-web"), bench.running())
