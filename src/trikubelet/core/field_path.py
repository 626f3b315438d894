"""The place of a field in a document, and its path in messages.

A place is a tuple of keys and indexes; its path is ``spec.containers[0].env[1].name``. Keys that are not plain words
are in brackets: ``metadata.annotations[kubernetes.io/config.hash]``.
"""

from __future__ import annotations

import re

Place = tuple[str, ...]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


def member_path(path: str, name: str) -> str:
    """Return the field path of a member of an object."""
    if _WORD.fullmatch(name) is None:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def item_path(path: str, key: int | str) -> str:
    """Return the field path of an item of a list or of a map's value."""
    return f"{path}[{key}]"


def place_of(path: str) -> Place:
    """Return the place that a field path names."""
    return tuple(word or bracketed for word, bracketed in _STEP.findall(path))


def path_of(place: Place) -> str:
    """Return a place as a field path. Lists and maps cannot be distinguished here: numeric keys of both are in
    brackets."""
    path = ""
    for step in place:
        path = item_path(path, step) if step.isdigit() else member_path(path, step)
    return path
