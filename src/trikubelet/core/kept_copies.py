"""The versions of a manifest that are kept next to it: their names, and which of them are removed.

    web.yaml                 what the agent reads
    .web.yaml.deleted        the first version that was set aside
    .web.yaml.deleted.2      the next one

Numbers only rise while copies exist, so a name that was printed stays that of the same content. The agent ignores
hidden files, as upstream does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

COPIES_MAX: Final = 5
"""Versions of one manifest that are kept."""
APPLIED_COPIES_MAX: Final = 1000
"""Copies in one directory before those that ``apply`` wrote are removed: more than five of each pod that a node can
have. Otherwise manifests whose names are used only once would fill the directory."""

_COPY: Final = re.compile(r"\.(?P<manifest>.+)\.deleted(?:\.(?P<number>[1-9][0-9]{0,8}))?", re.DOTALL)


class Copy(NamedTuple):
    """One kept version: the name of its file, the name of the manifest it is a version of, and its number."""

    name: str
    manifest: str
    number: int


def copy_named(name: str) -> Copy | None:
    """Return the copy that has this file name; None if the name is not that of a copy."""
    found = _COPY.fullmatch(name)
    return None if found is None else Copy(name, found["manifest"], int(found["number"] or 1))


def copies_in(names: Iterable[str]) -> list[Copy]:
    """Return the copies among the names of a directory, in the order of their numbers."""
    return sorted(filter(None, map(copy_named, names)), key=lambda copy: copy.number)


def next_copy(manifest: str, names: Iterable[str]) -> str:
    """Return the name of the next copy of a manifest."""
    last = max((copy.number for copy in copies_in(names) if copy.manifest == manifest), default=0)
    return f".{manifest}.deleted" + (f".{last + 1}" if last else "")


def newest(copies: Iterable[Copy]) -> set[Copy]:
    """Return the newest copy of each manifest."""
    return set({copy.manifest: copy for copy in sorted(copies, key=lambda copy: copy.number)}.values())


def surplus(copies: Sequence[Copy], applied: Collection[str]) -> list[Copy]:
    """Return those of one manifest's copies, oldest first, that are removed. ``applied``: the names of those that
    ``apply`` wrote; they are removed first, because a file written by hand may be the only one of its content."""
    due = len(copies) - COPIES_MAX
    if due <= 0:
        return []
    older = copies[:-1]  # the newest one's name was just printed
    return sorted(older, key=lambda copy: copy.name not in applied)[:due]
