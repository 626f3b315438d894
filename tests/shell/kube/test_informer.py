"""The informer on a memory API server, on virtual time: every way a list and a watch can go wrong."""

from __future__ import annotations

import gc
import math
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import trio

from shell.kube.informerkit import AFTER_A_PAUSE, SOON, Cluster, key
from trikubelet.kube.informer import PAGE_ITEMS_MAX, QUIET_SECONDS_MAX
from trikubelet.kube.items import page_of
from trikubelet.kube.known import Known, Listing
from trikubelet.model.api import Item
from trikubelet.model.api_errors import Expired
from trikubelet.testing.apiserver.server import StreamedLists
from trikubelet.testing.memory_api import Fail

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_it_begins_with_what_is_there(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.create("one")
    cluster.create("two")

    async with cluster.running():
        assert not cluster.informer.has_synced
        await cluster.informer.synced()

        assert cluster.truth() == cluster.known()
        assert [(key("one"), key("two"))] == cluster.told
        assert ["watch"] == cluster.asked()


async def test_an_empty_list_is_reported_once(autojump_clock: MockClock) -> None:
    cluster = Cluster()

    async with cluster.running():
        await cluster.informer.synced()
        cluster.server.store.forget()
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE)

        assert [()] == cluster.told


async def test_what_happens_is_reported_by_name(autojump_clock: MockClock) -> None:
    cluster = Cluster()

    async with cluster.running():
        await cluster.informer.synced()
        cluster.create("one")
        await trio.sleep(SOON)
        cluster.change("one", a="1")
        await trio.sleep(SOON)
        assert "1" == cluster.informer.objects[key("one")]["data"]["a"]
        cluster.delete("one")
        await trio.sleep(SOON)

        assert [(), (key("one"),), (key("one"),), (key("one"),)] == cluster.told
        assert {} == cluster.informer.objects


async def test_a_server_without_streamed_lists_is_asked_for_pages_from_then_on(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED
    for n in range(PAGE_ITEMS_MAX * 2 + 1):
        cluster.create(f"m-{n}")

    async with cluster.running():
        await cluster.informer.synced()
        await trio.sleep(SOON)

        assert cluster.truth() == cluster.known()
        assert ["watch", "list", "list", "list", "watch"] == cluster.asked()

        cluster.server.store.forget()
        cluster.create("new")
        cluster.server.store.forget()
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE)
        assert cluster.truth() == cluster.known()
        assert ["watch", "list", "list", "list", "watch"] == cluster.asked()


