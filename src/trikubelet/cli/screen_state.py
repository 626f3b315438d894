"""The state of the live view of ``top`` and its changes by keys: the view, and the pods in it.

            ┌────── Esc, q ──────┐
            ▼                    │
    PODS ── Enter ─► POD  ◄─ l, Enter ─► LOGS ── Tab: the next container
     │ └─── l ─────► LOGS ──┘
     └───── ? ─────► HELP             q in PODS ends

Pure: ``screen`` reads the keys and draws the sheets that ``status_page`` and ``text_page`` make of the state.
"""

from __future__ import annotations

import curses
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Name = tuple[str, str]
    """The namespace and the name of a pod."""


class View(Enum):
    """The view on the screen."""

    PODS = 1
    POD = 2
    LOGS = 3
    HELP = 4


class Order(StrEnum):
    """The order of the pods; the value is its name on the screen."""

    PROBLEMS = "problems"
    CPU = "CPU"
    MEMORY = "memory"
    NAME = "name"
    RESTARTS = "restarts"
    AGE = "age"


END: Final = 10**9
"""A first line behind every text: shows the last lines, also of a growing text."""
FILTER_LETTERS_MAX: Final = 100
KEY_ESCAPE: Final = 27
_ENTER: Final = (curses.KEY_ENTER, ord("\n"), ord("\r"))
_BACKSPACE: Final = (curses.KEY_BACKSPACE, 8, 127)
_QUIT: Final = (ord("q"), ord("Q"))
_BACK: Final = (*_QUIT, KEY_ESCAPE, curses.KEY_LEFT, *_BACKSPACE)
_HELP: Final = (ord("?"), ord("h"), ord("H"), curses.KEY_F1)
_LINES: Final = {curses.KEY_UP: -1, ord("k"): -1, curses.KEY_DOWN: 1, ord("j"): 1}
_PAGES: Final = {curses.KEY_PPAGE: -1, curses.KEY_NPAGE: 1, ord(" "): 1}
_ORDERS: Final[Mapping[int, Order]] = {
    ord("p"): Order.PROBLEMS,
    ord("c"): Order.CPU,
    ord("m"): Order.MEMORY,
    ord("n"): Order.NAME,
    ord("r"): Order.RESTARTS,
    ord("a"): Order.AGE,
}
HELP: Final = (
    "Up Down j k      select a pod, or scroll a text",
    "PageUp PageDown  a page up, a page down (also Space)",
    "Home End         to the beginning, to the end",
    "Enter            details of the pod, as `trikubelet describe pod` prints them",
    "l                the end of its log; Tab: that of its next container",
    "/                show only pods with a text in namespace, name or status; Enter keeps it, Esc shows all",
    "p c m n r a      sort by problems, CPU, memory, name, restarts, age",
    "v                show or hide figures of the agent",
    "? h              this help",
    "Esc q            back to the pods; there q quits",
)


@dataclass(frozen=True, slots=True)
class State:
    """Owns nothing: it is replaced with each key. ``top``: the first pod on the screen; ``first``: the first line of a
    text; ``container``: which of a pod's logs is shown; ``is_typing``: keys are letters of the filter."""

    view: View = View.PODS
    order: Order = Order.PROBLEMS
    filter: str = ""
    is_typing: bool = False
    selected: Name | None = None
    top: int = 0
    first: int = 0
    container: int = 0
    with_figures: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """The lines of a window, top to bottom. ``first``: the number of the first pod or line of a text in it, from 0;
    ``last``: the largest that this may be; ``room``: how many fit; ``names``: all pods, in their order; ``marked``: the
    number of the line with the selected pod."""

    lines: Sequence[str]
    first: int
    last: int
    room: int
    names: Sequence[Name] = ()
    marked: int | None = None


def pressed(state: State, key: int, sheet: Sheet) -> State:
    """Return the state after a key; ``sheet``: the one that the window showed."""
    if state.is_typing:
        return _in_filter(state, key)
    if state.view is View.PODS:
        return _in_pods(state, key, sheet)
    return _in_text(state, key, sheet)


def _in_filter(state: State, key: int) -> State:
    if key in _ENTER:
        return replace(state, is_typing=False)
    if key == KEY_ESCAPE:
        return replace(state, is_typing=False, filter="")
    if key in _BACKSPACE:
        return replace(state, filter=state.filter[:-1])
    if 32 <= key < 127 and len(state.filter) < FILTER_LETTERS_MAX:
        return replace(state, filter=state.filter + chr(key))
    return state


def _in_pods(state: State, key: int, sheet: Sheet) -> State:
    if key in _QUIT:
        return replace(state, is_over=True)
    if key in _HELP:
        return replace(state, view=View.HELP, first=0)
    if key == ord("/"):
        return replace(state, is_typing=True)
    if key == KEY_ESCAPE:
        return replace(state, filter="")
    if key == ord("v"):
        return replace(state, with_figures=not state.with_figures)
    if key in _ORDERS:
        return replace(state, order=_ORDERS[key], selected=None, top=0)
    if not sheet.names:
        return state
    at = sheet.names.index(state.selected) if state.selected in sheet.names else 0
    opened = replace(state, selected=sheet.names[at], container=0)
    if key in _ENTER:
        return replace(opened, view=View.POD, first=0)
    if key == ord("l"):
        return replace(opened, view=View.LOGS, first=END)
    moved = _moved(at, key, sheet)
    return state if moved == at else replace(state, selected=sheet.names[max(0, min(moved, len(sheet.names) - 1))])


def _in_text(state: State, key: int, sheet: Sheet) -> State:
    if key in _BACK or (state.view is View.HELP and key in (*_ENTER, *_HELP)):
        return replace(state, view=View.PODS)
    if key in _HELP:
        return replace(state, view=View.HELP, first=0)
    if state.view is View.POD and key == ord("l"):
        return replace(state, view=View.LOGS, first=END)
    if state.view is View.LOGS and key in (*_ENTER, ord("d")):
        return replace(state, view=View.POD, first=0)
    if state.view is View.LOGS and key == ord("\t"):
        return replace(state, container=state.container + 1, first=END)
    moved = _moved(sheet.first, key, sheet)
    if moved == sheet.first:
        return state
    return replace(state, first=END if moved >= sheet.last else max(0, moved))


def _moved(at: int, key: int, sheet: Sheet) -> int:
    """Return the place to which a key moves from line or pod ``at``; it may be before the beginning or behind the
    end."""
    if key in (curses.KEY_HOME, curses.KEY_END):
        return END if key == curses.KEY_END else 0
    return at + _LINES.get(key, 0) + _PAGES.get(key, 0) * sheet.room
