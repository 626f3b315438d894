"""The deadline of a static pod counts from when it began, however many agents, reboots and sandboxes it has had."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.model.pod_notes import Note
from trikubelet.pods.start_times import StartTimes
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from trio.testing import MockClock

BEGAN = "2026-11-28T12:00:00Z"
LIMITED = pod("limited", active_deadline_seconds=300)


async def test_a_reboot_does_not_begin_a_static_pods_deadline_anew(autojump_clock: MockClock) -> None:
    bench = Bench()
    for _ in range(3):
        async with bench.agent(LIMITED):
            await until(lambda: bench.running() == ["main"])
            await trio.sleep(80)
        bench.world.reboot()
    assert [1, 2] == sorted(box.attempt for box in bench.world.sandboxes.values()), "the first was collected as garbage"
    async with bench.agent(LIMITED) as node:
        await until(lambda: phase(node, "uid-limited") == "Failed", 60)
        status = node.statuses.get("uid-limited")
        assert status is not None
        assert "DeadlineExceeded" == status.reason
    runs = len(bench.world.runs["uid-limited", "main"])
    async with bench.agent(LIMITED) as node:
        await until(lambda: phase(node, "uid-limited") == "Failed", 10)
        await trio.sleep(60)
        assert runs == len(bench.world.runs["uid-limited", "main"])


async def test_a_pod_that_is_brought_again_has_all_its_time_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(LIMITED) as node:
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(200)
        node.slots["file"].put(Snapshot())
        await until(lambda: not bench.running())
        node.slots["file"].put(Snapshot((LIMITED,)))
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(200)
        assert "Running" == phase(node, "uid-limited")


def test_only_static_pods_with_a_deadline_are_noted() -> None:
    files = MemoryPodFiles()
    times = StartTimes(files)
    for one in (pod("api", active_deadline_seconds=300, source="api"), pod("free")):
        files.pods.add(one.metadata.uid)
        times.note(one, BEGAN)
        assert b"" == files.noted(one.metadata.uid, Note.STARTED)
        assert "" == times.of(one)


def test_a_note_is_read_by_the_next_agent_until_the_pod_is_forgotten() -> None:
    files = MemoryPodFiles()
    files.pods.add("uid-limited")
    times = StartTimes(files)
    times.note(LIMITED, BEGAN)
    assert [BEGAN, BEGAN] == [times.of(LIMITED), StartTimes(files).of(LIMITED)]

    times.forget("uid-limited")
    assert ["", ""] == [times.of(LIMITED), StartTimes(files).of(LIMITED)]


@pytest.mark.parametrize("content", [b"yesterday", b"\xff", b"2026-13-45T99:00:00Z"])
def test_a_damaged_note_is_logged_and_counts_as_none(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryPodFiles()
    files.pods.add("uid-limited")
    files.note("uid-limited", Note.STARTED, content)
    times = StartTimes(files)

    assert ["", ""] == [times.of(LIMITED), times.of(LIMITED)]
    assert 1 == caplog.text.count("Pod default/limited: cannot read when it began")


def test_a_note_that_cannot_be_written_is_logged_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    files = MemoryPodFiles()
    files.pods.add("uid-limited")

    def refuse(_uid: str, _note: Note, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def noted() -> str:
        times = StartTimes(files)
        with monkeypatch.context() as patch:
            patch.setattr(files, "note", refuse)
            for _ in range(3):
                times.note(LIMITED, BEGAN)
        times.note(LIMITED, BEGAN)
        return times.of(LIMITED)

    assert BEGAN == trio.run(noted)
    assert 1 == caplog.text.count("Pod default/limited: cannot note when it began")
