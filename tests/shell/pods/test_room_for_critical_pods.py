"""A critical pod that does not fit gets room: lesser pods end in order, and it begins when they are over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.core.lifecycle import Starting
from trikubelet.model import k8s
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.testing import MockClock

    from trikubelet.app.node import Node

SOURCES = ("api", "file")
TWO_CORES = {"cpu": 2000, "pods": 10}


def asks(name: str, cpu: str, command: Sequence[str] = ("run",), **fields: Any) -> k8s.Pod:
    resources = k8s.ResourceRequirements(requests={"cpu": cpu})
    return pod(name, container(name, command, resources=resources), **{"source": "api", **fields})


def put_static(node: Node, *pods: k8s.Pod) -> None:
    node.slots["file"].put(Snapshot(pods))


async def test_a_lesser_pod_ends_for_a_critical_one_which_begins_when_it_is_over(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable=TWO_CORES)
    lesser, spared = asks("lesser", "1500m", ["stubborn"], grace=7), asks("spared", "100m")
    async with bench.agent(lesser, spared, sources=SOURCES) as node:
        await until(lambda: ["lesser", "spared"] == bench.running())
        asked = trio.current_time()
        put_static(node, asks("critical", "1", source="file"))
        await until(lambda: "uid-critical" in node.workers)
        while "lesser" in bench.running():
            worker = node.workers.worker("uid-critical")
            assert worker is not None
            assert Starting() == worker.state
            await trio.sleep(0.05)
        assert 7 <= trio.current_time() - asked < 9
        await until(lambda: ["critical", "spared"] == bench.running(), 2)

        ended = node.statuses.get("uid-lesser")
        assert ended is not None
        assert ("Failed", "Preempting", "Preempted in order to admit critical pod") == (
            ended.phase, ended.reason, ended.message,
        )  # fmt: skip
        assert "DisruptionTarget" in {one.type for one in ended.conditions}
        assert "Preempting" in [event.reason for event in node.events.about("uid-lesser")]
        assert {"cpu": 1} == node.evaluation.preempted
        assert {} == node.admission.rejected
        await trio.sleep(300)
        assert ["critical", "spared"] == bench.running()


async def test_a_pod_that_ends_for_another_gives_up_its_place_at_once(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable=TWO_CORES)
    lesser = asks("lesser", "2", ["stubborn"], grace=20)
    async with bench.agent(lesser, sources=SOURCES) as node:
        await until(lambda: ["lesser"] == bench.running())
        put_static(node, asks("one", "1", source="file"), asks("two", "1", source="file"))
        await until(lambda: ["one", "two"] == bench.running())
        assert {"cpu": 1} == node.evaluation.preempted


async def test_a_pod_that_is_being_deleted_is_waited_for_and_told_nothing_else(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable=TWO_CORES)
    lesser = asks("lesser", "2", ["stubborn"], grace=20)
    asked = msgspec.structs.replace(lesser.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    async with bench.agent(lesser, sources=SOURCES) as node:
        await until(lambda: ["lesser"] == bench.running())
        node.slots["api"].put(Snapshot((msgspec.structs.replace(lesser, metadata=asked),)))
        await until(lambda: node.workers.is_termination_requested("uid-lesser"))
        put_static(node, asks("critical", "1", source="file"))
        await until(lambda: ["critical"] == bench.running())
        assert {} == node.evaluation.preempted
        assert "Preempting" not in [event.reason for event in node.events.about("uid-lesser")]
        ended = node.statuses.get("uid-lesser")
        assert ended is None or "Preempting" != ended.reason


async def test_a_pod_that_does_not_end_in_time_is_not_waited_for_any_longer(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable=TWO_CORES)
    async with bench.agent(asks("lesser", "2", grace=20), sources=SOURCES) as node:
        await until(lambda: ["lesser"] == bench.running())
        bench.problems.odds = Odds(0.002, hang=1.0, only=frozenset({"StopContainer"}))
        asked = trio.current_time()
        put_static(node, asks("critical", "1", source="file"))
        await until(lambda: "critical" in bench.running())
        assert 30 <= trio.current_time() - asked < 33


async def test_a_critical_pod_that_is_taken_back_while_it_waits_never_begins(autojump_clock: MockClock) -> None:
    bench = Bench(allocatable=TWO_CORES)
    async with bench.agent(asks("lesser", "2", ["stubborn"], grace=20), sources=SOURCES) as node:
        await until(lambda: ["lesser"] == bench.running())
        put_static(node, asks("critical", "1", source="file"))
        await until(lambda: "uid-critical" in node.workers)
        put_static(node)
        await until(lambda: "uid-critical" not in node.workers)
        await until(lambda: not bench.running())
        assert not [line for line in bench.world.trace if " start " in line and "critical" in line]


async def test_critical_pod_without_possible_room_fails_and_preempts_no_pod(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(allocatable=TWO_CORES)
    async with bench.agent(asks("lesser", "1"), sources=SOURCES) as node:
        await until(lambda: ["lesser"] == bench.running())
        put_static(node, asks("critical", "3", source="file"))
        await until(lambda: "Failed" == phase(node, "uid-critical"))
        await trio.sleep(60)
        assert ["lesser"] == bench.running()
        assert {"UnexpectedAdmissionError": 1} == node.admission.rejected
