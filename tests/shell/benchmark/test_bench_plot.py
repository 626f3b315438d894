"""The picture of a run: what is drawn in which panel, with a stand-in for the library, which no test has."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from shell.benchmark.benchkit import cell, run_of, showing
from trikubelet.benchmark.plot import KINDS, draw
from trikubelet.benchmark.results import CellResult

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Panel:
    def __init__(self) -> None:
        self.title = ""
        self.drawn: dict[str, list[tuple[int, float]]] = {}

    def plot(self, across: Any, up: Any, *, marker: str, label: str) -> None:
        self.drawn[label] = list(zip(across, up, strict=True))

    def set_title(self, title: str) -> None:
        self.title = title

    def legend(self) -> None: ...

    def set(self, **_: str) -> None: ...

    def grid(self, **_: Any) -> None: ...


def test_each_panel_has_a_line_for_each_peer_and_both_pictures_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panels: list[Panel] = []

    class Figure:
        def __init__(self, **_: Any) -> None: ...

        def subplots(self, rows: int, columns: int, **_: Any) -> list[list[Panel]]:
            made = [[Panel() for _ in range(columns)] for _ in range(rows)]
            panels.extend(panel for row in made for panel in row)
            return made

        def savefig(self, path: Path) -> None:
            path.touch()

    library, figures = ModuleType("matplotlib"), ModuleType("matplotlib.figure")
    figures.Figure = Figure  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "matplotlib", library)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", figures)
    peers = {"ours": showing(2), "upstream": showing(50)}
    draw(run_of(CellResult(cell=cell(110), peers=peers), CellResult(cell=cell(1_000), peers=peers)), tmp_path / "a.b")

    drawn = {panel.title: panel.drawn for panel in panels if panel.drawn}
    assert 2 * len(KINDS) == len(panels)
    points = {"ours": [(220, 2.0), (2_000, 2.0)], "upstream": [(220, 50.0), (2_000, 50.0)]}
    assert {"from bytes, 1 % of the pods changed": points} == drawn
    assert ["a.b.png", "a.b.svg"] == sorted(path.name for path in tmp_path.iterdir())
