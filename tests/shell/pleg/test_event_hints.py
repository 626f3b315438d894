"""Container events: only ever hints, asked for again for ever, and relied on no longer than they come."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pleg.test_pleg import CREATED, RUNNING, Shelf, Watch, watching
from trikubelet.kit.backoff import Backoff
from trikubelet.model.runtime import ContainerEvent
from trikubelet.model.runtime_errors import NotImplementedByRuntime, RuntimeLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock


class Telling(Shelf):
    """A runtime with a stream of events that a test feeds, ends and refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[float] = []
        self.refusal: Exception | None = None
        self._send: trio.MemorySendChannel[ContainerEvent | Exception] | None = None

    def tell(self, what: str | Exception) -> None:
        """An event of that pod, or the stream's end."""
        assert self._send is not None
        self._send.send_nowait(ContainerEvent(what, "c", 0, 0) if isinstance(what, str) else what)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[ContainerEvent]]:
        self.opened.append(trio.current_time())
        if self.refusal is not None:
            raise self.refusal
        self._send, receive = trio.open_memory_channel[ContainerEvent | Exception](10)
        yield self._told(receive)

    async def _told(
        self, receive: trio.MemoryReceiveChannel[ContainerEvent | Exception]
    ) -> AsyncIterator[ContainerEvent]:
        async for what in receive:
            if isinstance(what, Exception):
                raise what
            yield what

    def lists_since(self, began: int) -> list[str | None]:
        return self.listed[began:]


@asynccontextmanager
async def hinted(shelf: Telling) -> AsyncIterator[Watch]:
    async with watching(shelf) as watch, trio.open_nursery() as nursery:
        nursery.start_soon(watch.pleg.follow_events, Backoff(0.1, 3.0))
        await trio.testing.wait_all_tasks_blocked()
        yield watch
        nursery.cancel_scope.cancel()


async def quiet(shelf: Telling, watch: Watch) -> None:
    """An event has come, and then nothing for long."""
    shelf.tell("a")
    await trio.sleep(30.5)
    await watch.wakes()


async def test_an_event_makes_its_pod_be_looked_at_at_once(autojump_clock: MockClock) -> None:
    shelf = Telling()
    shelf.containers = {"a": {"c": CREATED}}
    async with hinted(shelf) as watch:
        await trio.sleep(0.5)
        shelf.containers = {"a": {"c": RUNNING}}
        shelf.tell("a")

        assert ["a"] == await watch.wakes()
        assert 0.5 == pytest.approx(trio.current_time())
        assert (1, True) == (watch.pleg.figures().events_received, watch.pleg.figures().has_reliable_events)


async def test_events_of_pods_that_are_not_known_wait_for_the_next_list_of_all(autojump_clock: MockClock) -> None:
    shelf = Telling()
    async with hinted(shelf) as watch:
        await quiet(shelf, watch)
        began, before = trio.current_time(), len(shelf.listed)
        shelf.containers = {"new": {"c": RUNNING}}
        for second in range(5):
            for number in range(500):
                shelf.tell("new" if number == 100 and not second else f"nobody{second}-{number}")
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(1)
            if not second:
                assert ["new"] == await watch.wakes()

        assert [None] * 5 == shelf.lists_since(before)
        assert 5 == trio.current_time() - began
        assert 0 == watch.pleg.figures().requests_dropped


async def test_a_pod_that_was_just_made_is_looked_at_for_its_event_though_it_is_not_listed_yet(
    autojump_clock: MockClock,
) -> None:
    shelf = Telling()
    async with hinted(shelf) as watch:
        await trio.sleep(0.5)
        shelf.gates["list a"] = trio.Event()
        with watch.pleg.changing("a"):
            shelf.containers = {"a": {"c": RUNNING}}
        await trio.testing.wait_all_tasks_blocked()
        before = len(shelf.listed)
        shelf.tell("a")
        await trio.testing.wait_all_tasks_blocked()
        shelf.gates["list a"].set()
        await trio.testing.wait_all_tasks_blocked()

        assert ["a"] == shelf.lists_since(before)


async def test_events_of_what_a_worker_does_wait_until_it_has_done_it(autojump_clock: MockClock) -> None:
    shelf = Telling()
    shelf.containers = {"a": {"d": RUNNING}, "b": {"c": RUNNING}}
    async with hinted(shelf) as watch:
        await trio.sleep(0.5)
        began = len(shelf.listed)
        with trio.CancelScope() as attempt, watch.pleg.changing("a"):
            for uid in ("a", "a", "b", "a"):
                shelf.tell(uid)
                await trio.testing.wait_all_tasks_blocked()
            assert ["b"] == shelf.lists_since(began)
            attempt.cancel()  # however it ends
            await trio.sleep_forever()
        await trio.testing.wait_all_tasks_blocked()
        assert ["b", "a"] == shelf.lists_since(began)
        shelf.tell("a")
        await trio.testing.wait_all_tasks_blocked()
        assert ["b", "a", "a"] == shelf.lists_since(began)


