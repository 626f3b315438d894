"""Which pages the documentation site has, and where a reader finds them: packaging/site.toml, read."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

PLAN: Final = "packaging/site.toml"


class Section(NamedTuple):
    """A part of the navigation, with its pages relative to the top of the project."""

    title: str
    pages: list[str]


def sections(top: Path) -> list[Section]:
    """The sections in order. A star brings the pages that exist and are not named elsewhere."""
    given = tomllib.loads((top / PLAN).read_text())["section"]
    named = {page for one in given for page in one["pages"]}
    return [Section(one["title"], list(_expanded(one["pages"], named, top=top))) for one in given]


def _expanded(pages: list[str], named: set[str], *, top: Path) -> list[str]:
    found = []
    for page in pages:
        if "*" in page:
            found += [
                str(path.relative_to(top)) for path in sorted(top.glob(page)) if str(path.relative_to(top)) not in named
            ]
        else:
            found.append(page)
    return found


def faults(top: Path) -> list[str]:
    """One line for each page that is missing, is not named, or is named twice."""
    named = [page for section in sections(top) for page in section.pages]
    docs = {str(path.relative_to(top)) for path in (top / "docs").rglob("*.md")}
    return [
        *(f"{PLAN}: {page}: no such page" for page in sorted(set(named)) if not (top / page).is_file()),
        *(f"{PLAN}: {page}: not named (add it to a section)" for page in sorted(docs - set(named))),
        *(f"{PLAN}: {page}: named more than once" for page in sorted(set(named)) if named.count(page) > 1),
    ]
