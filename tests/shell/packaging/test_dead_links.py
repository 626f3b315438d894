"""``packaging/dead_links.py`` and what the site is planned by: pages that lead nowhere are found."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

PACKAGING = Path(__file__).parents[3] / "packaging"


def program(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PACKAGING))
    return importlib.import_module(name)


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[a](other.md)", []),
        ("[a](other.md#a-title)", []),
        ("[a](other.md#a-title-1)", []),
        ("[a](#here)\n\n# Here", []),
        ("[a](sub)", []),
        ("[a](https://example.org/no) [b](mailto:a@example.org)", []),
        ("`[a](no.md)` and\n```\n[a](no.md)\n```", []),
        ("[a](no.md)", ["page.md:1: no.md: no such file"]),
        ("\n![a](no.svg)", ["page.md:2: no.svg: no such file"]),
        ("[a]: no.md", ["page.md:1: no.md: no such file"]),
        ('<img src="no.png">', ["page.md:1: no.png: no such file"]),
        ('[a](no.md "title")', ["page.md:1: no.md: no such file"]),
        ("[a](other.md#no)", ["page.md:1: other.md#no: no heading of other.md has this anchor"]),
        ("[a](other.md#in-a-block)", ["page.md:1: other.md#in-a-block: no heading of other.md has this anchor"]),
        ("[a](#no)", ["page.md:1: #no: no heading of page.md has this anchor"]),
        ("[a](/other.md)", ["page.md:1: /other.md: an absolute path (write one relative to the page)"]),
        ("[a](../../etc)", ["page.md:1: ../../etc: outside of the project"]),
    ],
)
def test_links_without_a_target_are_named_with_their_line(
    text: str, dead: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "other.md").write_text("# A title\n\n## A *title*!\n\n```\n# In a block\n```\n")
    page = tmp_path / "page.md"
    page.write_text(text)
    assert dead == list(program("dead_links", monkeypatch).faults([page], top=tmp_path))


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("How a change is proved", "how-a-change-is-proved"),
        ("`--kubectl-port`: a flag", "--kubectl-port-a-flag"),
        ("[Linked](x.md) & more", "linked--more"),
        ("snake_case", "snake_case"),
    ],
)
def test_a_heading_has_the_anchor_that_github_gives_it(
    heading: str, anchor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anchor == program("markdown_links", monkeypatch).slug(heading)


def test_pages_that_the_site_lacks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("packaging", "docs/decisions"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("docs/a.md", "docs/b.md", "docs/decisions/1.md"):
        (tmp_path / name).touch()
    (tmp_path / "packaging/site.toml").write_text(
        '[[section]]\ntitle = "A"\npages = ["docs/a.md", "docs/a.md", "no.md", "docs/decisions/*.md"]\n'
    )
    assert [
        "packaging/site.toml: no.md: no such page",
        "packaging/site.toml: docs/b.md: not named (add it to a section)",
        "packaging/site.toml: docs/a.md: named more than once",
    ] == program("site_plan", monkeypatch).faults(tmp_path)
