"""A pod's syncs, given up, stopped or killed with their agent at every checkpoint there is.

The worker's task is watched step by step. After its n-th step, while it waits at a checkpoint, something takes it away;
then life goes on and must come out right. n goes up until the pod is up before it is reached. The world itself refuses
a second live sandbox and a second running instance of a container, and the witness watches the calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.pods.shellkit import Bench, does, phase, until
from trikubelet.app.node import run_node
from trikubelet.kit.settle import settled
from trikubelet.model import k8s
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerState
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

    from trikubelet.app.node import Node

STEPS_MAX = 400
UID = "uid-web"
ALL = ["a", "b", "sidecar"]


def whole_pod() -> k8s.Pod:
    """A pod with something of everything."""
    init = [container("first", ["exit", "0", "0.1"]), container("sidecar", restart_policy="Always")]
    hooks = k8s.Lifecycle(post_start=does("exit", "0", "0.1"), pre_stop=does("echo", "bye"))
    web = pod("web", container("a", lifecycle=hooks), container("b", image="web:2"), init=init, grace=2)
    scratch = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
    return msgspec.structs.replace(web, spec=msgspec.structs.replace(web.spec, volumes=(scratch,)))


class Trap(trio.abc.Instrument):
    """Springs after the n-th step of a pod's task."""

    def __init__(self, n: int, spring: Callable[[], None]) -> None:
        self._left = n
        self._spring = spring
        self.has_sprung = False

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.has_sprung or "PodWorkers._live" not in task.name:
            return
        self._left -= 1
        if self._left == 0:
            self.has_sprung = True
            self._spring()


def starts_of(bench: Bench, name: str) -> int:
    return sum(f" web/{name}" in line and " start c" in line for line in bench.world.trace)


async def bring_up(bench: Bench, trap: Callable[[Node, trio.CancelScope], Callable[[], None]], n: int) -> bool:
    """An agent brings the pod up with a trap set. Whether the trap sprang before the pod was up."""
    node = bench.build_node()
    async with trio.open_nursery() as nursery:
        instrument = Trap(n, trap(node, nursery.cancel_scope))
        trio.lowlevel.add_instrument(instrument)
        try:
            await nursery.start(run_node, node)
            node.slots["file"].put(Snapshot((whole_pod(),)))
            await until(lambda: bench.running() == ALL or instrument.has_sprung)
            await aftermath(bench, node, wanted=trap is not remove or not instrument.has_sprung)
        finally:
            trio.lowlevel.remove_instrument(instrument)
            nursery.cancel_scope.cancel()
    return instrument.has_sprung


async def aftermath(bench: Bench, node: Node, *, wanted: bool) -> None:
    """Life goes on: the pod comes up, or, when it was removed, goes."""
    if wanted:
        await until(lambda: bench.running() == ALL and phase(node, UID) == "Running")
    else:
        await until(lambda: not bench.world.sandboxes and not bench.pods_on_disk())


def give_up(node: Node, agent: trio.CancelScope) -> Callable[[], None]:
    def spring() -> None:
        worker = node.workers.worker(UID)
        if worker is not None and worker._sync is not None:
            worker._sync.cancel()

    return spring


def remove(node: Node, agent: trio.CancelScope) -> Callable[[], None]:
    return lambda: node.slots["file"].put(Snapshot())


def kill(node: Node, agent: trio.CancelScope) -> Callable[[], None]:
    return agent.cancel


async def walk(trap: Callable[[Node, trio.CancelScope], Callable[[], None]], check: Callable[[Bench], None]) -> int:
    for n in range(1, STEPS_MAX):
        bench = Bench(Bounds(resync_seconds=5, retry_seconds=1))
        sprang = await bring_up(bench, trap, n)
        if trap is kill:
            async with bench.agent(whole_pod()) as node:
                await aftermath(bench, node, wanted=True)
        check(bench)
        if not sprang:
            return n
    pytest.fail(f"the pod was not up after {STEPS_MAX} steps")


async def test_a_sync_given_up_anywhere_is_made_good(autojump_clock: MockClock) -> None:
    def check(bench: Bench) -> None:
        assert ALL == bench.running()
        assert {1} == {starts_of(bench, name) for name in ALL}

    assert 20 < await walk(give_up, check)


async def test_a_pod_removed_anywhere_leaves_nothing_and_is_not_started_after(autojump_clock: MockClock) -> None:
    def check(bench: Bench) -> None:
        trace = "\n".join(bench.world.trace)
        if bench.running():
            return  # it was up before the trap sprang
        assert not bench.world.containers
        assert not bench.world.sandboxes
        assert not bench.volumes.mounted
        stopped = trace.find("StopPodSandbox")
        assert -1 == stopped or " start c" not in trace[stopped:]

    assert 20 < await walk(remove, check)


async def test_an_agent_killed_anywhere_is_succeeded_by_one_that_starts_nothing_twice(
    autojump_clock: MockClock,
) -> None:
    def check(bench: Bench) -> None:
        assert ALL == bench.running()
        assert {1} == {starts_of(bench, name) for name in ALL}
        assert 1 == len(bench.world.sandboxes)
        assert not [c for c in bench.world.all_containers() if c.state is ContainerState.UNKNOWN]

    assert 20 < await walk(kill, check)


# ---- settle, on which this rests ----


async def test_call_of_a_cancelled_sync_does_not_begin(autojump_clock: MockClock) -> None:
    begun = []

    async def call() -> None:
        begun.append(True)
        await trio.lowlevel.checkpoint()

    with trio.CancelScope() as scope:
        scope.cancel()
        async with settled(10):
            await call()

    assert [] == begun
    assert scope.cancelled_caught


async def test_a_call_cancelled_in_the_same_breath_as_it_was_asked_for_does_not_begin(
    autojump_clock: MockClock,
) -> None:
    begun = []

    async def call() -> None:
        begun.append(True)
        await trio.lowlevel.checkpoint()

    for _ in range(50):  # the order in which Trio runs ready tasks is drawn
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def sync(scope: trio.CancelScope = scope) -> None:
                with scope:
                    await trio.lowlevel.checkpoint()
                    begun.clear()
                    async with settled(10):
                        await call()

            async def interrupt(scope: trio.CancelScope = scope) -> None:
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
                if not begun:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
                    await trio.lowlevel.checkpoint()
                    assert not begun

            nursery.start_soon(sync)
            nursery.start_soon(interrupt)
