"""The difference between two versions of a manifest, as ``diff -u`` shows it, without values of Secrets.

The lines are those of the files, comments included, because ``apply`` replaces the whole file. If one of the versions
has a Secret, both are written anew as YAML, with every value masked as kubectl does: a value can be written in a file
in many ways, and a missed one would be disclosed.
"""

from __future__ import annotations

import re
from copy import deepcopy
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Final

from trikubelet.cli.objects import as_yaml
from trikubelet.core.document import as_text, parse_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

MASKED: Final = "***"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation in which kubectl keeps the whole object."""
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""Unlike ``str.splitlines``, which takes other characters for the end of a line, too."""
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"

Secrets = dict[tuple[str, str], dict[str, Any]]
"""Secrets by namespace and name."""


def diff_lines(before: bytes, after: bytes, names: tuple[str, str]) -> list[str]:
    """Return the lines of the difference, with their line ends; none if the versions do not differ. ``names``: those of
    the two files. Both texts are manifests without a fault."""
    old, new = _values(before), _values(after)
    if any(map(_secrets_in, (old, new))):
        _mask(_secrets_in(old), _secrets_in(new))
        texts = [_as_text(values) for values in (old, new)]
    else:
        texts = [as_text(text) for text in (before, after)]
    first, second = map(_LINE.findall, texts)
    return [line if line.endswith("\n") else line + _NO_NEWLINE for line in unified_diff(first, second, *names)]


def _values(text: bytes) -> list[object]:
    return [deepcopy(document.value) for document in parse_documents(text, "")[0]]


def _as_text(values: list[object]) -> str:
    return "---\n".join(map(as_yaml, values))


def _secrets_in(values: list[object]) -> Secrets:
    return {
        (meta.get("namespace") or "default", meta.get("name", "")): one
        for one in _objects(values)
        if one.get("kind") == "Secret" and isinstance(meta := one.get("metadata"), dict)
    }


def _objects(values: list[object]) -> Iterator[dict[str, Any]]:
    """Yield the objects of the documents, and of the lists among them."""
    for value in values:
        if isinstance(value, dict):
            yield value
            if isinstance(items := value.get("items"), list):
                yield from _objects(items)


def _mask(old: Secrets, new: Secrets) -> None:
    for name in {**old, **new}:
        before, after = old.get(name, {}), new.get(name, {})
        for field in ("data", "stringData"):
            _mask_values(before.get(field), after.get(field))
        annotations = [one.get("metadata", {}).get("annotations") for one in (before, after)]
        _mask_values(annotations[0], annotations[1], only=LAST_APPLIED)


def _mask_values(before: object, after: object, only: str = "") -> None:
    """Replace the values of two mappings, or those of one key. It stays visible which of them differ."""
    old, new = (one if isinstance(one, dict) else {} for one in (before, after))
    for key in {**old, **new} if not only else {only} & ({*old} | {*new}):
        differ = key in old and key in new and old[key] != new[key]
        for values, mark in ((old, " (before)"), (new, " (after)")):
            if key in values:
                values[key] = f"{MASKED}{mark if differ else ''}"
