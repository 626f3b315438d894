"""The http source: what a URL says, and what it takes for pods to change."""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from shell.sources.sourcekit import Inline, Snapshots, manifest, settings
from trikubelet.model.bounds import Bounds
from trikubelet.model.manifest_places import ManifestAnswer
from trikubelet.sources.url import UrlSource, without_password
from trikubelet.testing.memory_host import VirtualClock

URL = "https://config.example/pods"


class MemoryServer:
    """``ManifestFetch`` of a server that says what it is told to."""

    def __init__(self) -> None:
        self.answer: tuple[int, str] | Exception | None = (200, manifest("one"))
        self.has_length = True
        self.asked = 0

    async def fetch(self) -> ManifestAnswer:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        status, text = self.answer
        return ManifestAnswer(status, text.encode(), self.has_length)


class Bench:
    def __init__(self) -> None:
        self.server = MemoryServer()
        self.snapshots = Snapshots()
        self.threads = Inline()
        self.source = UrlSource(
            url=URL,
            node_name="node",
            fetch=self.server,
            threads=self.threads,
            clock=VirtualClock(),
            slot=self.snapshots.slot,
            bounds=Bounds(http_check_seconds=20.0),
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.source.run)
            yield
            nursery.cancel_scope.cancel()


async def test_a_url_is_asked_every_twenty_seconds_and_says_something_only_when_it_changed(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert await bench.snapshots.none_within(50)
        assert 3 == bench.server.asked
        bench.server.answer = (200, manifest("one", "app:2"))
        assert {"one": "app:2"} == await bench.snapshots.next()


async def test_objects_come_from_a_url_too(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.server.answer = (200, settings("1"))
    async with bench.running():
        assert {} == await bench.snapshots.next()
        assert ["1"] == bench.snapshots.objects
        bench.server.answer = (200, settings("3").replace("\ndata:", "\ndat:"))
        await bench.snapshots.next()
        assert (["1"], 1) == (bench.snapshots.objects, len(bench.source.faults()))


async def test_without_a_length_an_answer_that_lost_a_pod_is_believed_when_it_comes_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    one, both = manifest("one"), f"{manifest('one')}---\n{manifest('two')}"
    bench.server.has_length, bench.server.answer = False, (200, both)
    async with bench.running():
        assert {"one", "two"} == set(await bench.snapshots.next())
        bench.server.answer = (200, one)
        await trio.sleep(25)
        bench.server.answer = (200, both)
        assert await bench.snapshots.none_within(20), "it was cut"
        bench.server.answer = (200, one)
        assert await bench.snapshots.none_within(30), "what was cut once does not count for the next time"
        assert {"one"} == set(await bench.snapshots.next())
    doubts = [message for message in caplog.messages if "used once the next answer is the same" in message]
    assert 2 == len(doubts)


async def test_with_its_length_an_answer_that_lost_a_pod_is_believed_at_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.server.answer = (200, f"{manifest('one')}---\n{manifest('two')}")
    async with bench.running():
        await bench.snapshots.next()
        bench.server.answer = (200, manifest("one"))
        assert not await bench.snapshots.none_within(20.1)
        assert ["one-node"] == [pod.metadata.name for pod in bench.source.files()[URL].pods]


async def test_a_pod_of_a_url_is_no_pod_of_a_file(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.running():
        (pod,) = (await bench.snapshots.slot.take()).pods
    assert "http" == pod.metadata.annotations["kubernetes.io/config.source"]
    assert () == pod.spec.tolerations


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((404, manifest("two")), "cannot be fetched: the server answers 404 instead of 200"),
        ((200, ""), "cannot be fetched: the server sent nothing (for no pods send an empty PodList)"),
        (
            (200, "---\n# nothing\n"),
            "the server sent nothing but blanks or comments (for no pods send an empty PodList)",
        ),
        (ConnectionError("All connection attempts failed"), "cannot be fetched: All connection attempts failed"),
        (None, "cannot be fetched: no answer within 10 s"),
    ],
)
async def test_a_failing_server_costs_no_pod(
    autojump_clock: MockClock, answer: tuple[int, str] | OSError | None, told: str
) -> None:
    bench = Bench()
    async with bench.running():
        await bench.snapshots.next()
        good, bench.server.answer = bench.server.answer, answer
        assert await bench.snapshots.none_within(100)
        assert [f"{URL}: {told}"] == [str(fault) for fault in bench.source.faults()]
        assert ["one-node"] == [pod.metadata.name for pod in bench.source.files()[URL].pods]

        bench.server.answer = good
        assert await bench.snapshots.none_within(100)
        assert () == bench.source.faults()


@pytest.mark.parametrize("answer", [(503, ""), (200, ""), (200, "# nothing\n")])
async def test_a_source_that_never_answered_has_not_spoken(autojump_clock: MockClock, answer: tuple[int, str]) -> None:
    bench = Bench()
    bench.server.answer = answer
    async with bench.running():
        assert await bench.snapshots.none_within(1000)


async def test_only_the_first_failures_are_loud(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "trikubelet")
    bench = Bench()
    bench.server.answer = (500, "")
    async with bench.running():
        await trio.sleep(99)
        bench.server.answer = (200, manifest("one"))
        await bench.snapshots.next()
    levels = [record.levelname for record in caplog.records]
    assert ["WARNING"] * 3 + ["DEBUG"] * 2 + ["INFO"] == levels
    silenced = "(attempt 3 without success; the next are not logged, `trikubelet get pods` shows them)"
    assert [2] == [n for n, message in enumerate(caplog.messages) if message.endswith(silenced)]
    assert f"Manifest URL {URL} answers again after 5 failures" == caplog.messages[-1]


@pytest.mark.parametrize("null", ["null", "~\n", "---\nnull\n"])
async def test_a_null_ends_no_pod_and_is_told(autojump_clock: MockClock, null: str) -> None:
    """A body of a program that found nothing."""
    bench = Bench()
    async with bench.running():
        await bench.snapshots.next()
        bench.server.answer = (200, null)
        assert {"one": "app:1"} == await bench.snapshots.next()
        assert ["null where a Pod should stand"] == [fault.problem for fault in bench.source.faults()]


async def test_an_answer_of_comments_is_no_success_however_often_it_comes(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trikubelet")
    bench = Bench()
    async with bench.running():
        await bench.snapshots.next()
        bench.server.answer = (200, "# nothing\n")
        await trio.sleep(200)
    assert 3 == caplog.text.count("the server sent nothing but blanks or comments")
    assert "answers again" not in caplog.text


async def test_a_body_with_faults_keeps_the_pods_it_does_not_replace(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.server.answer = (200, f"{manifest('one')}---\n{manifest('two')}")
    async with bench.running():
        await bench.snapshots.next()
        bench.server.answer = (200, f"{manifest('one', 'app:2')}---\n{manifest('Two')}")
        assert {"one": "app:2", "two": "app:1"} == await bench.snapshots.next()
        assert {"one-node_default": 4} == bench.source.files()[URL].lines  # the other one was kept
        assert [f"{URL}:12"] == [f"{fault.source}:{fault.line}" for fault in bench.source.faults()]

        bench.server.answer = (200, "kind: PodList\napiVersion: v1\nitems: []")
        assert {} == await bench.snapshots.next()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@host.example:8443/a?b=c", "https://host.example:8443/a?b=c"),
        ("http://[2001:db8::1]:80/a", "http://[2001:db8::1]:80/a"),
    ],
)
def test_password_in_a_url_is_never_shown(url: str, shown: str) -> None:
    assert shown == without_password(url)


async def test_an_answer_for_which_there_is_no_thread_is_read_at_the_next(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        bench.threads.error = OSError(errno.EAGAIN, "cannot start a thread")
        bench.server.answer = (200, manifest("one", "app:2"))
        assert await bench.snapshots.none_within(50)
        assert ["cannot be read: cannot start a thread"] == [fault.problem for fault in bench.source.faults()]

        bench.threads.error = None
        assert {"one": "app:2"} == await bench.snapshots.next()
    assert "bug" not in caplog.text


async def test_a_bug_in_fetching_is_reported_and_costs_neither_the_agent_nor_a_pod(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with bench.running():
        assert {"one": "app:1"} == await bench.snapshots.next()
        bench.server.answer = MemoryError()
        assert await bench.snapshots.none_within(50)
        assert ["cannot be read because of a bug in the agent: MemoryError: MemoryError"] == [
            fault.problem for fault in bench.source.faults()
        ]
        assert ["one-node"] == [pod.metadata.name for pod in bench.source.files()[URL].pods]

        bench.server.answer = (200, manifest("one", "app:2"))
        assert {"one": "app:2"} == await bench.snapshots.next()
    assert 1 == caplog.text.count("a bug in fetching it; its earlier content stays")
