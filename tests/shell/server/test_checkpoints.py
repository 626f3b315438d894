"""Checkpoints of containers: what is asked of the runtime, and what is said of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from shell.localkit import FakeView, StoppedClock, pod
from trikubelet.httpd.messages import Request
from trikubelet.model.runtime_errors import NotFound, NotImplementedByRuntime, RuntimeFailure
from trikubelet.server.checkpoints import ANSWER_SECONDS, SECONDS_MAX, UNDER_WAY_MAX, Checkpoints

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

NAME = "checkpoint-web-n1_default-{}-2026-11-21T12:00:00Z.tar"


class FakeRuntime:
    """A runtime that writes checkpoints, or fails, or hangs."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.hangs = False
        self.asked: list[tuple[str, str, int]] = []

    async def checkpoint_container(self, container_id: str, path: str, limit_seconds: int) -> None:
        self.asked.append((container_id, path, limit_seconds))
        await trio.lowlevel.checkpoint()
        if self.hangs:
            await trio.sleep_forever()
        if self.failure is not None:
            raise self.failure


class Bench:
    def __init__(self, root: Path) -> None:
        self.root, self.runtime, self.view = root, FakeRuntime(), FakeView(shown=[pod()])
        self.checkpoints = Checkpoints(self.view, self.runtime, root, StoppedClock())

    async def ask(self, container: str = "", **query: str) -> tuple[int, str]:
        name = container or self.view.runs.id
        answer = await self.checkpoints.answer(Request("POST", "/", query), "default", "web-n1", name)
        assert isinstance(answer.body, bytes)
        return answer.status, answer.body.decode()


@pytest.mark.parametrize(
    ("seconds", "query"),
    [(SECONDS_MAX, {}), (SECONDS_MAX, {"timeout": "0"}), (7, {"timeout": "7"}), (SECONDS_MAX, {"timeout": "99999"})],
)
async def test_the_runtime_writes_into_a_directory_of_roots_and_the_place_is_reported(
    tmp_path: Path, seconds: int, query: dict[str, str]
) -> None:
    bench = Bench(tmp_path)
    status, text = await bench.ask(**query)

    path = str(tmp_path / "checkpoints" / NAME.format(bench.view.runs.id))
    assert (200, {"items": [path]}) == (status, msgspec.json.decode(text))
    assert [(bench.view.runs.id, path, seconds)] == bench.runtime.asked
    assert 0o700 == (tmp_path / "checkpoints").stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("status", "failure"),
    [(501, NotImplementedByRuntime("unknown")), (404, NotFound("gone")), (500, RuntimeFailure("no criu"))],
)
async def test_what_the_runtime_cannot_do_is_said(tmp_path: Path, status: int, failure: Exception) -> None:
    bench = Bench(tmp_path)
    bench.runtime.failure = failure

    name = bench.view.runs.id
    assert (status, f"checkpointing of default/web-n1/{name} failed ({failure})") == await bench.ask()


async def test_what_is_not_there_or_not_meant_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    assert 404 == (await bench.ask("nothing"))[0]
    assert (400, "timeout=x: write a whole number, 0 or more") == await bench.ask(timeout="x")
    assert [] == bench.runtime.asked


async def test_a_runtime_that_hangs_has_an_end_and_only_some_are_written_at_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    bench = Bench(tmp_path)
    bench.runtime.hangs = True
    answers = []

    async def ask() -> None:
        answers.append((await bench.ask(timeout="60"))[0])

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(UNDER_WAY_MAX + 1):
            nursery.start_soon(ask)
    assert ([429, 500, 500], 60 + ANSWER_SECONDS) == (sorted(answers), trio.current_time() - begun)
