"""Logs on a file system that never answers, a real one: it costs who reads them an error, and nobody else anything."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shell.fusekit import hanging
from trikubelet.httpd.messages import Request, Response
from trikubelet.kit.thread_shares import EACH_MAX, ThreadShares
from trikubelet.server.container_log import log_of
from trikubelet.server.log_reader import LogQuery
from trikubelet.server.node_log_files import FileText
from trikubelet.server.node_logs import NodeLogs
from trikubelet.server.node_view import LogPlace, NotShown

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)  # for who waits on the event loop


def place_in(directory: Path, threads: ThreadShares) -> LogPlace:
    return LogPlace(str(directory / "c/0.log"), lambda: True, threads)


async def poured(response: Response) -> bytes:
    assert not isinstance(response.body, bytes)
    async with aclosing(response.body) as blocks:  # type: ignore[type-var]
        return b"".join([block async for block in blocks])


async def test_a_log_that_hangs_is_an_error_and_the_logs_of_other_pods_are_shown(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    dead, fine = tmp_path / "dead", tmp_path / "fine"
    dead.mkdir()
    (fine / "c").mkdir(parents=True)
    (fine / "c/0.log").write_bytes(b"2026-11-21T07:01:02Z stdout F fine\n")
    threads, said = ThreadShares("test"), []

    async def read() -> None:
        with pytest.raises(NotShown) as raised:
            await log_of("c", place_in(dead, threads), LogQuery())
        said.append(str(raised.value))

    with hanging(dead):
        async with trio.open_nursery() as nursery:
            for _ in range(EACH_MAX + 1):
                nursery.start_soon(read)
            await wait_all_tasks_blocked()
            assert b"fine\n" == await poured(await log_of("c", place_in(fine, threads), LogQuery()))
            assert not said
            mock_clock.jump(10)
    why = f'cannot read the log of container "c" at {dead}/c/0.log: the disk did not answer within 10 s'
    assert [why] * (EACH_MAX + 1) == said


async def test_client_of_a_hanging_log_can_leave(tmp_path: Path, mock_clock: MockClock) -> None:
    with hanging(tmp_path):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log_of, "c", place_in(tmp_path, ThreadShares("test")), LogQuery())
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


async def test_a_hanging_file_system_below_the_nodes_logs_hides_no_other(tmp_path: Path, mock_clock: MockClock) -> None:
    (tmp_path / "dead").mkdir()
    (tmp_path / "syslog").write_text("one\n")
    logs, said = NodeLogs(queries=False, root=tmp_path), []

    async def read() -> None:
        answer = await logs.answer(Request("GET", "/logs/dead/x"), "dead/x")
        said.append((answer.status, answer.body))

    with hanging(tmp_path / "dead"):
        async with trio.open_nursery() as nursery:
            for _ in range(EACH_MAX + 1):
                nursery.start_soon(read)
            await wait_all_tasks_blocked()
            answer = await logs.answer(Request("GET", "/logs/syslog"), "syslog")
            assert isinstance(answer.body, FileText)
            assert b"one\n" == await poured(answer)
            assert not said
            mock_clock.jump(10)
    assert [(500, f"{tmp_path}/dead: the disk did not answer within 10 s".encode())] * (EACH_MAX + 1) == said
