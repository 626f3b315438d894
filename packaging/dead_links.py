"""Finds links in the Markdown pages of the project that lead to no file, or to no heading.

    python packaging/dead_links.py [PAGE...]

No network: links with a scheme are not followed. Every page of docs must also be named by packaging/site.toml, by which
readers of the site find it. Names each fault as ``file:line`` and ends with 1.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import markdown_links
import site_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOP: Final = Path(__file__).resolve().parent.parent


def faults(pages: Iterable[Path], *, top: Path) -> Iterator[str]:
    """One line for each dead link of the pages."""
    for page in pages:
        for link in markdown_links.links(page.read_text()):
            if why := _fault(page, link.target, top=top):
                yield f"{page.relative_to(top)}:{link.line}: {link.target}: {why}"


def _fault(page: Path, target: str, *, top: Path) -> str:
    if "://" in target or target.startswith("mailto:"):
        return ""
    name, _, anchor = unquote(target).partition("#")
    if name.startswith("/"):
        return "an absolute path (write one relative to the page)"
    path = (page.parent / name).resolve() if name else page
    if not path.is_relative_to(top):
        return "outside of the project"
    if not path.exists():
        return "no such file"
    if anchor and path.suffix == ".md" and anchor not in _anchors(path):
        return f"no heading of {path.relative_to(top)} has this anchor"
    return ""


@cache
def _anchors(page: Path) -> set[str]:
    return markdown_links.anchors(page.read_text())


def _known(top: Path) -> list[Path]:
    """Every page that is committed or about to be."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(words, cwd=top, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := top / name).exists()]


def main() -> int:
    """Check; the exit code."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or _known(TOP)
    found = list(faults(pages, top=TOP))
    if not sys.argv[1:]:
        found += site_plan.faults(TOP)
    for fault in found:
        sys.stderr.write(f"dead_links: {fault}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
