"""Pods end in order before their machine does, which waits for them and no longer."""

from __future__ import annotations

import errno
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_node
from trikubelet.core.node_shutdown import ShutdownGroup
from trikubelet.model import k8s
from trikubelet.model.shutdown_times import ShutdownTimes
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_shutdown import MemoryShutdownManager, MemoryShutdownRecords, MemoryShutdownSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from trikubelet.app.node import Node

CRITICAL = 2_000_000_000
GROUPS = (ShutdownGroup(0, 20), ShutdownGroup(CRITICAL, 10))


def api_pod(name: str, *command: str, **fields: Any) -> k8s.Pod:
    return pod(name, container(name, list(command)), source="api", **fields)


@asynccontextmanager
async def node_of(
    manager: MemoryShutdownManager, bench: Bench, *pods: k8s.Pod, records: MemoryShutdownRecords | None = None
) -> AsyncIterator[Node]:
    """With the machine's delay asked for, and the pods' containers running."""
    bench.shutdown = bench.shutdown or GROUPS
    async with bench.agent(*pods, sources=("api", "file")) as node, trio.open_nursery() as nursery:
        await nursery.start(node.shutdown.run, manager, records or MemoryShutdownRecords())
        node.slots["file"].put(Snapshot())
        await until(lambda: sorted(one.metadata.name for one in pods) == bench.running())
        await until(lambda: manager.away or manager.is_shutting_down or len(manager.delays) == 1)
        yield node
        nursery.cancel_scope.cancel()


async def test_critical_pods_end_when_the_others_are_over_and_then_the_machine_may_go(
    autojump_clock: MockClock,
) -> None:
    bench, manager, records = Bench(), MemoryShutdownManager(), MemoryShutdownRecords()
    usual, vital = api_pod("usual", grace=5), api_pod("vital", priority=CRITICAL)
    async with node_of(manager, bench, usual, vital, records=records) as node:
        changes = []
        node.shutdown.changed.add(lambda: changes.append(node.shutdown.is_shutting_down))
        manager.announce(True)
        await until(lambda: bench.running() == ["vital"], 6)

        assert [True] == changes
        assert 1 == len(manager.delays)
        await until(lambda: bench.running() == [], 6)
        await until(lambda: not manager.delays, 1)
        for one in (usual, vital):
            ended = node.statuses.get(one.metadata.uid)
            assert ended is not None
            said = "Pod was terminated in response to imminent node shutdown."
            assert ("Failed", "Terminated", said) == (ended.phase, ended.reason, ended.message)
            (target,) = [condition for condition in ended.conditions if condition.type == "DisruptionTarget"]
            assert ("True", "TerminationByKubelet", said) == (target.status, target.reason, target.message)
            assert node.workers.is_finished(one.metadata.uid)
        assert records.times == node.shutdown.times
        assert "" < records.times.start_time <= records.times.end_time


