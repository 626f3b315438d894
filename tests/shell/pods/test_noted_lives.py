"""A static pod's deadline and its end outlast agents, reboots, sandboxes and the removal of its containers."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.model import k8s
from trikubelet.model.pod_notes import Note, NotedLife
from trikubelet.pods.noted_lives import NotedLives
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
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


@pytest.mark.parametrize(("policy", "code", "ended"), [("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded")])
async def test_finished_pod_with_removed_containers_does_not_run_again(
    policy: str, code: int, ended: str, autojump_clock: MockClock
) -> None:
    bench = Bench()
    once = pod("once", container("main", ["exit", str(code), "5"]), policy=policy)
    async with bench.agent(once) as node:
        await until(lambda: node.workers.is_finished("uid-once"))
        await node.garbage.collect_unused()
        await until(lambda: not bench.world.all_containers())
    async with bench.agent(once) as node:
        await until(lambda: phase(node, "uid-once") == ended)
        await trio.sleep(120)
        assert ended == phase(node, "uid-once")
    assert 1 == len(bench.world.runs["uid-once", "main"])


async def test_a_finished_pod_that_is_brought_again_runs_again(autojump_clock: MockClock) -> None:
    bench = Bench()
    once = pod("once", container("main", ["exit", "0", "5"]), policy="Never")
    async with bench.agent(once) as node:
        for runs in (1, 2):
            await until(lambda: phase(node, "uid-once") == "Succeeded")
            assert runs == len(bench.world.runs["uid-once", "main"])
            node.slots["file"].put(Snapshot())
            await until(lambda: not phase(node, "uid-once"))
            node.slots["file"].put(Snapshot((once,)))


def test_only_of_static_pods_a_deadlines_beginning_and_the_end_are_noted() -> None:
    files = MemoryPodFiles()
    lives = NotedLives(files)
    running, ended = k8s.PodStatus(phase="Running", start_time=BEGAN), k8s.PodStatus(phase="Failed", start_time=BEGAN)
    for one, status in ((pod("api", active_deadline_seconds=300, source="api"), ended), (pod("free"), running)):
        files.pods.add(one.metadata.uid)
        lives.note(one, status)
        assert b"" == files.noted(one.metadata.uid, Note.LIFE)
        assert NotedLife() == lives.of(one)
    lives.note(pod("free"), ended)
    assert NotedLife(phase="Failed") == NotedLives(files).of(pod("free"))


def test_a_note_is_read_by_the_next_agent_until_the_pod_is_forgotten() -> None:
    files = MemoryPodFiles()
    files.pods.add("uid-limited")
    lives = NotedLives(files)
    for status, noted in (
        (k8s.PodStatus(phase="Running", start_time=BEGAN), NotedLife(BEGAN)),
        (
            k8s.PodStatus(phase="Failed", reason="DeadlineExceeded", message="too long", start_time=BEGAN),
            NotedLife(BEGAN, "Failed", "DeadlineExceeded", "too long"),
        ),
    ):
        lives.note(LIMITED, status)
        assert [noted, noted] == [lives.of(LIMITED), NotedLives(files).of(LIMITED)]

    lives.forget("uid-limited")
    assert [NotedLife(), NotedLife()] == [lives.of(LIMITED), NotedLives(files).of(LIMITED)]


@pytest.mark.parametrize(
    "content",
    [b"yesterday", b"\xff", b'{"start_time":"2026-13-45T99:00:00Z"}', b'{"phase":"Running"}', b'{"phase":1}', b"[]"],
)
def test_a_damaged_note_is_logged_and_counts_as_none(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryPodFiles()
    files.pods.add("uid-limited")
    files.note("uid-limited", Note.LIFE, content)
    lives = NotedLives(files)

    assert [NotedLife(), NotedLife()] == [lives.of(LIMITED), lives.of(LIMITED)]
    assert 1 == caplog.text.count("Pod default/limited: cannot read when it began")


def test_a_note_that_cannot_be_written_is_logged_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    files = MemoryPodFiles()
    files.pods.add("uid-limited")
    status = k8s.PodStatus(phase="Running", start_time=BEGAN)

    def refuse(_uid: str, _note: Note, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def noted() -> NotedLife:
        lives = NotedLives(files)
        with monkeypatch.context() as patch:
            patch.setattr(files, "note", refuse)
            for _ in range(3):
                lives.note(LIMITED, status)
        lives.note(LIMITED, status)
        return lives.of(LIMITED)

    assert NotedLife(BEGAN) == trio.run(noted)
    assert 1 == caplog.text.count("Pod default/limited: cannot note when it began")
