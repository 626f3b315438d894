"""``top`` on the whole screen: keys, an agent that is silent or away, and that it comes and goes in a real terminal."""

from __future__ import annotations

import curses
import os
import pty
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from shell.cli.screenkit import Terminal
from shell.cli.test_container_state import ENDED, in_state, waiting
from shell.cli.test_top_command import NODE, pod_used, summary
from shell.localkit import NOW_NS, FakeAgent, FakeUse, FakeView, pod, served
from trikubelet.cli.client import NoAgent
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.main import main
from trikubelet.cli.screen import Showing
from trikubelet.cli.screen_reading import Subject, read
from trikubelet.cli.screen_state import KEY_ESCAPE, View
from trikubelet.cli.status_page import Page
from trikubelet.cli.text_page import Text
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.cli.client import AgentClient

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

ENTER = ord("\n")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    os.close(made.keyboard)


def page(*names: str) -> Page:
    return Page(NODE, [], [pod(name) for name in names], summary(), {}, NOW_NS)


class Agent:
    """What the screen asks for: pages and texts, which come at once."""

    def __init__(self, *names: str) -> None:
        self.page = page(*names)
        self.read: list[Subject] = []
        self.text = Text("a title", [f"line {number}" for number in range(30)])

    async def look(self) -> Page:
        await trio.lowlevel.checkpoint()
        return self.page

    async def texts(self, subject: Subject) -> Text:
        await trio.lowlevel.checkpoint()
        self.read.append(subject)
        return self.text


