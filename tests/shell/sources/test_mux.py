"""The config mux: one UID is of one source at a time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
import trio.testing

from trikubelet.core.merge import PodUpdate
from trikubelet.kit.slot import Slot
from trikubelet.pleg.cache import PodCache
from trikubelet.sources.adoption import Adoption
from trikubelet.sources.desired import DesiredPods
from trikubelet.sources.mux import Mux
from trikubelet.sources.objects import ManifestObjects
from trikubelet.sources.snapshot import Snapshot
from trikubelet.status.recorder import EventRecorder
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_host import MemoryPodFiles, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

SOURCES = ("file", "http")
WEB, SHOP, OTHER = pod("web", uid="u"), pod("shop", uid="u", source="http"), pod("other", source="http")


class Bench:
    """Two sources; what came of their snapshots is taken from ``changes``."""

    def __init__(self) -> None:
        self.slots: dict[str, Slot[Snapshot]] = {source: Slot() for source in SOURCES}
        self.desired = DesiredPods(SOURCES)
        self.events = EventRecorder(VirtualClock(), 100)
        changes_in, self.changes = trio.open_memory_channel[PodUpdate](0)
        adoption = Adoption(MemoryPodFiles(), PodCache())
        self.mux = Mux(self.slots, self.desired, ManifestObjects(self.slots), changes_in, self.events, adoption)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.mux.run)
            yield
            nursery.cancel_scope.cancel()

    async def taken(self) -> list[str]:
        """All changes that come within a second."""
        found: list[str] = []
        with trio.move_on_after(1):
            while True:
                change = await self.changes.receive()
                found.append(f"{change.source} {change.op.value} {change.pod.metadata.name}")
        return found


async def test_a_uid_is_the_first_sources_until_that_has_given_it_up(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        bench.slots["file"].put(Snapshot((WEB,)))
        assert ["file add web"] == await bench.taken()
        bench.slots["http"].put(Snapshot((SHOP, OTHER)))
        assert ["http add other"] == await bench.taken()
        bench.slots["file"].put(Snapshot())
        assert ["file remove web", "http add shop"] == await bench.taken()
        bench.slots["file"].put(Snapshot((WEB,)))
        bench.slots["http"].put(Snapshot((OTHER,)))
        assert ["http remove shop", "file add web"] == await bench.taken()


async def test_second_source_keeps_a_pod_that_the_first_removes(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        bench.slots["file"].put(Snapshot((WEB,)))
        assert ["file add web"] == await bench.taken()
        bench.slots["http"].put(Snapshot((WEB,)))
        assert [] == await bench.taken()
        bench.slots["file"].put(Snapshot())
        assert ["file remove web", "http add web"] == await bench.taken()


async def test_uid_is_free_only_after_its_removal_was_sent(autojump_clock: MockClock) -> None:
    """Else a sync loop that is slow hears of the next pod before the end of the one that runs."""
    bench = Bench()
    async with bench.running():
        bench.slots["file"].put(Snapshot((pod("a"), WEB)))
        await bench.taken()
        bench.slots["http"].put(Snapshot((SHOP,)))
        await bench.taken()
        bench.slots["file"].put(Snapshot())
        await trio.testing.wait_all_tasks_blocked()
        bench.slots["http"].put(Snapshot((SHOP,)))
        await trio.testing.wait_all_tasks_blocked()
        changes = await bench.taken()

    assert ["file remove a", "file remove web", "http add shop"] == changes


async def test_a_source_that_gives_a_uid_another_name_keeps_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        bench.slots["file"].put(Snapshot((WEB,)))
        await bench.taken()
        bench.slots["http"].put(Snapshot((SHOP,)))
        assert [] == await bench.taken()
        bench.slots["file"].put(Snapshot((pod("renamed", uid="u"),)))
        assert ["file remove web", "file add renamed"] == await bench.taken()
        bench.slots["http"].put(Snapshot((SHOP, OTHER)))
        assert ["http add other"] == await bench.taken()
        bench.slots["file"].put(Snapshot())
        assert ["file remove renamed", "http add shop"] == await bench.taken()


async def test_that_a_pod_is_left_out_is_said_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        bench.slots["file"].put(Snapshot((WEB,)))
        await bench.taken()
        for others in ((), (OTHER,), ()):
            bench.slots["http"].put(Snapshot((SHOP, *others)))
            await bench.taken()
        bench.slots["http"].put(Snapshot((OTHER, pod("other", uid="second"))))
        await bench.taken()

    why = "duplicate pod UID, which a pod of source file has, ignoring"
    assert [
        (1, f"Error validating pod default/shop from http: {why}"),
        (1, "Error validating pod default/other from http: duplicate pod name, ignoring"),
    ] == [(event.count, event.message) for event in bench.events.all()]


async def test_rewritten_manifest_removes_and_adds_its_pod(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        bench.slots["file"].put(Snapshot((WEB, pod("a"))))
        await bench.taken()
        for life in (1, 3):  # a snapshot between the two was not taken
            bench.slots["file"].put(Snapshot((WEB, pod("a")), lives={"u": life}))
            assert ["file remove web", "file add web"] == await bench.taken()
            bench.slots["file"].put(Snapshot((WEB,), lives={"u": life}))
            assert ["file remove a"] == await bench.taken()
            bench.slots["file"].put(Snapshot((WEB, pod("a")), lives={"u": life}))
            assert ["file add a"] == await bench.taken()
