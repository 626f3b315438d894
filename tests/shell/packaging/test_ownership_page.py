"""docs/ownership.md: a class of the shell that keeps a collection says what it owns, or is exempt for a reason."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "packaging/generate_ownership.py"


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which reads sources below ``tmp_path`` and writes a page there."""
    spec = importlib.util.spec_from_file_location("generate_ownership", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    monkeypatch.setattr(made, "SOURCE", tmp_path)
    monkeypatch.setattr(made, "PAGE", tmp_path / "ownership.md")
    monkeypatch.setattr(made, "EXEMPT", {})
    monkeypatch.setattr(sys, "argv", ["generate_ownership.py"])
    return made


def write(place: Path, docstring: str, made: str, package: str = "pods") -> None:
    """A module with one class, which keeps one thing."""
    (place / package).mkdir(exist_ok=True)
    text = f'class Keeper:\n    """{docstring}"""\n\n    def __init__(self) -> None:\n        self._kept = {made}\n'
    (place / package / "keeper.py").write_text(text)


@pytest.mark.parametrize("made", ["{}", "[]", "set()", "Counter()", "deque(maxlen=1)", "collections.OrderedDict()"])
@pytest.mark.parametrize("docstring", ["Keeps something.", "Owns nothing.", "Owns no state."])
def test_collection_without_an_owner_is_named(
    made: str, docstring: str, generator: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, docstring, made)

    assert 1 == generator.main()
    assert "pods/keeper.py: Keeper keeps _kept: " in capsys.readouterr().err


def test_what_is_owned_is_a_row_and_what_is_exempt_or_of_another_package_is_none(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "Owns what was kept.", "{}")
    write(tmp_path, "Holds one answer.", "[]", "server")
    write(tmp_path, "Reads a text.", "[]", "core")
    write(tmp_path, "Owns nothing: the disk knows.", "0", "volumes")
    monkeypatch.setattr(generator, "EXEMPT", {("Keeper", "server/keeper.py"): "lives for one answer"})

    assert 0 == generator.main()
    rows = [line for line in (tmp_path / "ownership.md").read_text().splitlines() if "Keeper" in line]
    assert ["| `Keeper` | pods/keeper.py | what was kept. |"] == rows


@pytest.mark.parametrize(
    ("expected", "docstring"),
    [
        ("what was kept.", "Keeps it. Owns what was kept."),
        ("it; more. And so on.", "Keeps it (a ``Keep``.) Owns it; more. And so on."),
        (None, "Keeps it. Owns nothing: the disk knows."),
        (None, "Keeps what its caller Owns still."),
        (None, "Keeps it.\n\n    Owns what is said later."),
    ],
)
def test_a_class_may_say_what_it_owns_in_a_later_sentence_of_its_first_paragraph(
    expected: str | None, docstring: str, generator: ModuleType, tmp_path: Path
) -> None:
    write(tmp_path, docstring, "0")

    assert ([] if expected is None else [("Keeper", "pods/keeper.py", expected)]) == list(generator.owners())


@pytest.mark.parametrize("argument", ["--help", "--chek"])
def test_an_argument_that_is_no_order_to_write_writes_nothing(
    argument: str, generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate_ownership.py", argument])
    with pytest.raises(SystemExit):
        generator.main()

    assert not (tmp_path / "ownership.md").exists()


def test_an_exemption_that_nothing_needs_is_named(
    generator: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generator, "EXEMPT", {("Keeper", "pods/keeper.py"): "is gone"})

    assert 1 == generator.main()
    assert "pods/keeper.py: Keeper is exempt and need not be" in capsys.readouterr().err
