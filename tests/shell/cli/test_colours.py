"""Colours: on a terminal that has them, for those who did not say no."""

from __future__ import annotations

import sys

import pytest

from trikubelet.cli.terminal import Colour, painted


@pytest.mark.parametrize(
    ("shown", "terminal", "environment"),
    [
        ("\x1b[31mx\x1b[0m", True, {"TERM": "xterm"}),
        ("x", False, {"TERM": "xterm"}),
        ("x", True, {"TERM": "xterm", "NO_COLOR": "1"}),
        ("x", True, {"TERM": "dumb"}),
        ("x", True, {}),
    ],
)
def test_a_text_is_painted_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, shown: str, terminal: bool, environment: dict[str, str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert shown == painted("x", Colour.RED)
