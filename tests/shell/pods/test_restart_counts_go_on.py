"""The restart counts of a static pod that comes back: they go on where its life before had not ended yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from shell.pods.shellkit import Bench, until
from trikubelet.core.pod_status import every_status
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

    from trikubelet.app.node import Node

WEB = pod("web", container(), init=(container("first", ["exit", "0", "1"]),))


def shown(node: Node, uid: str = "uid-web") -> dict[str, int]:
    """Return the restart count of each container, as the pod's status reports it."""
    status = node.statuses.get(uid)
    return {one.name: one.restart_count for one in every_status(status)} if status is not None else {}


async def begins(bench: Bench) -> None:
    await until(lambda: bench.running() == ["main"])


async def comes_back(bench: Bench, node: Node) -> None:
    """Remove the manifest and write it again."""
    node.slots["file"].put(Snapshot())
    await trio.sleep(0.1)
    node.slots["file"].put(Snapshot((WEB,)))
    await until(lambda: bench.running() != ["main"])
    await begins(bench)


async def test_containers_of_a_pod_that_comes_back_at_once_count_on(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(WEB) as node:
        await begins(bench)
        for count in (1, 2, 3):
            await comes_back(bench, node)
            await until(lambda count=count: shown(node) == {"first": count, "main": count})  # type: ignore[misc]
        await trio.sleep(300)
        assert {"first": 3, "main": 3} == shown(node)


async def test_containers_of_a_pod_that_comes_back_after_its_end_count_from_0(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(WEB) as node:
        await begins(bench)
        await comes_back(bench, node)
        node.slots["file"].put(Snapshot())
        await until(lambda: node.workers.is_finished("uid-web"))
        node.slots["file"].put(Snapshot((WEB,)))
        await begins(bench)
        await until(lambda: shown(node) == {"first": 0, "main": 0})


async def test_a_container_that_waits_is_shown_with_the_count_that_it_goes_on_from(autojump_clock: MockClock) -> None:
    bench = Bench()
    slow = pod("slow", container(), init=(container("first", ["exit", "0", "60"]),))
    async with bench.agent(slow) as node:
        await until(lambda: bench.running() == ["main"], 120)
        node.slots["file"].put(Snapshot())
        await trio.sleep(0.1)
        node.slots["file"].put(Snapshot((slow,)))
        await until(lambda: bench.running() == ["first"])
        await until(lambda: shown(node, "uid-slow") == {"first": 1, "main": 0})
        node.slots["file"].put(Snapshot())  # the second life ends before its main container was made
        await trio.sleep(0.1)
        node.slots["file"].put(Snapshot((slow,)))
        await until(lambda: shown(node, "uid-slow") == {"first": 2, "main": 0})
        await until(lambda: bench.running() == ["main"], 120)
        await until(lambda: shown(node, "uid-slow") == {"first": 2, "main": 1})


async def test_the_next_agent_goes_on_from_the_same_counts(autojump_clock: MockClock) -> None:
    """An init container runs while the agent is restarted, so the runtime has nothing of the main container yet."""
    bench = Bench()
    slow = pod("slow", container(), init=(container("first", ["exit", "0", "60"]),))
    async with bench.agent(slow) as node:
        await until(lambda: bench.running() == ["main"], 120)
        for count in (1, 2):
            node.slots["file"].put(Snapshot())
            await trio.sleep(0.1)
            node.slots["file"].put(Snapshot((slow,)))
            await until(lambda count=count: shown(node, "uid-slow") == {"first": count, "main": 0})  # type: ignore[misc]
    async with bench.agent(slow) as node:
        await until(lambda: bench.running() == ["main"], 120)
        await until(lambda: shown(node, "uid-slow") == {"first": 2, "main": 1})


async def test_a_container_that_never_ran_counts_from_0(autojump_clock: MockClock) -> None:
    bench = Bench()
    stuck = pod("stuck", container(image="nowhere:1"), container("side"))
    async with bench.agent(stuck) as node:
        await until(lambda: bench.running() == ["side"])
        node.slots["file"].put(Snapshot())
        await trio.sleep(0.1)
        node.slots["file"].put(Snapshot((stuck,)))
        await until(lambda: bench.running() != ["side"])
        await until(lambda: shown(node, "uid-stuck") == {"main": 0, "side": 1})