@pytest.mark.parametrize("bookmark_seconds", [60.0, math.inf])
async def test_a_server_that_never_heard_of_streamed_lists_is_asked_for_pages(
    bookmark_seconds: float, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.testing.api_link.BOOKMARK_SECONDS", bookmark_seconds)
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.IGNORED
    cluster.create("one")

    async with cluster.running():
        with trio.fail_after(QUIET_SECONDS_MAX + AFTER_A_PAUSE):
            await cluster.informer.synced()

        assert cluster.truth() == cluster.known()


async def test_a_list_is_never_in_memory_twice(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED
    for n in range(PAGE_ITEMS_MAX * 2):
        cluster.create(f"m-{n}")
    undecoded: list[int] = []

    def undecoded_now() -> int:
        return sum(isinstance(thing, Item) and thing.name.startswith("m-") for thing in gc.get_objects())

    list_ = cluster.api.list

    async def counting(*args: Any, **named: Any) -> object:
        gc.collect()
        undecoded.append(undecoded_now())
        return await list_(*args, **named)

    monkeypatch.setattr(cluster.api, "list", counting)
    async with cluster.running():
        await cluster.informer.synced()
        gc.collect()

        assert [0, 0] == undecoded
        assert 0 == undecoded_now()


def test_a_page_is_never_in_memory_twice() -> None:
    items = b",".join(b'{"metadata":{"name":"m-%d","uid":"u"},"data":"%b"}' % (n, b"x" * 50_000) for n in range(400))
    body = b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[%b]}' % items
    del items
    listing = Listing(Known("things", len))
    tracemalloc.start()
    try:
        listing.add(page_of(body).items)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 400 == len(listing.objects)
    assert most < len(body) / 20


async def test_a_lost_watch_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.create("one")
    cluster.create("two")

    async with cluster.running():
        await cluster.informer.synced()
        cluster.change("one", a="1")
        cluster.delete("two")
        cluster.link.cut()  # with both changes
        await trio.sleep(AFTER_A_PAUSE)

        assert cluster.truth() == cluster.known()
        assert ["watch", "watch"] == cluster.asked()
        assert ["one", "two", "one"] == cluster.decoded


async def test_a_watch_that_ended_in_order_goes_on_at_once(autojump_clock: MockClock) -> None:
    cluster = Cluster()

    async with cluster.running():
        await cluster.informer.synced()
        await trio.sleep(30)
        cluster.link.finish()
        cluster.create("one")
        await trio.sleep(SOON)

        assert cluster.truth() == cluster.known()
        assert ["watch", "watch"] == cluster.asked()


@pytest.mark.parametrize("streams", [StreamedLists.OFFERED, StreamedLists.REFUSED])
async def test_expired_version_leads_to_a_list_that_decodes_only_news(
    streams: StreamedLists, autojump_clock: MockClock
) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = streams
    for name in ("same", "other", "gone", "again"):
        cluster.create(name)

    async with cluster.running():
        await cluster.informer.synced()
        cluster.decoded.clear(), cluster.told.clear()
        cluster.link.down()
        cluster.change("other", a="1")
        cluster.delete("gone")
        cluster.delete("again")
        cluster.create("again")
        cluster.create("new")
        cluster.server.store.forget()
        cluster.link.up()
        await trio.sleep(AFTER_A_PAUSE)

        assert cluster.truth() == cluster.known()
        assert ["again", "new", "other"] == sorted(cluster.decoded)
        assert [{key(name) for name in ("again", "gone", "new", "other")}] == [set(keys) for keys in cluster.told]


async def test_list_without_news_notifies_no_listener(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.create("one")

    async with cluster.running():
        await cluster.informer.synced()
        cluster.create("two")
        cluster.delete("two")
        await trio.sleep(SOON)
        cluster.told.clear(), cluster.asked()
        cluster.api.plan("watch", Fail(Expired("too old", "Expired")))
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE)

        assert ["watch", "watch"] == cluster.asked()
        assert [] == cluster.told


async def test_a_token_that_expires_means_one_list_in_one_piece(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED
    for n in range(PAGE_ITEMS_MAX + 1):
        cluster.create(f"m-{n}")
    list_ = cluster.server.list

    def forgetful(*args: Any) -> object:
        page = list_(*args)
        cluster.create(f"late-{page.resource_version}")
        cluster.server.store.forget()
        return page

    cluster.server.list = forgetful  # type: ignore[assignment] # the server forgets between two pages
    async with cluster.running():
        with trio.fail_after(SOON):
            await cluster.informer.synced()
        cluster.server.list = list_  # type: ignore[method-assign]

        assert ["watch", "list", "list", "list", "watch"] == cluster.asked()
        assert PAGE_ITEMS_MAX + 2 == len(cluster.known())


async def test_an_older_list_is_never_believed(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    cluster.server.streamed_lists = StreamedLists.REFUSED
    cluster.problems.lag_versions_max = 10
    for n in range(5):
        cluster.create(f"old-{n}")
        cluster.delete(f"old-{n}")
    cluster.create("one")

    async with cluster.running():
        await cluster.informer.synced()
        assert cluster.truth() == cluster.known()

        for n in range(20):
            cluster.change("one", a=str(n))
            await trio.sleep(SOON)
            cluster.api.plan("watch", Fail(Expired("too old", "Expired")))
            cluster.link.cut()
            await trio.sleep(AFTER_A_PAUSE)
            assert cluster.truth() == cluster.known()
            await trio.sleep(10)


async def test_what_cannot_be_read_is_named_and_the_rest_goes_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.create("bad", broken="1")
    cluster.create("good")

    async with cluster.running():
        await cluster.informer.synced()
        assert [key("good")] == list(cluster.informer.objects)
        ((bad, fault),) = cluster.informer.faults().items()
        assert (key("bad"), "spec.broken: not to be read") == (bad, fault.why)
        assert 'Cannot read "default/bad" of configmaps (default) in version 101: spec.broken' in caplog.text

        good = cluster.informer.objects[key("good")]
        cluster.change("good", broken="1")
        cluster.create("third")
        await trio.sleep(SOON)
        assert good == cluster.informer.objects[key("good")]  # what it was when it could be read
        assert key("third") in cluster.informer.objects
        assert {key("bad"), key("good")} == set(cluster.informer.faults())

        cluster.delete("good")
        cluster.create("good", broken="1")
        cluster.delete("bad")
        cluster.create("bad")
        await trio.sleep(SOON)
        assert key("good") not in cluster.informer.objects  # it is another object, and nobody has read it
        assert key("bad") in cluster.informer.objects
        assert {key("good")} == set(cluster.informer.faults())


async def test_what_cannot_be_read_is_not_read_again_by_the_next_list(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.create("bad", broken="1")

    async with cluster.running():
        await cluster.informer.synced()
        cluster.api.plan("watch", Fail(Expired("too old", "Expired")))
        cluster.link.cut()
        await trio.sleep(AFTER_A_PAUSE)

        assert ["bad"] == cluster.decoded
        assert {key("bad")} == set(cluster.informer.faults())
        assert 1 == caplog.text.count("Cannot read")
