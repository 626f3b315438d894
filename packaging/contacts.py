"""Writes the contacts of packaging/contacts.toml into the files that show them.

    python packaging/contacts.py [--check]

Markdown marks a value: ``<!-- contact: security_contact -->…<!-- end -->``. Other files have a line whose form is known
here. ``--check`` writes nothing, names the lines that differ and ends with 1.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).resolve().parent.parent
PLACE: Final = "packaging/contacts.toml"
SIGNERS: Final = "packaging/allowed_signers"
IDENTITY: Final = "trikubelet-releases"
"""What `ssh-keygen -Y` calls the signer of a release; the namespace of the signatures has the same name."""
MARKED: Final = re.compile(r"<!-- contact: (?P<name>\w+) -->(?P<value>[^<\n]*)<!-- end -->")
MARKED_PAGES: Final = ("SECURITY.md", "CODE_OF_CONDUCT.md", "MAINTAINERS.md", "RELEASING.md", "docs/*.md")
LINES: Final = (
    ("pyproject.toml", r"^authors = .*$", 'authors = [{{ name = "{maintainer_name}", email = "{maintainer_mail}" }}]'),
    ("pyproject.toml", r"^Homepage = .*$", 'Homepage = "{project_url}"'),
    ("pyproject.toml", r"^Documentation = .*$", 'Documentation = "{project_url}/tree/main/docs"'),
    ("pyproject.toml", r"^Changelog = .*$", 'Changelog = "{project_url}/blob/main/CHANGELOG.md"'),
    ("pyproject.toml", r"^Issues = .*$", 'Issues = "{project_url}/issues"'),
    ("packaging/packages/trikubelet.yaml", r"^maintainer: .*$", "maintainer: {maintainer_name} <{maintainer_mail}>"),
    ("packaging/packages/trikubelet.yaml", r"^homepage: .*$", "homepage: {project_url}"),
    ("packaging/packages/kubelet.yaml", r"^maintainer: .*$", "maintainer: {maintainer_name} <{maintainer_mail}>"),
    ("packaging/packages/kubelet.yaml", r"^homepage: .*$", "homepage: {project_url}"),
    (".github/ISSUE_TEMPLATE/config.yml", r"^    url: .*$", "    url: {project_url}/blob/main/SECURITY.md"),
)
"""A file, the one line in it that shows contacts, and how that line is written."""


class Faulty(Exception):
    """The contacts cannot be used."""


@dataclass(frozen=True)
class Contacts:
    """What packaging/contacts.toml holds."""

    project_url: str
    security_contact: str
    conduct_contact: str
    maintainer_name: str
    maintainer_mail: str
    public_key: str

    def placeholders(self) -> list[str]:
        """The names of the values that are still placeholders."""
        return [one.name for one in fields(self) if re.search(r"\.example$|^$", getattr(self, one.name))]


def read(top: Path = TOP) -> Contacts:
    """The contacts of a checkout. Raises Faulty."""
    try:
        given = tomllib.loads((top / PLACE).read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Faulty(f"cannot read {PLACE}: {error}") from error
    known = {one.name for one in fields(Contacts)}
    if wrong := sorted(known ^ given.keys()):
        raise Faulty(f"{PLACE}: missing or unknown: {', '.join(wrong)} (it has exactly {', '.join(sorted(known))})")
    if texts := sorted(
        name for name, value in given.items() if not isinstance(value, str) or re.search(r'["\n<]', value)
    ):
        raise Faulty(f"{PLACE}: {', '.join(texts)}: not a string of one line without quotes and <")
    return Contacts(**given)


def filled(top: Path, contacts: Contacts) -> dict[Path, str]:
    """Each file that shows contacts, as it should be. Raises Faulty for a file that lacks its line."""
    found: dict[Path, str] = {}
    for path in sorted(path for pattern in MARKED_PAGES for path in top.glob(pattern)):
        text = path.read_text()
        if MARKED.search(text):
            found[path] = MARKED.sub(partial(_marked, path.relative_to(top), contacts), text)
    for name, pattern, form in LINES:
        path = top / name
        text = found.get(path) or path.read_text()
        line = form.format(**vars(contacts))
        found[path], count = re.subn(pattern, line.replace("\\", r"\\"), text, flags=re.MULTILINE)
        if count != 1:
            raise Faulty(f"{name}: {count} lines match {pattern!r}, and not one")
    found[top / SIGNERS] = signers(contacts)
    return found


def _marked(name: Path, contacts: Contacts, mark: re.Match[str]) -> str:
    if not hasattr(contacts, mark["name"]):
        raise Faulty(f"{name}: unknown contact {mark['name']!r} ({PLACE} has the names)")
    return f"<!-- contact: {mark['name']} -->{getattr(contacts, mark['name']) or 'not published yet'}<!-- end -->"


def signers(contacts: Contacts) -> str:
    """The file by which `ssh-keygen -Y verify` knows the key of the releases."""
    if not contacts.public_key:
        return f"# The key is not published yet: {PLACE}\n"
    return f'{IDENTITY} namespaces="{IDENTITY},git" {contacts.public_key}\n'


def main() -> int:
    """Write, or compare; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    asked = parser.parse_args()
    try:
        wanted = filled(TOP, read())
    except Faulty as error:
        sys.stderr.write(f"contacts: {error}\n")
        return 1
    different = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in different:
        if asked.check:
            sys.stderr.write(f"contacts: {path.relative_to(TOP)} differs from {PLACE}: run packaging/contacts.py\n")
        else:
            path.write_text(wanted[path])
    return 1 if different and asked.check else 0


if __name__ == "__main__":
    sys.exit(main())
