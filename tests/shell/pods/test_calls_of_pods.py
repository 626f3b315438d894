"""What pods cost the container runtime: calls by method, counted while fifty start together, idle and stop.

The bounds are upstream's own counts, of the same life of the same pods (kubelet v1.36.3 on containerd); a start is
allowed half of its lists. On virtual time a count is nearly the same at every run (tasks take turns in another order),
so it can be held here, where a timing could not. A call there takes 2 ms, so few lists answer for several pods: that
they do is counted by itself, on a slow runtime.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import trio

from shell.pods.shellkit import Bench, until
from trikubelet.app.node import run_node
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import pod
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trio.testing import MockClock

PODS = 50
SETTLED_SECONDS, IDLE_SECONDS = 35.0, 40.0
GARBAGE_SECONDS = 70.0
"""So long are dead sandboxes there at most."""
A_START_MAX = {"ListContainers": 2.5, "ListPodSandbox": 2.5, "PodSandboxStatus": 2.5, "ContainerStatus": 2.5}
A_LIFE_MAX = {
    "ListContainers": 4.6,
    "ListPodSandbox": 4.4,
    "PodSandboxStatus": 5.2,
    "ContainerStatus": 10.5,
    "RunPodSandbox": 1.0,
    "CreateContainer": 1.0,
    "StartContainer": 1.0,
    "StopContainer": 1.0,
    "StopPodSandbox": 2.0,
    "RemovePodSandbox": 1.0,
}


def _too_many(calls: Counter[str], bounds: Mapping[str, float]) -> dict[str, float]:
    """Calls a pod, of each method of which there are more than the bound says."""
    return {call: calls[call] / PODS for call, most in bounds.items() if calls[call] > most * PODS}


async def test_full_list_answers_waiters_from_before_it_began(autojump_clock: MockClock) -> None:
    """Fifty pods are asked for at once of a runtime that takes 0.6 s for the lists of one: most wait when a full list
    begins. Without that rule each is listed by itself, too."""
    calls: Counter[str] = Counter()
    bench = Bench()
    runtime = MemoryRuntime(bench.world, bench.problems, watcher=lambda call, _: calls.update((call,)))
    node = bench.build_node(runtime=runtime)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot(tuple(pod(f"p{n}") for n in range(PODS))))
        await until(lambda: len(bench.running()) == PODS)
        await trio.sleep(SETTLED_SECONDS)
        bench.problems.odds = Odds(0.3)
        calls.clear()
        for n in range(PODS):
            node.pleg.request_relist(f"uid-p{n}")
        await until(lambda: not node.pleg.figures().requests_waiting)
        nursery.cancel_scope.cancel()

    assert PODS / 2 > calls["ListContainers"] > 0


async def test_a_pod_costs_the_runtime_no_more_calls_than_are_allowed_for_it(autojump_clock: MockClock) -> None:
    calls: Counter[str] = Counter()

    def count(call: str, _subject: str) -> None:
        calls[call] += 1

    bench = Bench()
    node = bench.build_node(runtime=MemoryRuntime(bench.world, bench.problems, watcher=count))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot(()))
        await trio.sleep(SETTLED_SECONDS)
        calls.clear()
        node.slots["file"].put(Snapshot(tuple(pod(f"p{n}", grace=1) for n in range(PODS))))
        await until(lambda: len(bench.running()) == PODS)
        at_start = calls.copy()
        await trio.sleep(IDLE_SECONDS)
        node.slots["file"].put(Snapshot(()))
        await until(lambda: not bench.running())
        await until(lambda: not bench.world.sandboxes, GARBAGE_SECONDS)
        nursery.cancel_scope.cancel()

    print({call: number / PODS for call, number in sorted(calls.items())})
    assert {} == _too_many(at_start, A_START_MAX)
    assert {} == _too_many(calls, A_LIFE_MAX)
    assert PODS == calls["RunPodSandbox"] == calls["StopContainer"]  # what is counted did happen
