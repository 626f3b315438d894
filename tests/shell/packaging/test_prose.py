"""The count of constructions in prose that readers stumble over, and its limits per file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shell.packaging.test_dead_links import program

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '''"""What is wanted is kept. Whose question is it?"""


def wanted():
    """Whether nobody waits."""
    # The pod
    # for whom it is.
    return "a text that everybody reads"


def test_what_nobody_reads_is_gone():
    """The agent asks who waits. Of these none is left."""
'''


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.py",
            SOURCE,
            [
                *(("relative", 6), ("what-subject", 1), ("person", 5), ("person", 8), ("of-sentence", 12)),
                *(("opening", 5), ("test-name", 11)),
            ],
        ),
        (
            "a.rs",
            "/// Of a pod the name.\nfn main() {} // nobody\n    // What runs\n    // ends.\n",
            [("of-sentence", 1), ("what-subject", 3)],
        ),
        (
            "a.md",
            "# What is new\n\nThe pod.\nOf it\n\n```\nnobody\n```\n- whoever\n",
            [("what-subject", 1), ("of-sentence", 3), ("relative", 9)],
        ),
        ("b.py", '"""What is a pod? Of course. What if it ends?"""\n# the client who asks\n', []),
    ],
)
def test_constructions_are_found_with_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: list[tuple[str, int]]
) -> None:
    (tmp_path / name).write_text(text)
    found = program("prose", monkeypatch).places(tmp_path / name)
    assert sorted(expected) == sorted((one.kind, one.line) for one in found)


def test_a_count_that_rises_is_named_and_one_that_falls_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"a.py": {"person": 2, "opening": 1}, "new.py": {"relative": 1}}
    before = {"a.py": {"person": 1, "opening": 3}}
    assert [
        "a.py: person: 2, allowed 1 (packaging/prose.py --list person a.py)",
        "new.py: relative: 1, allowed 0 (packaging/prose.py --list relative new.py)",
    ] == list(program("prose", monkeypatch).risen(now, before))


def test_readme_has_at_most_120_lines_and_its_prose_at_most_120_columns() -> None:
    lines = (Path(__file__).parents[3] / "README.md").read_text().splitlines()

    assert len(lines) <= 120
    assert [] == [line for line in lines if len(line) > 120 and not line.startswith("|")]
