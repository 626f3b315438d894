"""A page on the whole terminal that is followed every two seconds: ``trikubelet top`` without a kind.

    look ─► page ─► every two seconds again; while the agent is silent or away the last one stays, and says so
    keys and each second ─► status_page.sheet_of ─► curses;   q ends it

The two go on side by side, so a key is heard whatever the agent does. Nothing but the standard library's curses, so it
works over ssh and wherever a terminal has a cursor.
"""

from __future__ import annotations

import curses
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.cli import asking
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.status_page import FIGURES, Page, sheet_of, warning_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.cli.client import AgentClient

PAGE_SECONDS: Final = 2.0
DRAW_SECONDS: Final = 1.0
ESCAPE_MILLISECONDS: Final = 25
"""How long curses, and everything with it, waits after Escape for the rest of an arrow key: its own second is long."""
ENDING: Final = (ord("q"), ord("Q"))
LINES: Final = {curses.KEY_UP: -1, ord("k"): -1, curses.KEY_DOWN: 1, ord("j"): 1}
PAGES: Final = {curses.KEY_PPAGE: -1, curses.KEY_NPAGE: 1, ord(" "): 1}


class Window(Protocol):
    """What is used of a ``curses.window``."""

    def getmaxyx(self) -> tuple[int, int]: ...

    def erase(self) -> None: ...

    def addnstr(self, y: int, x: int, text: str, n: int, /) -> None: ...

    def refresh(self) -> None: ...

    def getch(self) -> int: ...


async def gather(agent: AgentClient) -> Page:
    """What is to be shown now. Raises CommandFailed."""
    (node,) = await asking.nodes(agent)
    metrics = {}
    for line in (await agent.get("/metrics")).decode().splitlines():
        name, _, value = line.partition(" ")
        if name in FIGURES:
            metrics[name] = float(value)
    problems = (await asking.node(agent)).problems
    return Page(node, problems, await asking.pods(agent), await asking.used(agent), metrics, asking.now_ns())


async def show(agent: AgentClient) -> None:
    """Show the page until q. Raises CommandFailed: where there is no terminal, and when no agent answers at first."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandFailed("the whole screen needs a terminal: write `trikubelet top pods` or `trikubelet top node`")
    try:
        curses.setupterm()
        moves = curses.tigetstr("cup") and curses.tigetstr("clear")
    except curses.error as error:
        raise CommandFailed(f"this terminal cannot be used: {error}; try TERM=xterm") from error
    if not moves:
        named = os.environ.get("TERM", "")
        raise CommandFailed(f"this terminal cannot be used: TERM={named} cannot move its cursor; try TERM=xterm")
    look = partial(gather, agent)
    page = await look()  # an agent that is not there is reported in a line
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        curses.set_escdelay(ESCAPE_MILLISECONDS)
        window.keypad(True)
        window.nodelay(True)
        await Showing(window, sys.stdin.fileno(), page).run(look)
    finally:
        curses.nocbreak()
        curses.echo()
        curses.endwin()


class Showing:
    """Owns the page that was gathered last, when that was and why there is no newer one, and how far was scrolled."""

    def __init__(self, window: Window, keyboard: int, page: Page) -> None:
        """``keyboard``: the descriptor that is readable when the window has keys."""
        self._window = window
        self._keyboard = keyboard
        self._page = page
        self._at = trio.current_time()
        self._problem = ""
        self._first = 0
        self._room = 1

    async def run(self, look: Callable[[], Awaitable[Page]]) -> None:
        """Show the page, and each that ``look`` comes back with, until q or the end of the keyboard. ``look`` raises
        CommandFailed, which is shown."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, look)
            await self._attend()
            nursery.cancel_scope.cancel()

    async def _follow(self, look: Callable[[], Awaitable[Page]]) -> None:
        while True:
            await trio.sleep(PAGE_SECONDS)
            try:
                self._page = await look()
            except CommandFailed as error:
                self._problem = str(error)
            else:
                self._at, self._problem = trio.current_time(), ""

    async def _attend(self) -> None:
        while True:
            self._draw()
            with trio.move_on_after(DRAW_SECONDS) as waited:
                await trio.lowlevel.wait_readable(self._keyboard)
            keys = list(iter(self._window.getch, curses.ERR))
            at_end = not (keys or waited.cancelled_caught)  # something to read, and it is nothing
            if at_end or any(key in ENDING for key in keys):
                return
            for key in keys:
                self._scroll(key)

    def _scroll(self, key: int) -> None:
        self._first += LINES.get(key, 0) + PAGES.get(key, 0) * self._room
        if key in (curses.KEY_HOME, curses.KEY_END):
            self._first = len(self._page.pods) if key == curses.KEY_END else 0

    def _draw(self) -> None:
        height, width = self._window.getmaxyx()
        warning = warning_of(trio.current_time() - self._at, self._problem)
        # Not into the last corner: behind it the cursor would have no place.
        sheet = sheet_of(self._page, warning, self._first, height - 1, width - 1)
        self._first, self._room = sheet.first, sheet.room
        self._window.erase()
        for number, line in enumerate(sheet.lines):
            self._window.addnstr(number, 0, line, width - 1)
        self._window.refresh()
