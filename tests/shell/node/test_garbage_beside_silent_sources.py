"""What is dead of pods beside an API server that has not spoken, which may be for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.model.runtime import ContainerState
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.model.k8s import Pod

SILENT = ("file", "api")


def dead(bench: Bench) -> int:
    """Return the number of containers that do not run."""
    return sum(one.state is not ContainerState.RUNNING for one in bench.world.all_containers())


async def test_one_dead_container_is_kept_of_one_that_crashes(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container("a", ["exit", "1", "30"])), sources=SILENT):
        await trio.sleep(3600)

    assert (1, 1) == (dead(bench), len(bench.world.sandboxes))


@pytest.mark.parametrize("is_edited", [True, False], ids=["edited", "taken away and put back"])
async def test_nothing_is_kept_of_a_static_pod_that_ended(is_edited: bool, autojump_clock: MockClock) -> None:
    bench, web = Bench(), pod("web", container("a"))
    async with bench.agent(web, sources=SILENT) as node:
        for version in range(5):
            await until(lambda: bench.running() == ["a"])
            if is_edited:
                web = pod("web", container("a"), uid=f"uid-{version}")
            else:
                node.slots["file"].put(Snapshot())
                await trio.sleep(2)
            node.slots["file"].put(Snapshot((web,)))
            await trio.sleep(90)

    assert (0, 1) == (dead(bench), len(bench.world.sandboxes))


async def test_what_the_api_server_may_still_want_is_kept(autojump_clock: MockClock) -> None:
    bench = Bench()
    job = pod("job", container("main", ["exit", "0", "1"]), policy="Never", source="api")
    crashes = pod("crashes", container("loop", ["exit", "1", "1"]), source="api")
    async with bench.agent(sources=SILENT) as node:
        node.slots["api"].put(Snapshot((job, crashes)))
        await until(lambda: phase(node, "uid-job") == "Succeeded")
        await until(lambda: bench.running() == ["loop"])
    logs = bench.log_directories()
    async with bench.agent(sources=SILENT):
        await trio.sleep(300)

    assert {"main", "loop"} == {one.name for one in bench.world.all_containers()}
    assert {"uid-job", "uid-crashes"} == {one.uid for one in bench.world.sandboxes.values()}
    assert 2 == len(logs)
    assert logs == bench.log_directories()


def with_deadline(seconds: int) -> Pod:
    """A static pod that may run for so long."""
    web = pod("web", container("a"))
    return msgspec.structs.replace(web, spec=msgspec.structs.replace(web.spec, active_deadline_seconds=seconds))


async def test_a_static_pod_that_comes_back_counts_from_zero_and_has_all_of_its_time(
    autojump_clock: MockClock,
) -> None:
    bench, web = Bench(), with_deadline(60)
    async with bench.agent(web, sources=SILENT) as node:
        for _ in range(3):
            await until(lambda: bench.running() == ["a"])
            await trio.sleep(20)
            node.slots["file"].put(Snapshot())
            await trio.sleep(60)
            node.slots["file"].put(Snapshot((web,)))
        await trio.sleep(50)

        status = node.statuses.get("uid-web")
        assert status is not None
        assert ("Running", [0]) == (status.phase, [one.restart_count for one in status.container_statuses])
