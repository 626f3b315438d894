"""docs/glossary.md: what it says is somewhere is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

GLOSSARY = Path(__file__).parents[3] / "docs/glossary.md"
LINKS = re.findall(r"\[`([^`\]]+)`\]\(([^)]+)\)", GLOSSARY.read_text())
DOTTED = re.findall(r"(?<!\[)`((?:core|app|kit)\.[\w.]+)`", GLOSSARY.read_text())


@pytest.mark.parametrize(("name", "place"), LINKS)
def test_what_is_linked_is_defined_there(name: str, place: str) -> None:
    path = GLOSSARY.parent / place
    assert path.exists()
    last = name.rpartition(".")[2]
    if path.suffix == ".py" and last[0].isupper():
        assert re.search(rf"^class {last}\b", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", DOTTED)
def test_what_is_named_by_its_module_can_be_had(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    try:
        found = import_module(f"trikubelet.{name}")
    except ModuleNotFoundError:
        found = getattr(import_module(f"trikubelet.{module}"), attribute)
    assert found is not None


def test_there_is_something_to_look_up() -> None:
    assert len(LINKS) > 30
    assert len(DOTTED) > 3
