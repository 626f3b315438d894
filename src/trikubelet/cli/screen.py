"""The live view on the whole terminal, refreshed every two seconds: ``trikubelet top`` without a kind.

    read ─► page, and the open text ─► again every two seconds, and at once when a text is opened;
                                        while the agent does not answer the last one stays, marked so
    keys ─► screen_state.pressed ─► state ┐
    each second, and after each key ──────┴─► status_page.sheet_of or text_page.text_sheet ─► curses

Both run concurrently, so keys work whatever the agent does. It needs only the standard library's curses, so it works
over ssh and on any terminal with a movable cursor.
"""

from __future__ import annotations

import curses
import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.screen_reading import Subject, gather, read
from trikubelet.cli.screen_state import HELP, Sheet, State, View, pressed
from trikubelet.cli.status_page import SILENT_SECONDS, sheet_of, warning_of
from trikubelet.cli.text_page import Text, text_sheet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.cli.client import AgentClient
    from trikubelet.cli.status_page import Page

    Look = Callable[[], Awaitable[Page]]
    Read = Callable[["Subject"], Awaitable[Text]]

PAGE_SECONDS: Final = 2.0
DRAW_SECONDS: Final = 1.0
ESCAPE_MILLISECONDS: Final = 25
"""Milliseconds that curses, and everything with it, waits after Escape for the rest of an arrow key; curses' default is
a second."""
HELP_TITLE: Final = "keys · Esc: back"


class Window(Protocol):
    """The methods of ``curses.window`` that are used."""

    encoding: str

    def getmaxyx(self) -> tuple[int, int]: ...

    def erase(self) -> None: ...

    def addnstr(self, y: int, x: int, text: str, n: int, attr: int, /) -> None: ...

    def refresh(self) -> None: ...

    def getch(self) -> int: ...


async def show(agent: AgentClient) -> None:
    """Show the page until q. Raises CommandFailed without a terminal, and if no agent answers at first."""
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
    page = await gather(agent)  # a missing agent is reported in a line
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        curses.set_escdelay(ESCAPE_MILLISECONDS)
        window.keypad(True)
        window.nodelay(True)
        with suppress(curses.error):  # a terminal that cannot hide its cursor
            curses.curs_set(0)
        await Showing(window, sys.stdin.fileno(), page).run(partial(gather, agent), partial(read, agent))
    finally:
        with suppress(curses.error):
            curses.curs_set(1)
        curses.nocbreak()
        curses.echo()
        curses.endwin()


class Showing:
    """Owns the state made by the keys, the page and the text that were read last, their times, and why there is nothing
    newer."""

    def __init__(self, window: Window, keyboard: int, page: Page) -> None:
        """``keyboard``: the descriptor that is readable when the window has keys."""
        self._window = window
        self._keyboard = keyboard
        self._page = page
        self._page_at = trio.current_time()
        self._text: tuple[Subject, Text] | None = None
        self._text_at = 0.0  # the time when it was read, or opened, if it is not read yet
        self._problem = ""
        self._state = State()
        self._sheet = Sheet((), 0, 0, 1)
        self._opened = trio.Event()
        self._reading = trio.CancelScope()

    async def run(self, look: Look, read_text: Read) -> None:
        """Show the page, and each result of ``look``, until q or the end of the keyboard; and the text that the keys
        open. Both functions raise CommandFailed, which is shown."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, look, read_text)
            await self._attend()
            nursery.cancel_scope.cancel()

    async def _follow(self, look: Look, read_text: Read) -> None:
        while True:
            with trio.move_on_after(PAGE_SECONDS):
                await self._opened.wait()
            self._opened = trio.Event()
            with trio.CancelScope() as self._reading:
                await self._read(look, read_text)

    async def _read(self, look: Look, read_text: Read) -> None:
        """Read the shown text or page, and draw it."""
        subject = self._subject()
        try:
            if subject is None:
                self._page = await look()
                self._page_at = trio.current_time()
            else:
                self._text = subject, await read_text(subject)
                self._text_at = trio.current_time()
        except CommandFailed as error:
            self._problem = str(error)
        else:
            self._problem = ""
        self._draw()

    def _subject(self) -> Subject | None:
        """Return the subject of the open text; None if no text is open that must be read."""
        state = self._state
        if state.view not in (View.POD, View.LOGS) or state.selected is None:
            return None
        return Subject(state.view, *state.selected, state.container)

    async def _attend(self) -> None:
        while True:
            self._draw()
            with trio.move_on_after(DRAW_SECONDS) as waited:
                await trio.lowlevel.wait_readable(self._keyboard)
            keys = list(iter(self._window.getch, curses.ERR))
            if not (keys or waited.cancelled_caught):  # readable, but no key: the end of the keyboard
                return
            for key in keys:
                self._press(key)
                if self._state.is_over:
                    return

    def _press(self, key: int) -> None:
        before = self._subject()
        self._state = pressed(self._state, key, self._sheet)
        if self._subject() != before:
            self._text, self._text_at = None, trio.current_time()
            self._opened.set()  # it is read at once,
            self._reading.cancel()  # and does not wait for a text that is closed
        self._make()  # the next key depends on the sheet after this one

    def _make(self) -> None:
        """Make the sheet for the window's present size."""
        height, width = self._window.getmaxyx()
        height, width = height - 1, width - 1  # not into the last corner: the cursor would have no place after it
        state = self._state
        if state.view is View.HELP:
            self._sheet = text_sheet(Text(HELP_TITLE, HELP), "", state.first, height, width)
        elif (subject := self._subject()) is not None:
            text, warning = self._text_of(subject)
            self._sheet = text_sheet(text, warning, state.first, height, width)
        else:
            warning = warning_of(trio.current_time() - self._page_at, self._problem)
            self._sheet = sheet_of(self._page, state, warning, height, width)
            self._state = replace(state, top=self._sheet.first)

    def _text_of(self, subject: Subject) -> tuple[Text, str]:
        """Return the text, and its problem. A text that is not read yet has the reason."""
        seconds = trio.current_time() - self._text_at
        read_last, text = self._text or (None, None)
        if text is not None and read_last == subject:
            return text, warning_of(seconds, self._problem)
        silence = "the agent is silent" if seconds > SILENT_SECONDS else "…"
        return Text(f"{subject.namespace}/{subject.name} · Esc: back", [self._problem or silence]), ""

    def _draw(self) -> None:
        self._make()
        _, width = self._window.getmaxyx()
        self._window.erase()
        for number, line in enumerate(self._sheet.lines):
            attributes = curses.A_REVERSE if number == self._sheet.marked else curses.A_NORMAL
            # A log may have characters that the terminal's encoding does not have.
            shown = line.encode(self._window.encoding, "replace").decode(self._window.encoding)
            self._window.addnstr(number, 0, shown, width - 1, attributes)
        self._window.refresh()
