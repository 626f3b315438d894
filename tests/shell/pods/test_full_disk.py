"""A node whose disk takes no writes: the containers that ran come back, and new ones may wait for room."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from shell.pods.shellkit import Bench, until
from trikubelet.core.resize.allocation import read
from trikubelet.model.pod_notes import Note
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

WRITES = {
    "note": "a note of the pod",
    "termination_log": "the file of the termination message",
    "link_log": "the link to the log",
    "note_unknown": "the orphans",
    "note_removed": "the removed pods",
    "keep_node_note": "upstream's checkpoints",
}
"""The methods that write to the disk, also of a pod that has all its directories."""


def fill(bench: Bench, patch: pytest.MonkeyPatch, methods: tuple[str, ...], number: int, name: str = "") -> list[str]:
    """The methods that were called since; they fail as on a full disk, for pods of that name or for all."""
    called: list[str] = []

    def fails(method: str, real: Any, *args: Any, **kwargs: Any) -> Any:
        if name and f"uid-{name}" != args[0]:
            return real(*args, **kwargs)
        called.append(method)
        raise OSError(number, os.strerror(number), method)

    for method in methods:
        patch.setattr(bench.files, method, partial(fails, method, getattr(bench.files, method)))
    return called


def attempts(bench: Bench) -> set[int]:
    """The attempts of all containers there were."""
    return {one.config.attempt for one in bench.world.containers.values()}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS], ids=["full", "quota", "read-only"])
@pytest.mark.parametrize("methods", [*((one,) for one in WRITES), tuple(WRITES)], ids=[*WRITES, "all"])
async def test_a_container_that_ends_on_a_full_disk_is_started_again(
    methods: tuple[str, ...], number: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container(command=("exit", "1", "2")))):
        await until(lambda: attempts(bench) == {0})
        called = fill(bench, monkeypatch, methods, number)
        await until(lambda: {1, 2} <= attempts(bench))

    assert set(called) >= set(methods) & {"note", "termination_log", "link_log"}


async def test_what_a_container_was_made_with_is_written_down_when_there_is_room_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()

    def noted() -> int:
        return read(bench.files.noted("uid-web", Note.RESOURCES)).made["main"].attempt

    async with bench.agent(pod("web", container("main", command=("exit", "1", "2")))):
        await until(lambda: attempts(bench) == {0})
        with monkeypatch.context() as patch:
            fill(bench, patch, ("note",), errno.ENOSPC)
            await until(lambda: {1, 2} <= attempts(bench))
            assert 0 == noted()
        await until(lambda: noted() == max(attempts(bench)))

    said = [message for message in caplog.messages if "cannot write the resources of its containers" in message]
    assert 1 == len(said)


async def test_an_agent_that_starts_again_on_a_full_disk_restarts_what_ran(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    web = pod("web", container(command=("exit", "1", "20")))
    async with bench.agent(web):
        await until(lambda: attempts(bench) == {0})
    fill(bench, monkeypatch, tuple(WRITES), errno.ENOSPC)
    async with bench.agent(web):
        await until(lambda: 2 in attempts(bench))


async def test_the_first_container_of_a_pod_waits_for_room(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    with monkeypatch.context() as patch:
        fill(bench, patch, ("note",), errno.ENOSPC)
        async with bench.agent(pod("web", container())) as node:
            await until(lambda: any("No space left" in event.message for event in node.events.all()))
            assert not bench.running()

    async with bench.agent(pod("web", container())):
        await until(lambda: bool(bench.running()))


async def test_a_disk_that_fails_otherwise_still_holds_a_restart_up(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container(command=("exit", "1", "2")))) as node:
        await until(lambda: attempts(bench) == {0})
        with monkeypatch.context() as patch:
            fill(bench, patch, ("termination_log",), errno.EIO)
            await until(lambda: any("Input/output error" in event.message for event in node.events.all()))
        assert {0} == attempts(bench)
        await until(lambda: 1 in attempts(bench))


async def test_a_pod_comes_back_after_its_sandbox_ended_on_a_full_disk(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    bench.move_to_disk(tmp_path)
    async with bench.agent(pod("web", container(command=("exit", "1", "2")))):
        await until(lambda: attempts(bench) == {0})
        fill(bench, monkeypatch, ("note", "termination_log"), errno.ENOSPC)
        bench.world.stop_sandbox(next(one.id for one in bench.world.sandboxes.values()))
        await until(lambda: len(bench.world.sandboxes) == 2 and {1} <= attempts(bench))
