"""What a terminal is not shown as it stands."""

from __future__ import annotations

import pytest

from trikubelet.cli.terminal import in_a_cell, in_lines


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("^[[2J", "\x1b[2J"),
        ("\\x9b1m", "\x9b1m"),
        ("ok \\u202egnp.exe", "ok \u202egnp.exe"),
        ("a\\u2028b\\u200bc\\u2066d\\u2069", "a\u2028b\u200bc\u2066d\u2069"),
        ("\u0645\u200c\u06cc ü \U0001f469\u200d\U0001f680", "\u0645\u200c\u06cc ü \U0001f469\u200d\U0001f680"),
    ],
)
def test_what_moves_or_turns_what_is_around_it_is_spelt_out_and_writing_is_not(expected: str, text: str) -> None:
    assert (expected, expected) == (in_lines(text), in_a_cell(text))


def test_lines_stay_lines_but_in_a_cell() -> None:
    assert ("a\n\tb", "a  b") == (in_lines("a\n\tb"), in_a_cell("a\n\tb"))
