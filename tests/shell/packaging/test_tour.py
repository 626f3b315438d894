"""``packaging/tour.py`` and ``packaging/terminal_picture.py``: the picture of the README."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from types import ModuleType

PACKAGING = Path(__file__).parents[3] / "packaging"
SVG = "{http://www.w3.org/2000/svg}"


def program(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PACKAGING))
    return importlib.import_module(name)


def words(picture: str) -> list[tuple[str, int, int]]:
    """Each run of characters with its column and row."""
    found = ET.fromstring(picture).iter(f"{SVG}text")
    return [(one.text or "", (int(one.attrib["x"]) - 16) // 8, (int(one.attrib["y"]) - 44) // 19) for one in found]


def test_words_keep_their_columns_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = program("terminal_picture", monkeypatch).picture
    assert [("NAME", 0, 0), ("AGE", 7, 0), ("a b", 0, 1), ("<&>", 9, 1)] == words(
        draw("NAME   AGE\na b      <&>\n", title="t")
    )


def test_colours_end_where_the_terminal_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = program("terminal_picture", monkeypatch).picture("\x1b[1;31mbad\x1b[0m good\n", title='"t"')
    bad, good = ET.fromstring(drawn).iter(f"{SVG}text")
    assert (("bad", "#ff7b72", "bold"), ("good", "#d6dae0", None)) == (
        (bad.text, bad.attrib["fill"], bad.attrib.get("font-weight")),
        (good.text, good.attrib["fill"], good.attrib.get("font-weight")),
    )


@pytest.mark.parametrize(
    "shown",
    [
        "NAME   READY   RESTARTS       AGE\na-demo   0/1     13 (112s ago)   2m\nlong-b-demo   1/1     0   9s\n",
        "NAME   READY   RESTARTS   AGE\na-demo   0/1     1 (1s ago)   2s\nlong-b-demo   1/1     0   121s\n",
    ],
)
def test_a_table_is_the_same_whenever_it_was_printed(shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        "NAME          READY   RESTARTS     AGE\n"
        "a-demo        0/1     1 (2s ago)   7s\n"
        "long-b-demo   1/1     0            7s\n"
    ) == program("tour", monkeypatch).steady(shown)


@pytest.mark.slow
@pytest.mark.timeout(600)  # every wait within has its own deadline
def test_the_committed_picture_is_what_the_commands_show() -> None:
    checked = subprocess.run(
        [sys.executable, PACKAGING / "tour.py", "--check"], capture_output=True, text=True, timeout=540, check=False
    )
    assert (0, "") == (checked.returncode, checked.stderr)
