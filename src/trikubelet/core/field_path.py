"""The place of a field in a document, and the path by which people see it.

A place is a tuple of keys and indexes; its path is ``spec.containers[0].env[1].name``. Keys that are not plain words
are in brackets: ``metadata.annotations[kubernetes.io/config.hash]``.
"""

from __future__ import annotations

import re

Place = tuple[str, ...]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


def member_path(path: str, name: str) -> str:
    """The field path of a member of an object."""
    if _WORD.fullmatch(name) is None:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def item_path(path: str, key: int | str) -> str:
    """The field path of an item of a list or of a map's value."""
    return f"{path}[{key}]"


def place_of(path: str) -> Place:
    """The place a field path names."""
    return tuple(word or bracketed for word, bracketed in _STEP.findall(path))


def path_of(place: Place) -> str:
    """A place as a field path. Lists and maps cannot be distinguished here; both come out in brackets when numeric."""
    path = ""
    for step in place:
        path = item_path(path, step) if step.isdigit() else member_path(path, step)
    return path
