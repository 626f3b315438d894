"""The longest run between two checkpoints: no task does much for every pod of the node in one step.

Counted are the calls that the agent's own code makes in one step of a task (``sys.setprofile``), not time: the count is
the same on every machine. The garbage collector waits meanwhile, or the finalizers of what other tests left behind
would count as calls of the step they happen to run in. A node of few pods and one of many, otherwise alike, come up,
idle and end; what a step costs more on the larger is what it does for every pod. Who does so is named here, with how
much it may be: a thousand calls are some fifty microseconds, so that a node of 1,000 pods is kept from its probes and
streams for a few milliseconds.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
from trio.testing import MockClock

from shell.pods.shellkit import Bench, until
from trikubelet.model import k8s
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

FIRST, FEW, MANY = 5, 25, 75
ASKED: Final = k8s.ResourceRequirements(requests={"cpu": "1m", "memory": "1Mi"})
SIDE: Final = container("b", ports=(k8s.ContainerPort(container_port=80),), resources=ASKED)
PER_POD: Final = {
    "Dispatcher._list_all": 60,  # a full list that shows them all changed: whose inspection is due
    "SyncLoop._serve_changes": 20,  # admission sums up what the other pods are allocated
    "Mux._follow": 15,  # a snapshot is compared with the one before
    "Housekeeping.run": 60,  # what is wanted, what has a worker and what runs are compared; all forget who has ended
    "OrphanedPodCleanup.run": 20,  # whose directories and cgroups may go
    "Inspections.run": 2,  # which pods are out of sight
    "AllocationCheckpoints.run": 40,  # upstream's files have all pods; both are written at most once a second
    "GarbageCollection.run": 35,  # each pod with something dead
}
"""By what a task runs: calls for each pod in one step. All others: less than one."""


class Steps(trio.abc.Instrument):
    """The most calls in one step, by task. The test kit's own are not counted, nor is what they call."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self._calls = 0
        self._in_kit = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._calls = self._in_kit = 0
        sys.setprofile(self._count)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        sys.setprofile(None)
        name = ".".join(task.name.split(".")[-2:])
        self.most[name] = max(self.most[name], self._calls)

    def _count(self, frame: FrameType, event: str, _: Any) -> None:
        is_kit = "/testing/" in frame.f_code.co_filename
        if event == "call":
            self._in_kit += is_kit
        elif event == "return":
            self._in_kit -= is_kit and self._in_kit > 0
        if not self._in_kit and event in ("call", "c_call"):
            self._calls += 1


async def live(pods: int) -> None:
    bench = Bench(allocatable={"cpu": 1_000_000, "memory": 1 << 40, "pods": 1000})
    async with bench.agent(*(pod(f"p{n}", container("a", resources=ASKED), SIDE) for n in range(pods))) as node:
        await until(lambda: len(bench.running()) == 2 * pods, 600)
        await trio.sleep(60)
        node.slots["file"].put(Snapshot((), ()))
        await until(lambda: not node.workers.uids, 600)
        await trio.sleep(60)


@contextmanager
def nothing_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def longest_steps(pods: int) -> Counter[str]:
    """Of a node's life with so many pods."""
    steps = Steps()
    with nothing_collected():
        trio.run(live, pods, clock=MockClock(autojump_threshold=0), instruments=[steps])
    return steps.most


@pytest.mark.slow
@pytest.mark.timeout(180)  # twice a life in which every call is counted
def test_no_step_does_much_for_every_pod() -> None:
    longest_steps(FIRST)  # what a process does but once (imports, caches) is done here
    few, many = longest_steps(FEW), longest_steps(MANY)

    per_pod = {name: (calls - few[name]) / (MANY - FEW) for name, calls in many.items()}
    too_long = {name: grown for name, grown in per_pod.items() if grown > PER_POD.get(name, 1)}
    assert {} == too_long
    assert PER_POD.keys() <= many.keys()
