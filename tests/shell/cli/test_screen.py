"""``top`` on the whole screen: keys, an agent that is silent or away, and that it comes and goes in a real terminal."""

from __future__ import annotations

import curses
import os
import pty
import select
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from shell.cli.test_top_command import NODE, summary
from shell.localkit import NOW_NS, FakeAgent, FakeUse, FakeView, pod, served
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.main import main
from trikubelet.cli.screen import Showing
from trikubelet.cli.status_page import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.cli.client import AgentClient

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


class Terminal:
    """A window of 60 by 12, and its keys, of which the descriptor tells."""

    def __init__(self) -> None:
        self.keyboard, self._theirs = os.pipe()
        self._keys: list[int] = []
        self._drawn: dict[int, str] = {}
        self.shown: list[str] = []

    def press(self, *keys: int) -> None:
        self._keys += keys
        os.write(self._theirs, b"!")

    def end(self) -> None:
        os.close(self._theirs)

    def getmaxyx(self) -> tuple[int, int]:
        return 12, 60

    def erase(self) -> None:
        self._drawn = {}

    def addnstr(self, y: int, x: int, text: str, n: int, /) -> None:
        assert (0, True) == (x, y < 12)
        self._drawn[y] = text[:n]

    def refresh(self) -> None:
        self.shown = list(self._drawn.values())

    def getch(self) -> int:
        if self._keys:
            return self._keys.pop(0)
        if select.select([self.keyboard], [], [], 0)[0]:
            os.read(self.keyboard, 100)
        return curses.ERR


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    os.close(made.keyboard)


def page(*names: str) -> Page:
    return Page(NODE, [], [pod(name) for name in names], summary(), {}, NOW_NS)


async def test_q_is_heard_while_the_agent_is_silent_and_the_page_says_how_old_it_is(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    async def silent() -> Page:
        await trio.sleep_forever()
        raise AssertionError

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Showing(terminal, terminal.keyboard, page("web")).run, silent)
        await trio.sleep(4.5)
        assert not any("silent" in line for line in terminal.shown)
        await trio.sleep(5)
        assert "! this is 9 s old: the agent is silent" in terminal.shown
        assert any("web" in line for line in terminal.shown)
        terminal.press(ord("x"), ord("q"))
    assert 9.5 == trio.current_time()


async def test_an_agent_that_is_away_leaves_its_last_page_until_it_is_back(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    answers: list[Page | CommandFailed] = [CommandFailed("nobody answers"), page("new")]

    async def look() -> Page:
        answer = answers.pop(0)
        if isinstance(answer, CommandFailed):
            raise answer
        return answer

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Showing(terminal, terminal.keyboard, page("old")).run, look)
        await trio.sleep(3.5)
        assert "! this is 3 s old: nobody answers" in terminal.shown
        assert any("old " in line for line in terminal.shown)
        await trio.sleep(2)
        assert not any(line.startswith("!") for line in terminal.shown)
        assert any("new " in line for line in terminal.shown)
        terminal.press(ord("Q"))


async def test_keys_move_through_the_pods(terminal: Terminal, autojump_clock: MockClock) -> None:
    async def tops() -> str:
        await trio.sleep(0.1)
        return terminal.shown[5].split()[1]

    names = [f"p{number:02}" for number in range(30)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Showing(terminal, terminal.keyboard, page(*names)).run, trio.sleep_forever)
        assert "p00" == await tops()
        for expected, keys in {
            "p02": (curses.KEY_DOWN, ord("j")),
            "p01": (ord("k"),),
            "p00": (curses.KEY_UP, curses.KEY_UP),
            "p05": (curses.KEY_NPAGE,),
            "p10": (ord(" "),),
            "p04": (curses.KEY_PPAGE, curses.KEY_UP),
            "p25": (curses.KEY_END,),
            "p24": (curses.KEY_UP,),
        }.items():
            terminal.press(*keys)
            assert expected == await tops()
        terminal.press(curses.KEY_HOME)
        assert "p00" == await tops()
        terminal.press(ord("q"))


async def test_a_terminal_that_is_gone_ends_it(terminal: Terminal, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Showing(terminal, terminal.keyboard, page("web")).run, trio.sleep_forever)
        terminal.end()


@asynccontextmanager
async def on_a_terminal(agent: AgentClient, kind: str) -> AsyncIterator[tuple[trio.Process, int]]:
    """``top`` in a real terminal of that kind: the process, and our end of the terminal."""
    ours, theirs = pty.openpty()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "trikubelet", "top", f"--socket={agent.socket_path}"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": kind, "LINES": "24", "COLUMNS": "100"},
    )
    os.close(theirs)
    try:
        with trio.fail_after(60):
            yield process, ours
    finally:
        process.kill()
        os.close(ours)


async def until_shown(terminal: int, said: bytes) -> None:
    shown = b""
    while said not in shown:
        await trio.lowlevel.wait_readable(terminal)
        shown += os.read(terminal, 4096)


@pytest.mark.slow
async def test_the_screen_is_used_until_q(tmp_path: Path) -> None:
    pods = [pod(name) for name in (*(f"aaa{number}" for number in range(40)), "zzz")]
    async with (
        served(FakeView(pods), tmp_path, FakeAgent(NODE), stats=FakeUse([summary()])) as agent,
        on_a_terminal(agent, "xterm") as (process, terminal),
    ):
        await until_shown(terminal, b"aaa10")
        os.write(terminal, b"\x1bOF")  # End
        await until_shown(terminal, b"zzz")
        os.write(terminal, b"q")
        assert 0 == await process.wait()


@pytest.mark.slow
async def test_a_terminal_without_a_cursor_is_reported_before_anything_is_drawn(tmp_path: Path) -> None:
    async with (
        served(FakeView(), tmp_path, FakeAgent(NODE)) as agent,
        on_a_terminal(agent, "dumb") as (process, terminal),
    ):
        await until_shown(
            terminal, b"error: this terminal cannot be used: TERM=dumb cannot move its cursor; try TERM=xterm"
        )
        assert 1 == await process.wait()


async def test_without_a_terminal_it_says_what_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == await trio.to_thread.run_sync(main, ["top", f"--socket={tmp_path}/none"])
    assert "error: the whole screen needs a terminal: write `trikubelet top pods`" in capsys.readouterr().err
    assert 2 == await trio.to_thread.run_sync(main, ["top", "gnomes"])