async def test_an_event_of_nobodys_pod_or_of_one_that_did_not_change_inspects_nothing(
    autojump_clock: MockClock,
) -> None:
    shelf = Telling()
    shelf.containers = {"a": {"c": RUNNING}}
    async with hinted(shelf) as watch:
        await watch.wakes()
        shelf.inspected.clear()
        for uid in ("", "unknown", "a"):
            shelf.tell(uid)

        assert [] == await watch.wakes()
        assert [] == shelf.inspected
        await trio.sleep(1.1)
        assert 1 == len(watch.cache)


async def test_the_stream_is_opened_again_for_ever_and_less_often_while_it_fails(autojump_clock: MockClock) -> None:
    shelf = Telling()
    shelf.refusal = RuntimeLost("gone")
    async with hinted(shelf):
        await trio.sleep(100)
        assert [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.1] == pytest.approx(shelf.opened[:7])
        assert [3.0] * 10 == pytest.approx(
            [b - a for a, b in zip(shelf.opened[-11:], shelf.opened[-10:], strict=False)]
        )
        shelf.refusal = None
        await trio.sleep(5)
        shelf.tell("a")
        await trio.testing.wait_all_tasks_blocked()
        count, now = len(shelf.opened), trio.current_time()
        shelf.tell(RuntimeLost("gone"))
        await trio.sleep(1)

        assert [now + 0.1] == pytest.approx(shelf.opened[count:])


async def test_a_runtime_without_events_is_asked_again_when_it_may_have_been_exchanged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    shelf = Telling()
    shelf.refusal = NotImplementedByRuntime("unknown method")
    async with hinted(shelf) as watch:
        await trio.sleep(1300)
        assert [0, 600, 1200] == pytest.approx(shelf.opened)
        assert not watch.pleg.figures().has_reliable_events

    assert 1 == sum("does not send events" in record.message for record in caplog.records)


async def test_quiet_node_with_events_is_listed_every_five_seconds(autojump_clock: MockClock) -> None:
    shelf = Telling()
    shelf.containers = {"a": {"c": RUNNING}}
    async with hinted(shelf) as watch:
        await quiet(shelf, watch)
        before = len(shelf.listed)
        await trio.sleep(60)

        assert 12 == len(shelf.lists_since(before))


async def test_a_node_does_not_rest_while_a_pod_is_out_of_sight(autojump_clock: MockClock) -> None:
    shelf = Telling()
    shelf.containers = {"a": {"c": RUNNING}}
    async with hinted(shelf) as watch:
        shelf.tell("a")
        await trio.sleep(3.2)
        shelf.containers["a"]["new"] = CREATED
        shelf.failing = {"new"}
        await trio.sleep(1)
        del shelf.containers["a"]["new"]  # the list is as recorded again, and the next inspection hangs
        shelf.gates["c"] = trio.Event()
        await trio.sleep(14)
        before = len(shelf.listed)
        await trio.sleep(10)

        assert [None] * 10 == shelf.lists_since(before)
        assert "a" in (watch.pleg.remark() or "")


async def test_a_stream_that_never_brought_an_event_is_not_relied_on(autojump_clock: MockClock) -> None:
    shelf = Telling()
    async with hinted(shelf):
        await trio.sleep(30.5)
        before = len(shelf.listed)
        await trio.sleep(60)

        assert 60 == len(shelf.lists_since(before))


async def test_when_the_stream_ends_a_quiet_node_is_listed_at_once_and_every_second(autojump_clock: MockClock) -> None:
    shelf = Telling()
    async with hinted(shelf) as watch:
        await quiet(shelf, watch)
        await trio.sleep(1.6)
        assert trio.current_time() - (watch.cache._listed_at) > 1
        before = len(shelf.listed)
        shelf.refusal = RuntimeLost("gone")
        shelf.tell(RuntimeLost("gone"))
        await trio.testing.wait_all_tasks_blocked()
        assert 1 == len(shelf.lists_since(before))
        await trio.sleep(10.5)

        assert 11 == len(shelf.lists_since(before))


async def test_a_stream_that_ends_again_and_again_does_not_quicken_the_lists(autojump_clock: MockClock) -> None:
    shelf = Telling()
    async with hinted(shelf) as watch:
        await quiet(shelf, watch)
        before = len(shelf.listed)
        for _ in range(50):
            shelf.tell("")
            shelf.tell(RuntimeLost("gone"))
            await trio.sleep(0.2)

        assert 10 <= len(shelf.lists_since(before)) <= 11


async def test_a_worker_that_waits_ends_the_rest_of_a_quiet_node(autojump_clock: MockClock) -> None:
    shelf = Telling()
    async with hinted(shelf) as watch:
        await quiet(shelf, watch)
        acted = trio.current_time()
        await watch.cache.newer_than("a", acted)

        assert trio.current_time() - acted <= 1


async def test_an_event_that_was_lost_is_found_by_the_next_list_which_ends_the_rest(autojump_clock: MockClock) -> None:
    shelf = Telling()
    async with hinted(shelf) as watch:
        await quiet(shelf, watch)
        lost_at = trio.current_time()
        shelf.containers = {"a": {"c": RUNNING}}
        await watch.woken.collect()

        assert trio.current_time() - lost_at <= 5
        before = len(shelf.listed)
        await trio.sleep(8.5)
        assert 8 == len(shelf.lists_since(before))
