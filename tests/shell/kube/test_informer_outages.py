"""The informer when the API server is away, silent, busy or ill, on virtual time."""

from __future__ import annotations

import logging
import math
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.kube.informerkit import AFTER_A_PAUSE, SOON, Cluster, key
from trikubelet.kube import informer as informer_module
from trikubelet.kube import known as known_module
from trikubelet.kube.informer import LISTING_SECONDS_MAX, PAUSE_SECONDS_MAX, QUIET_SECONDS_MAX
from trikubelet.model.api import CONFIG_MAPS, SECRETS, Change, ChangeKind, Selection
from trikubelet.model.api_errors import ApiBusy, ApiFailure, ApiLost, Forbidden, Refused
from trikubelet.testing.apiserver.server import ApiServer, StreamedLists
from trikubelet.testing.memory_api import Fail, Hang
from trikubelet.testing.world import wall_ns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from trikubelet.model.api import Page


@pytest.mark.parametrize("end", ["finish", "cut"])
@pytest.mark.parametrize("streams", [StreamedLists.OFFERED, StreamedLists.REFUSED])
async def test_a_server_that_ends_every_watch_at_once_is_not_flooded(
    streams: StreamedLists, end: str, autojump_clock: MockClock
) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = streams

    async def end_them() -> None:
        while True:
            cluster.server.store.forget()
            getattr(cluster.link, end)()
            await trio.sleep(0.1)

    async with trio.open_nursery() as nursery, cluster.running():
        nursery.start_soon(end_them)
        await trio.sleep(600)

        assert 600 / PAUSE_SECONDS_MAX <= len(cluster.asked()) < 50
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tokens", ["the same", "new ones"])
async def test_a_list_without_end_is_a_failure_and_asked_for_with_pauses(
    tokens: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(informer_module, "PAGES_MAX", 5)
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED
    cluster.create("one")
    list_, asked = cluster.server.list, count()

    def endless(*args: Any) -> Page:
        page = list_(*args[:2])
        return replace(page, continue_token="same" if tokens == "the same" else f"token-{next(asked)}")

    monkeypatch.setattr(cluster.server, "list", endless)
    async with cluster.running():
        await trio.sleep(600)
        assert 600 / PAUSE_SECONDS_MAX <= cluster.asked().count("list") < 50 * 5
        assert not cluster.informer.has_synced
        assert "the server's list" in caplog.text
        monkeypatch.undo()
        with trio.fail_after(PAUSE_SECONDS_MAX + SOON):
            await cluster.informer.synced()


async def test_list_with_too_slow_pages_is_a_failure(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED
    cluster.create("one")
    list_, asked = cluster.api.list, count()

    async def slow(*args: Any, **more: Any) -> Page:
        await trio.sleep(60)
        page = await list_(*args, **more | {"continue_token": ""})
        return replace(page, continue_token=f"token-{next(asked)}")

    monkeypatch.setattr(cluster.api, "list", slow)
    async with cluster.running():
        await trio.sleep(LISTING_SECONDS_MAX + SOON)
        assert "the server's list has no end within 300 s" in caplog.text

        monkeypatch.undo()
        with trio.fail_after(PAUSE_SECONDS_MAX + SOON):
            await cluster.informer.synced()


async def test_list_beyond_the_limit_is_a_failure(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(known_module, "OBJECTS_MAX", 3)
    cluster = Cluster()
    for name in ("one", "two", "three", "four"):
        cluster.create(name)

    async with cluster.running():
        await trio.sleep(60)

        assert ({}, False) == (cluster.known(), cluster.informer.has_synced)
        assert "the server's list has more than 3 objects" in caplog.text


async def test_watch_beyond_the_limit_is_replaced_by_lists(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(known_module, "OBJECTS_MAX", 3)
    cluster = Cluster()
    for name in ("one", "two", "three"):
        cluster.create(name)

    async with cluster.running():
        await cluster.informer.synced()
        before = cluster.known()
        cluster.asked()
        cluster.create("four")
        await trio.sleep(300)

        assert before == cluster.known()
        assert "the server's watch has brought more than 3 objects" in caplog.text
        assert "the server's list has more than 3 objects" in caplog.text
        assert len(cluster.asked()) < 30
        cluster.delete("one")
        await trio.sleep(PAUSE_SECONDS_MAX + SOON)
        assert cluster.truth() == cluster.known()


@pytest.mark.parametrize(("count", "text", "most"), [(3000, "", 600), (12, "x" * 300_000, 2)])
async def test_a_page_of_much_lets_others_run_before_all_of_it_was_read(
    count: int, text: str, most: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer_module, "PAGE_ITEMS_MAX", 10_000)
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED
    for n in range(count):
        cluster.create(f"m-{n}", text=text)
    seen = [0]

    async with cluster.running():
        while not cluster.informer.has_synced:
            await trio.lowlevel.checkpoint()
            seen.append(len(cluster.decoded))

    assert count == seen[-1]
    assert max(later - earlier for earlier, later in pairwise(seen)) <= most


async def test_a_streamed_list_that_goes_on_and_on_makes_way_for_pages(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    cluster.create("one")
    (thing,) = cluster.server.list(CONFIG_MAPS, Selection()).items
    watch = cluster.api.watch

    @asynccontextmanager
    async def endless(*args: Any, initial: bool = False, **more: Any) -> AsyncIterator[AsyncIterator[Change]]:
        async def again() -> AsyncIterator[Change]:
            while True:
                await trio.sleep(30)
                yield Change(ChangeKind.ADDED, thing)

        async with watch(*args, initial=initial, **more) as changes:
            yield again() if initial else changes

    monkeypatch.setattr(cluster.api, "watch", endless)
    async with cluster.running():
        with trio.fail_after(LISTING_SECONDS_MAX + PAUSE_SECONDS_MAX):
            await cluster.informer.synced()

        assert cluster.truth() == cluster.known()


async def test_a_watch_that_says_nothing_is_taken_up_again(autojump_clock: MockClock) -> None:
    cluster = Cluster()

    async with cluster.running():
        await cluster.informer.synced()
        cluster.link.silence()
        cluster.create("one")
        cluster.link.up()
        await trio.sleep(QUIET_SECONDS_MAX - SOON)
        assert {} == cluster.known()
        await trio.sleep(2 * SOON)

        assert cluster.truth() == cluster.known()
        assert ["watch", "watch"] == cluster.asked()


async def test_silence_is_believed_once_and_a_word_begins_the_count_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.testing.api_link.BOOKMARK_SECONDS", math.inf)
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED

    async with cluster.running():
        await cluster.informer.synced()
        await trio.sleep(SOON)
        assert ["watch", "list", "watch"] == cluster.asked()
        await trio.sleep(QUIET_SECONDS_MAX)
        cluster.create("one")
        await trio.sleep(QUIET_SECONDS_MAX + SOON)
        cluster.create("two")
        await trio.sleep(SOON)
        assert ["watch", "watch"] == cluster.asked()

        await trio.sleep(4 * QUIET_SECONDS_MAX + SOON)  # nothing at all, and after a list it counts from the beginning
        assert ["watch", "list", "watch", "watch", "list", "watch"] == cluster.asked()


async def test_a_version_the_server_will_not_hear_of_means_a_list(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED

    async with cluster.running():
        await cluster.informer.synced()
        await trio.sleep(SOON)
        cluster.asked()
        cluster.api.plan("watch", Fail(Refused("invalid resource version", "BadRequest")))
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE)

        assert ["watch", "list", "watch"] == cluster.asked()


@pytest.mark.parametrize(
    ("streams", "fails_initial", "expected"),
    [
        (StreamedLists.OFFERED, False, ["watch"] * 3),
        (StreamedLists.OFFERED, True, ["watch"] * 3 + ["list", "watch"]),
        (StreamedLists.REFUSED, False, ["watch"] * 2 + ["list", "watch"]),
    ],
)
async def test_a_change_that_cannot_be_read_means_a_list_after_two_watches(
    streams: StreamedLists,
    fails_initial: bool,
    expected: list[str],
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = streams
    whole = cluster.api.watch

    @asynccontextmanager
    async def watch(*args: Any, resource_version: str, initial: bool = False) -> AsyncIterator[Any]:
        async with whole(*args, resource_version=resource_version, initial=initial) as changes:
            if resource_version == known and (fails_initial or not initial):
                for one in cluster.link.watches:
                    one.end(ApiFailure("what is no change"))
            yield changes

    async with cluster.running():
        await cluster.informer.synced()
        await trio.sleep(SOON)
        cluster.asked()
        known = str(cluster.server.store.version)
        monkeypatch.setattr(cluster.api, "watch", watch)
        cluster.link.cut()
        cluster.create("late")
        await trio.sleep(10 * AFTER_A_PAUSE)

        assert expected == cluster.asked()
        assert cluster.truth() == cluster.known()


async def test_a_server_that_fails_before_a_watch_begins_is_asked_for_no_list(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED

    async with cluster.running():
        await cluster.informer.synced()
        await trio.sleep(SOON)
        cluster.asked()
        cluster.api.plan("watch", *[Fail(ApiFailure("bad gateway"))] * 4)
        cluster.link.cut()
        await trio.sleep(20 * AFTER_A_PAUSE)

        assert ["watch"] * 5 == cluster.asked()


async def test_bookmarks_keep_a_quiet_watch(autojump_clock: MockClock) -> None:
    cluster = Cluster()

    async with cluster.running():
        await cluster.informer.synced()
        cluster.server.namespaces.add("other")
        for _ in range(180):
            cluster.server.create(SECRETS, {"metadata": {"generateName": "x-"}}, "other")
            await trio.sleep(20)

        assert ["watch"] == cluster.asked()
        await trio.sleep(60)
        cluster.server.store.forget()
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE)
        assert ["watch"] == cluster.asked()  # the newest bookmark is still remembered


async def test_a_server_that_was_set_back_is_found_out(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    for n in range(5):
        cluster.create(f"lost-{n}")

    async with cluster.running():
        await cluster.informer.synced()
        cluster.server = cluster.api.server = ApiServer(wall_ns, seed=1)
        cluster.create("kept")
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE + 2 * QUIET_SECONDS_MAX)

        assert cluster.truth() == cluster.known()
        cluster.create("new")
        await trio.sleep(SOON)
        assert cluster.truth() == cluster.known()


async def test_server_reported_as_restored_is_listed_at_once(
    autojump_clock: MockClock,
) -> None:
    cluster = Cluster()
    lost = [cluster.create(f"lost-{n}") for n in range(5)]
    states: list[bool] = []
    cluster.informer.add_listener(lambda _: states.append(cluster.informer.is_set_back))

    async with cluster.running():
        await cluster.informer.synced()
        cluster.server = cluster.api.server = ApiServer(wall_ns, seed=1)
        cluster.create("kept")
        cluster.link.cut()
        await trio.sleep(10)
        for n in range(5):
            cluster.create(f"new-{n}")
        await trio.sleep(SOON)
        assert key(lost[0].name) in cluster.known()
        cluster.outage.set_back("an answer is older than the last")
        await trio.sleep(AFTER_A_PAUSE)

        assert cluster.truth() == cluster.known()
        assert states[-1]
        cluster.create("later")
        await trio.sleep(SOON)
        assert cluster.truth() == cluster.known()
        assert not states[-1]


@pytest.mark.parametrize("streams", [StreamedLists.OFFERED, StreamedLists.REFUSED])
async def test_repeated_reports_of_a_restored_server_cause_one_list_a_minute(
    streams: StreamedLists, autojump_clock: MockClock
) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = streams
    cluster.create("one")

    async with cluster.running():
        await cluster.informer.synced()
        await trio.sleep(10)
        cluster.asked()
        for _ in range(590):
            cluster.outage.set_back("an answer is older than the last")
            await trio.sleep(1)

        assert 10 == cluster.asked().count("watch" if streams is StreamedLists.OFFERED else "list")
        assert 11 == len(cluster.told)  # nobody else would say that answers of before are no more


async def test_a_list_under_way_comes_to_its_end_before_another_begins(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.api.plan("watch", Hang())

    async with cluster.running():
        await trio.sleep(1)
        cluster.outage.set_back("an answer is older than the last")
        await trio.sleep(50)
        assert ["watch"] == cluster.asked()
        await cluster.informer.synced()


async def test_a_list_that_waits_for_its_minute_comes_though_the_watch_has_more_to_say(
    autojump_clock: MockClock,
) -> None:
    cluster = Cluster()
    cluster.create("one")

    async with cluster.running():
        await cluster.informer.synced()
        for _ in range(2):
            await trio.sleep(10)
            cluster.outage.set_back("an answer is older than the last")
        await trio.sleep(10)
        cluster.change("one")
        cluster.asked()
        await trio.sleep(35)
        assert [] == cluster.asked()
        await trio.sleep(10)

        assert ["watch"] == cluster.asked()


async def test_a_watch_that_is_never_opened_is_an_outage(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.testing.memory_api.ANSWER_SECONDS_MAX", math.inf)
    cluster = Cluster()
    cluster.api.plan("watch", Hang())

    async with cluster.running():
        await trio.sleep(QUIET_SECONDS_MAX + SOON)
        assert cluster.outage.since is not None
        await trio.sleep(AFTER_A_PAUSE)

        assert cluster.informer.has_synced
        assert ["watch", "watch"] == cluster.asked()  # it still offers streamed lists


async def test_a_server_that_hangs_is_asked_again(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.api.plan("watch", Hang())
    cluster.create("one")

    async with cluster.running():
        with trio.fail_after(QUIET_SECONDS_MAX + AFTER_A_PAUSE):
            await cluster.informer.synced()


async def test_an_hour_without_a_server_changes_nothing_and_says_so_once_a_minute(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster()
    cluster.create("one")
    tries: list[float] = []
    cluster.api.requests = Times(tries)  # type: ignore[assignment] # all it needs is append

    async with cluster.running():
        await cluster.informer.synced()
        known = cluster.known()
        cluster.link.down()
        await trio.sleep(3600)

        assert cluster.outage.since is not None
        assert known == cluster.known()
        waits = [later - earlier for earlier, later in pairwise(tries[2:])]
        assert 0.8 <= min(waits)
        assert 15.0 <= max(waits) <= PAUSE_SECONDS_MAX
        assert 60 * 2 <= len(tries) <= 60 * 4 + 10
        assert "API server is unreachable: watching configmaps (default): the connection was lost" in caplog.text
        assert 50 <= len(caplog.records) <= 61

        cluster.change("one", a="1")
        caplog.clear()
        cluster.link.up()
        await trio.sleep(PAUSE_SECONDS_MAX)
        assert cluster.truth() == cluster.known()
        assert cluster.outage.since is None
        assert 1 == len(caplog.records)
        assert "API server is back after 36" in caplog.text


async def test_the_first_pause_after_problem_is_short_again(autojump_clock: MockClock) -> None:
    cluster = Cluster()

    async with cluster.running():
        await cluster.informer.synced()
        for _ in range(10):
            cluster.link.down()
            await trio.sleep(600)
            cluster.link.up()
            await trio.sleep(60)
        cluster.create("one")
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE)

        assert cluster.truth() == cluster.known()


async def test_first_success_of_another_client_ends_the_pause(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.link.down()

    async with cluster.running():
        await trio.sleep(600)
        cluster.link.up()
        cluster.outage.worked()

        with trio.fail_after(AFTER_A_PAUSE):
            await cluster.informer.synced()


async def test_success_of_other_requests_does_not_remove_the_pause(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.api.plan("watch", *[Fail(ApiFailure("storage is broken", "InternalError"))] * 1000)

    async with cluster.running():
        for _ in range(6000):
            await trio.sleep(0.01)
            cluster.outage.worked()

        assert 5 <= len(cluster.asked()) <= 10


async def test_failed_early_retry_starts_with_short_pauses_again(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.link.down()

    async with cluster.running():
        await trio.sleep(600)
        cluster.informer.hurry()
        await trio.sleep(SOON)
        cluster.link.up()

        with trio.fail_after(AFTER_A_PAUSE):
            await cluster.informer.synced()


async def test_a_busy_server_names_the_pause(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.api.plan("watch", Fail(ApiBusy("too many requests", "TooManyRequests", after=20.0)))

    async with cluster.running():
        await trio.sleep(19.9)
        assert not cluster.informer.has_synced
        await trio.sleep(0.2)

        assert cluster.informer.has_synced


async def test_a_server_that_says_no_is_a_warning(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.api.plan("watch", *[Fail(Forbidden("configmaps is forbidden", "Forbidden"))] * 4)

    async with cluster.running():
        await cluster.informer.synced()

    said = "The API server refuses watching configmaps (default): configmaps is forbidden; retrying until it accepts"
    assert [(logging.WARNING, said)] == [(record.levelno, record.getMessage()) for record in caplog.records]


async def test_no_server_can_ask_for_hours(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.api.plan("watch", Fail(ApiBusy("too many requests", "TooManyRequests", after=36_000.0)))

    async with cluster.running():
        with trio.fail_after(PAUSE_SECONDS_MAX + SOON):
            await cluster.informer.synced()


@pytest.mark.parametrize("kind", [ApiLost, ApiFailure])
async def test_a_stream_that_breaks_in_the_middle_of_a_list_begins_again(
    kind: type[ApiLost | ApiFailure], autojump_clock: MockClock
) -> None:
    cluster = Cluster()
    for n in range(3):
        cluster.create(f"m-{n}")
    cluster.server.streamed_lists = StreamedLists.IGNORED

    async with cluster.running():
        await trio.sleep(SOON)
        assert 3 == len(cluster.decoded)
        assert {} == cluster.known()
        cluster.server.streamed_lists = StreamedLists.OFFERED
        cluster.delete("m-0")
        for watch in cluster.link.watches:
            watch.end(
                kind("broken")
            )  # pytest keeps what is a parameter, and with a traceback all the objects there were
        await trio.sleep(AFTER_A_PAUSE)

        assert cluster.truth() == cluster.known()


class Times(list[float]):
    """Notes when something is appended, not what."""

    def __init__(self, times: list[float]) -> None:
        super().__init__()
        self._times = times

    def append(self, _: object) -> None:
        """The time."""
        self._times.append(trio.current_time())


@pytest.mark.parametrize("streams", list(StreamedLists))
async def test_a_server_that_has_not_heard_of_what_is_known_is_not_believed(
    streams: StreamedLists, autojump_clock: MockClock
) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = streams
    cluster.create("gone")
    behind = cluster.server.store.version
    seen: list[set[str]] = []
    cluster.informer.add_listener(lambda _: seen.append({name for _, name in cluster.informer.objects}))

    async with cluster.running():
        await cluster.informer.synced()
        cluster.delete("gone")
        cluster.create("there")
        await trio.sleep(SOON)
        seen.clear()
        cluster.link.fall_behind(behind)
        cluster.create("late")
        await trio.sleep(QUIET_SECONDS_MAX)
        assert [] == seen
        await trio.sleep(10 * QUIET_SECONDS_MAX)
        assert [{"there", "late"}] == seen  # the store itself was asked when watches had said nothing for too long
        cluster.create("later")
        cluster.link.catch_up()
        await trio.sleep(SOON)
        assert cluster.truth() == cluster.known()