async def test_pod_beyond_its_groups_time_is_cut_and_delays_no_other(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench, manager = Bench(), MemoryShutdownManager()
    slow, vital = api_pod("slow", "stubborn", grace=600), api_pod("vital", priority=CRITICAL)
    async with node_of(manager, bench, slow, vital) as node:
        began = trio.current_time()
        manager.announce(True)
        await until(lambda: node.workers.is_termination_requested("uid-vital"), 60)

        assert 20 <= trio.current_time() - began <= 22
        await until(lambda: not manager.delays, 12)
        assert [] == bench.running()  # its grace was the group's time, not its own


async def test_the_machine_waits_no_longer_than_all_groups_have(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench, manager = Bench(), MemoryShutdownManager()
    async with node_of(manager, bench, api_pod("slow", "stubborn")):
        bench.problems.odds = bench.problems.odds.__class__(latency_seconds=10_000)
        began = trio.current_time()
        manager.announce(True)
        await until(lambda: not manager.delays, 60)

        assert 20 == pytest.approx(trio.current_time() - began, abs=0.1)
        assert "Pods of priority 0 and above are not over after 20 s" in caplog.text


async def test_no_pod_is_admitted_while_the_machine_goes_down(autojump_clock: MockClock) -> None:
    bench, manager = Bench(), MemoryShutdownManager()
    async with node_of(manager, bench, api_pod("old", "stubborn")) as node:
        manager.announce(True)
        await until(lambda: node.shutdown.is_shutting_down)
        node.slots["api"].put(Snapshot((api_pod("old", "stubborn"), api_pod("late"))))
        await until(lambda: phase(node, "uid-late") == "Failed", 5)

        late = node.statuses.get("uid-late")
        assert late is not None
        assert ("NodeShutdown", "Pod was rejected: Pod was rejected as the node is shutting down.") == (
            late.reason,
            late.message,
        )
        assert {"NodeShutdown": 1} == dict(node.admission.rejected)


async def test_an_agent_that_starts_meanwhile_rejects_nothing_that_may_run(autojump_clock: MockClock) -> None:
    bench, manager = Bench(latency_seconds=1), MemoryShutdownManager()
    async with node_of(manager, bench, api_pod("old", "stubborn")):
        pass
    assert ["old"] == bench.running()
    manager.announce(True)
    bench.shutdown = GROUPS
    node = bench.build_node(("api", "file"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_node, node)
        await nursery.start(node.shutdown.run, manager, MemoryShutdownRecords())
        await until(lambda: node.shutdown.is_shutting_down)
        node.slots["api"].put(Snapshot((api_pod("old", "stubborn"),)))
        node.slots["file"].put(Snapshot())
        await until(lambda: phase(node, "uid-old") != "", 30)

        assert {} == dict(node.admission.rejected)
        nursery.cancel_scope.cancel()


async def test_after_a_cancelled_shutdown_the_next_one_is_delayed_again_and_new_pods_run(
    autojump_clock: MockClock,
) -> None:
    bench, manager = Bench(), MemoryShutdownManager()
    async with node_of(manager, bench, api_pod("old")) as node:
        manager.announce(True)
        await until(lambda: not manager.delays, 30)
        manager.announce(False)
        await until(lambda: len(manager.delays) == 1, 1)
        assert not node.shutdown.is_shutting_down
        node.slots["api"].put(Snapshot((api_pod("new"),)))
        await until(lambda: bench.running() == ["new"])

        assert [
            "Shutdown manager detected shutdown event",
            "Shutdown manager detected shutdown cancellation",
        ] == [event.message for event in node.events.about("n") if event.reason == "NodeShutdown"]


async def test_a_delay_is_kept_until_another_is_given_and_ends_with_the_agent(autojump_clock: MockClock) -> None:
    bench, manager = Bench(), MemoryShutdownManager()
    async with node_of(manager, bench):
        (first,) = manager.delays
        manager.go_away()
        await trio.sleep(100)
        assert {first} == manager.delays
        manager.away = False
        await until(lambda: first not in manager.delays, 60)
        assert 1 == len(manager.delays)
    assert not manager.delays


async def test_unannounced_shutdown_is_found_when_the_session_begins(autojump_clock: MockClock) -> None:
    bench, manager = Bench(), MemoryShutdownManager()
    async with node_of(manager, bench, api_pod("usual")) as node:
        manager.go_away()
        await until(lambda: not manager.sessions, 1)
        manager.announce(True)
        manager.away = False
        await until(lambda: phase(node, "uid-usual") == "Failed", 60)
        await until(lambda: not manager.delays, 30)


async def test_the_longest_delay_is_raised_and_too_short_a_one_is_reported(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    manager = MemoryShutdownManager()
    async with node_of(manager, Bench()):
        await until(lambda: 30 == manager.delay_seconds, 1)
    assert "InhibitDelayMaxSec" not in caplog.text

    async with node_of(MemoryShutdownManager(settings_max=12), Bench()):
        await until(lambda: "InhibitDelayMaxSec" in caplog.text, 1)
    assert "waits 12 s before it shuts down, pods are to have 30 s" in caplog.text
    assert "Set InhibitDelayMaxSec=30" in caplog.text


async def test_where_the_longest_delay_cannot_be_raised_pods_have_the_time_there_is(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    manager = MemoryShutdownManager(settings_max=0)
    async with node_of(manager, Bench(), api_pod("web")) as node:
        assert 1 == len(manager.delays)
        for _ in range(5):
            manager.go_away()
            manager.away = False
            await trio.sleep(60)
        manager.announce(True)
        await until(lambda: phase(node, "uid-web") == "Failed", 5)

    said = [one.getMessage() for one in caplog.records if "InhibitDelayMaxSec" in one.getMessage()]
    assert 1 == len(said)
    assert "waits 5 s before it shuts down" in said[0]
    assert said[0].endswith("(raising that failed: its settings cannot be written)")


async def test_unavailable_logind_is_logged_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    manager = MemoryShutdownManager()
    manager.away = True
    async with node_of(manager, Bench()):
        with caplog.at_level(logging.WARNING):
            await trio.sleep(300)
    said = [record for record in caplog.records if "systemd-logind" in record.getMessage()]
    assert 5 <= len(said) <= 6


class HungDisk(MemoryShutdownRecords):
    """Owns whether a disk ``reads`` and ``writes``; it hangs otherwise."""

    def __init__(self, *, reads: bool = True, writes: bool = True) -> None:
        super().__init__()
        self.reads, self.writes = trio.Event(), trio.Event()
        for event, is_well in ((self.reads, reads), (self.writes, writes)):
            if is_well:
                event.set()

    async def read(self) -> ShutdownTimes:
        await self.reads.wait()
        return await super().read()

    async def write(self, times: ShutdownTimes) -> None:
        await self.writes.wait()
        await super().write(times)


@pytest.mark.parametrize("disk", ["reads", "writes"])
async def test_a_disk_that_hangs_takes_no_time_from_the_pods_and_little_from_the_machine(
    disk: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench, manager, records = Bench(), MemoryShutdownManager(), HungDisk(**{disk: False})
    usual, vital = api_pod("usual", grace=5), api_pod("vital", priority=CRITICAL)
    async with node_of(manager, bench, usual, vital, records=records) as node:
        manager.announce(True)
        await until(lambda: node.workers.is_termination_requested("uid-usual"), 0.5)
        await until(lambda: [] == bench.running(), 12)
        await until(lambda: not manager.delays, 4)

    assert 1 == caplog.text.count("not recorded yet, the machine waits no longer than 2 s for its disk")


async def test_a_disk_that_answers_late_has_the_end_of_the_shutdown_last(autojump_clock: MockClock) -> None:
    bench, manager, records = Bench(), MemoryShutdownManager(), HungDisk(reads=False, writes=False)
    records.times = ShutdownTimes("2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z")
    async with node_of(manager, bench, records=records) as node:
        manager.announce(True)
        await until(lambda: node.shutdown.times.end_time != "", 5)
        ended = node.shutdown.times
        records.reads.set()
        await trio.sleep(1)
        assert ended == node.shutdown.times
        records.writes.set()
        await until(lambda: ended == records.times, 1)


async def test_what_the_disk_refuses_of_a_shutdown_is_said_to_be_lost_and_is_not_waited_for(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_: ShutdownTimes) -> None:
        await trio.sleep(0.1)
        raise OSError(errno.ENOSPC, "No space left on device")

    bench, manager, records = Bench(), MemoryShutdownManager(), MemoryShutdownRecords()
    monkeypatch.setattr(records, "write", full)
    async with node_of(manager, bench, records=records) as node:
        manager.announce(True)
        await until(lambda: node.shutdown.times.end_time != "", 5)
        await until(lambda: not manager.delays, 0.5)

    said = [message for message in caplog.messages if "this shutdown" in message]
    assert "The end of this shutdown is not recorded: [Errno 28] No space left on device" == said[-1]


async def test_settings_that_take_their_time_come_after_the_delay(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: MemoryShutdownSession, seconds: float) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(MemoryShutdownSession, "allow_delay", hang)
    async with node_of(manager := MemoryShutdownManager(), Bench()):
        assert 1 == len(manager.delays)


async def test_when_the_last_shutdown_was_is_known_after_a_restart(autojump_clock: MockClock) -> None:
    records = MemoryShutdownRecords()
    records.times = ShutdownTimes("2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z")
    async with node_of(MemoryShutdownManager(), Bench(), records=records) as node:
        await until(lambda: records.times == node.shutdown.times, 1)
