"""A text on the whole screen of ``top``: long lines are continued, and nothing in it reaches the terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trikubelet.cli.screen_state import END
from trikubelet.cli.text_page import Text, text_sheet


def test_long_lines_are_continued_and_keep_their_indentation() -> None:
    sheet = text_sheet(Text("title", ["  abcdefgh", "", "x"]), "", 0, 9, 6)

    assert ["title", "  abcd", "efgh", "", "x"] == sheet.lines


def test_control_characters_are_spelt_out_and_tabs_are_blanks() -> None:
    sheet = text_sheet(Text("log of \x1b[2J", ["a\tb\x1b[2J\x07", "\tc", "\u202ed"]), "gone\x1b", 0, 9, 60)

    assert ["log of ^[[2J", "! gone^[", "a       b^[[2J^G", "        c", "\\u202ed"] == sheet.lines


def test_the_title_says_which_lines_are_shown_where_not_all_are() -> None:
    lines = [str(number) for number in range(10)]

    assert ["t", *lines] == text_sheet(Text("t", lines), "", 0, 11, 60).lines
    assert ["t · 3-6 of 10", "2", "3", "4", "5"] == text_sheet(Text("t", lines), "", 2, 5, 60).lines
    last = text_sheet(Text("t", lines), "", END, 5, 60)
    assert (["t · 7-10 of 10", "6", "7", "8", "9"], 6, 6, 4) == (last.lines, last.first, last.last, last.room)


@given(st.lists(st.text(max_size=30)), st.integers(0, END), st.integers(0, 9), st.integers(0, 30), st.booleans())
def test_no_window_is_overfull(lines: list[str], first: int, height: int, width: int, with_warning: bool) -> None:
    sheet = text_sheet(Text("a title", lines), "a warning" if with_warning else "", first, height, width)

    assert height >= len(sheet.lines)
    assert [] == [line for line in sheet.lines if len(line) > max(1, width)]
    assert 0 <= sheet.first <= sheet.last