@asynccontextmanager
async def showing(terminal: Terminal, agent: Agent) -> AsyncIterator[None]:
    """The screen, until the end of the block or until q."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Showing(terminal, terminal.keyboard, agent.page).run, agent.look, agent.texts)
        await trio.sleep(0.1)
        yield
        terminal.press("qq")


async def seen(terminal: Terminal, *keys: int | str) -> list[str]:
    """Return the content of the window after these keys."""
    terminal.press(*keys)
    await trio.sleep(0.1)
    return terminal.shown


async def never(_: Subject) -> Text:
    await trio.sleep_forever()
    raise AssertionError


async def test_q_is_heard_while_the_agent_is_silent_and_the_page_says_how_old_it_is(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    async def silent() -> Page:
        await trio.sleep_forever()
        raise AssertionError

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Showing(terminal, terminal.keyboard, page("web")).run, silent, never)
        await trio.sleep(4.5)
        assert not any("silent" in line for line in terminal.shown)
        await trio.sleep(5)
        assert "! this is 9 s old: the agent is silent" in terminal.shown
        assert any("web" in line for line in terminal.shown)
        terminal.press("xq")
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
        nursery.start_soon(Showing(terminal, terminal.keyboard, page("old")).run, look, never)
        await trio.sleep(3.5)
        assert "! this is 3 s old: nobody answers" in terminal.shown
        assert any("old " in line for line in terminal.shown)
        await trio.sleep(2)
        assert not any(line.startswith("!") for line in terminal.shown)
        assert any("new " in line for line in terminal.shown)
        terminal.press("Q")


async def test_keys_move_through_the_pods_and_the_selected_one_is_always_shown(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    async with showing(terminal, Agent(*(f"p{number:02}" for number in range(30)))):
        assert ["p00"] == [line.split()[1] for line in terminal.marked]
        for expected, keys in {
            "p02": (curses.KEY_DOWN, ord("j")),
            "p01": (ord("k"),),
            "p00": (curses.KEY_UP, curses.KEY_UP),
            "p05": (curses.KEY_NPAGE,),
            "p10": (ord(" "),),
            "p04": (curses.KEY_PPAGE, curses.KEY_UP),
            "p29": (curses.KEY_END,),
            "p29 ": (curses.KEY_DOWN, curses.KEY_NPAGE),
            "p28": (curses.KEY_UP,),
        }.items():
            await seen(terminal, *keys)
            assert [expected.strip()] == [line.split()[1] for line in terminal.marked]
        await seen(terminal, curses.KEY_HOME)
        assert ["p00"] == [line.split()[1] for line in terminal.marked]


async def test_the_selected_pod_stays_selected_when_others_come_before_it(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    agent = Agent("b", "c")
    async with showing(terminal, agent):
        await seen(terminal, curses.KEY_DOWN)
        agent.page = page("a", "b", "c")
        await trio.sleep(3)
        assert ["c"] == [line.split()[1] for line in terminal.marked]
        agent.page = page("a", "b")
        await trio.sleep(3)
        assert ["a"] == [line.split()[1] for line in terminal.marked]


@pytest.mark.parametrize("key", ["?", "h", "H", curses.KEY_F1])
@pytest.mark.parametrize("back", ["q", "?", ENTER, KEY_ESCAPE, curses.KEY_BACKSPACE])
async def test_help_lists_the_keys_and_goes_back_to_the_pods(
    key: int | str, back: int | str, terminal: Terminal, autojump_clock: MockClock
) -> None:
    async with showing(terminal, Agent("web")):
        help_ = await seen(terminal, key)
        assert "keys" in help_[0]
        assert any(line.startswith("Enter   ") for line in help_)
        assert any("web" in line for line in await seen(terminal, back))


async def test_enter_opens_the_selected_pod_and_its_text_can_be_scrolled(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    agent = Agent("api", "web")
    async with showing(terminal, agent):
        shown = await seen(terminal, curses.KEY_DOWN, ENTER)
        assert [Subject(View.POD, "default", "web", 0)] == agent.read
        assert (["a title · 1-10 of 30", "line 0"], "line 9") == (shown[:2], shown[-1])
        shown = await seen(terminal, curses.KEY_NPAGE, "j")
        assert ("line 11", "line 20") == (shown[1], shown[-1])
        assert "line 29" == (await seen(terminal, curses.KEY_END))[-1]
        assert "line 28" == (await seen(terminal, "k"))[-1]
        assert "line 0" == (await seen(terminal, curses.KEY_HOME, curses.KEY_UP))[1]
        assert ["web"] == [line.split()[1] for line in (await seen(terminal, KEY_ESCAPE)) if line in terminal.marked]


async def test_l_opens_the_end_of_the_log_which_follows_what_is_written(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    agent = Agent("web")
    async with showing(terminal, agent):
        assert "line 29" == (await seen(terminal, "l"))[-1]
        agent.text = Text("a title", [f"line {number}" for number in range(50)])
        await trio.sleep(3)
        assert "line 49" == terminal.shown[-1]
        assert "line 44" == (await seen(terminal, "kkkkk"))[-1]
        agent.text = Text("a title", [f"line {number}" for number in range(60)])
        await trio.sleep(3)
        assert "line 44" == terminal.shown[-1]  # whoever reads is not disturbed
        await seen(terminal, "\t", ENTER, "l", "d")
        subjects = [(subject.view, subject.container) for subject in agent.read]
        assert [(View.LOGS, 0), (View.POD, 1)] == list(dict.fromkeys(subjects))


async def test_a_text_that_is_opened_does_not_wait_for_what_is_being_read(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    class Slow(Agent):
        async def look(self) -> Page:
            await trio.sleep(60)
            return self.page

    async with showing(terminal, Slow("web")):
        await trio.sleep(3)
        assert "line 0" == (await seen(terminal, ENTER))[1]


async def test_a_text_that_does_not_come_says_why(terminal: Terminal, autojump_clock: MockClock) -> None:
    class Silent(Agent):
        async def texts(self, subject: Subject) -> Text:
            await trio.sleep(8)
            raise CommandFailed("nobody answers")

    async with showing(terminal, Silent("web")):
        assert ["default/web · Esc: back", "…"] == await seen(terminal, ENTER)
        await trio.sleep(6)
        assert "the agent is silent" == terminal.shown[1]
        await trio.sleep(3)
        assert "nobody answers" == terminal.shown[1]


async def test_an_old_text_says_that_it_is_old(terminal: Terminal, autojump_clock: MockClock) -> None:
    class Once(Agent):
        async def texts(self, subject: Subject) -> Text:
            if self.read:
                await trio.sleep_forever()
            return await super().texts(subject)

    async with showing(terminal, Once("web")):
        await seen(terminal, ENTER)
        await trio.sleep(7.5)
        assert ["! this is 7 s old: the agent is silent", "line 0"] == terminal.shown[1:3]


async def test_a_filter_shows_pods_by_namespace_name_or_status(terminal: Terminal, autojump_clock: MockClock) -> None:
    def names(lines: list[str]) -> list[str]:
        return [line.split()[1] for line in lines if line.startswith("default ")]

    async with showing(terminal, Agent("api", "web", "web-q")):
        assert ["web", "web-q"] == names(await seen(terminal, "/we"))
        assert "/we_" in terminal.shown
        assert ["web-q"] == names(await seen(terminal, "b-q"))
        assert ["web", "web-q"] == names(await seen(terminal, curses.KEY_BACKSPACE, 127, ENTER))
        assert any("2 of 3 pods" in line and "filter: web" in line for line in terminal.shown)
        assert ["api", "web", "web-q"] == names(await seen(terminal, KEY_ESCAPE))
        assert [] == names(await seen(terminal, "/", "no such pod", ENTER))
        assert "no pod fits the filter" in terminal.shown
        assert [] == names(await seen(terminal, ENTER, "lj"))  # there is none to open
        assert ["api", "web", "web-q"] == names(await seen(terminal, "/", KEY_ESCAPE))
        assert ["api", "web", "web-q"] == names(await seen(terminal, "/RUNNING", curses.KEY_RESIZE, ENTER))


async def test_sort_keys_order_the_pods_and_select_the_first(terminal: Terminal, autojump_clock: MockClock) -> None:
    used = summary(pod_used("api", 5, 40), pod_used("web", 300, 8), pod_used("dns", 1, 90))
    agent = Agent()
    agent.page = Page(NODE, [], [pod("api"), pod("dns"), pod("web")], used, {}, NOW_NS)
    async with showing(terminal, agent):
        for order, key in {"web api dns": "c", "dns api web": "m", "api dns web": "n", "web api dns ": "p"}.items():
            lines = await seen(terminal, "j", key)
            assert order.split() == [line.split()[1] for line in lines if line.startswith("default ")]
            assert [order.split()[0]] == [line.split()[1] for line in terminal.marked]
            assert (key == "p") is not any(" · by " in line for line in lines)


async def test_figures_of_the_agent_are_shown_on_request(terminal: Terminal, autojump_clock: MockClock) -> None:
    agent = Agent()
    metrics = {"kubelet_pleg_last_seen_seconds": NOW_NS / 1e9 - 1.25}
    agent.page = Page(NODE, [], [pod("web")], summary(), metrics, NOW_NS)
    async with showing(terminal, agent):
        assert not any("listed" in line for line in terminal.shown)
        assert "containers listed 1.2 s ago" in await seen(terminal, "v")
        assert "containers listed 1.2 s ago" not in await seen(terminal, "v")


@pytest.mark.parametrize(("width", "height"), [(20, 5), (20, 4), (40, 6), (59, 8), (80, 24), (200, 50), (10, 3)])
async def test_every_view_fits_every_terminal_and_a_pod_is_shown(
    width: int, height: int, autojump_clock: MockClock
) -> None:
    terminal = Terminal(width, height)
    agent = Agent(*(f"p{number:02}" for number in range(30)))
    agent.page = Page(
        NODE, ["no network"], [*agent.page.pods, in_state(waiting("CrashLoopBackOff"), ENDED)], summary(), {}, NOW_NS
    )
    agent.text = Text("a title that is rather long", ["a line that is longer than many a terminal is wide " * 5])
    async with showing(terminal, agent):
        for pod_ in ("web-n1", "p00", "p29"):
            assert [True] == [pod_[:3] in line for line in terminal.marked]
            for keys in ("v", "?", "?", ENTER, "l", "q", "/p", KEY_ESCAPE, "v"):
                await seen(terminal, keys)
            await seen(terminal, "j" if pod_ == "web-n1" else curses.KEY_END)
        terminal.height = terminal.width = 1  # as a window that is made smaller meanwhile
        await seen(terminal, curses.KEY_RESIZE, "l", "q", "?", "q")
    os.close(terminal.keyboard)


async def test_signs_that_a_terminal_does_not_have_are_replaced(autojump_clock: MockClock) -> None:
    terminal = Terminal(encoding="latin-1")
    agent = Agent("web")
    agent.text = Text("log", ["fünf 😀 …"])
    async with showing(terminal, agent):
        assert ["log", "fünf ? ?"] == await seen(terminal, "l")
    os.close(terminal.keyboard)


async def test_a_terminal_that_is_gone_ends_it(terminal: Terminal, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Showing(terminal, terminal.keyboard, page("web")).run, trio.sleep_forever, never)
        terminal.end()


# ---- what is read ----


def several() -> k8s.Pod:
    return pod("web-n1", containers=(k8s.Container(name="app"), k8s.Container(name="side")))


async def test_details_are_those_of_describe(tmp_path: Path) -> None:
    async with served(FakeView([pod("web-n1")]), tmp_path) as agent:
        text = await read(agent, Subject(View.POD, "default", "web-n1", 0))

    assert "pod default/web-n1 · Esc: back, l: log" == text.title
    assert ("Name:         web-n1", "Containers:") == (text.lines[0], next(x for x in text.lines if "Containers" in x))


async def test_logs_are_those_of_the_containers_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "0.log"
    log.write_text("".join(f"2026-11-21T11:58:00Z stdout F line {number}\n" for number in range(600)))
    view = FakeView([several()], logs={("default", "web-n1", "app", False): str(log)})
    async with served(view, tmp_path) as agent:
        texts = [await read(agent, Subject(View.LOGS, "default", "web-n1", number)) for number in range(3)]
        gone = await read(agent, Subject(View.LOGS, "default", "api-n1", 0))

    title = "log of default/web-n1, container app (1 of 2, Tab: next) · Esc: back, Enter: details"
    assert (title, "line 100", "line 599") == (texts[0].title, texts[0].lines[0], texts[0].lines[-1])
    assert ["side has no log"] == list(texts[1].lines)
    assert texts[0] == texts[2]
    assert ['pods "api-n1" not found'] == list(gone.lines)
    assert "" == capsys.readouterr().err


async def test_a_log_without_a_line_says_so_and_one_of_any_length_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "0.log").touch()
    (tmp_path / "1.log").write_text(f"2026-11-21T11:58:00Z stdout F {'x' * 1_000_000}end\n")
    places = {("default", "web-n1", "app", False): "0.log", ("default", "web-n1", "side", False): "1.log"}
    view = FakeView([several()], logs={place: str(tmp_path / name) for place, name in places.items()})
    async with served(view, tmp_path) as agent:
        empty, long = [await read(agent, Subject(View.LOGS, "default", "web-n1", number)) for number in (0, 1)]

    assert ["(nothing was written)"] == list(empty.lines)
    assert (256 * 1024, "xend") == (len(long.lines[0]) + 1, long.lines[0][-4:])


async def test_an_agent_that_is_away_is_no_text(tmp_path: Path) -> None:
    async with served(FakeView(), tmp_path) as agent:
        pass
    with pytest.raises(NoAgent):
        await read(agent, Subject(View.POD, "default", "web-n1", 0))


# ---- real terminals ----


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
        os.write(terminal, b"\r")
        await until_shown(terminal, b"Priority:")
        os.write(terminal, b"l")
        await until_shown(terminal, b"app has no log")
        os.write(terminal, b"\x1b")
        await until_shown(terminal, b"quit")
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
