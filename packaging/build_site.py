"""Builds the documentation site: build/site, from the Markdown pages of the project.

    python packaging/build_site.py

The pages are copied to build/site-source first, where they lie as in the project, with every other file that they link
to (a test, a source, a picture), so that the site needs no network. A link to a directory leads to a list of its files.
Ends with 1 where MkDocs has something to warn of, or where a page would load anything from another host.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

import contacts
import markdown_links
import site_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig

TOP: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = TOP / "build" / "site-source"
SITE: Final = TOP / "build" / "site"
FILE: Final = TOP / "build" / "mkdocs.yml"
LOADED: Final = re.compile(
    r"<(?:script|img|iframe|source|link(?![^>]*rel=\"canonical\"))\b[^>]*?\b(?:src|href)=\"((?:https?:)?//[^\"]+)\"|"
    r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)"
)


def main() -> int:
    """Build; the exit code."""
    logging.basicConfig(format="site: %(message)s", level=logging.WARNING)
    for directory in (SOURCE, SITE):
        shutil.rmtree(directory, ignore_errors=True)
    sections = site_plan.sections(TOP)
    named = [page for section in sections for page in section.pages]
    waiting, copied = list(named), set(named)
    while waiting:
        linked = _copy(waiting.pop()) - copied
        copied |= linked
        waiting += linked
    try:
        build(_configuration(sections, hidden=sorted(copied - set(named))))
    except Abort as error:
        sys.stderr.write(f"site: cannot build it: {error}\n")
        return 1
    if loaded := sorted(_loaded(SITE)):
        sys.stderr.write("".join(f"site: {one} (no page may load anything from elsewhere)\n" for one in loaded))
        return 1
    sys.stdout.write(f"site: {(SITE / 'index.html').relative_to(TOP)}\n")
    return 0


def _configuration(sections: list[site_plan.Section], *, hidden: list[str]) -> MkDocsConfig:
    given = {
        "site_name": "trikubelet",
        "site_author": contacts.read(TOP).maintainer_name,
        "docs_dir": str(SOURCE),
        "site_dir": str(SITE),
        "strict": True,
        "use_directory_urls": False,  # so that it can be read from a disk, too
        "theme": {"name": "readthedocs", "highlightjs": False, "navigation_depth": 3},
        "nav": [{section.title: section.pages} for section in sections],
        "not_in_nav": "\n".join(["index.md", *(f"/{page}" for page in hidden)]),  # lists of directories, and results
        "markdown_extensions": ["sane_lists"],
        "validation": {
            "nav": {"omitted_files": "warn"},
            "links": {"anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"},
        },
    }
    FILE.write_text(json.dumps(given, indent=2))  # which is YAML
    configuration = load_config(str(FILE))
    configuration.mdx_configs["toc"] = {"slugify": markdown_links.slug}
    return configuration


def _copy(page: str) -> set[str]:
    """Copy a page, with the files it links to; the pages it links to."""
    text, pages = (TOP / page).read_text(), set()
    for link in set(markdown_links.links(text)):
        name, hash_, anchor = link.target.partition("#")
        if not name or "://" in name or name.startswith("mailto:"):
            continue
        path = ((TOP / page).parent / unquote(name)).resolve()
        if path.is_dir():
            _list(path)
            text = text.replace(f"]({link.target})", f"]({name.rstrip('/')}/index.md{hash_}{anchor})")
        elif path.suffix == ".md":
            pages.add(str(path.relative_to(TOP)))
        else:
            _put(path.relative_to(TOP), path.read_bytes())
    _put(Path(page), text.encode())
    return pages


def _list(directory: Path) -> None:
    """A page with the committed files of a directory, and those files."""
    name = directory.relative_to(TOP)
    words = ["git", "ls-files", "-z", f"{name}/*"]
    listed = subprocess.run(words, cwd=TOP, capture_output=True, text=True, check=True).stdout
    inside = [path for one in listed.split("\0") if one and (path := Path(one)).parent == name]
    for path in (path for path in inside if path.suffix != ".md"):
        _put(path, (TOP / path).read_bytes())
    shown = "".join(f"- [{path.name}]({path.name})\n" for path in inside)
    _put(name / "index.md", f"# {name}\n\n{shown}".encode())


def _put(name: Path, content: bytes) -> None:
    place = SOURCE / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def _loaded(site: Path) -> Iterator[str]:
    """What the pages and their styles would load from another host."""
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        for found in LOADED.finditer(path.read_text(errors="replace")):
            yield f"{path.relative_to(site)}: loads {found[1] or found[2]}"


if __name__ == "__main__":
    sys.exit(main())
