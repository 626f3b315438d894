"""Selectors of lists and watches.

Labels may be compared for equality and existence, fields for equality; only the fields of a real server are supported.
Everything else is rejected as by a real server, so that a wrong selector is found in memory already.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trikubelet.model.api_errors import Refused
from trikubelet.testing.apiserver.kinds import kind_of
from trikubelet.testing.apiserver.patches import Tree

if TYPE_CHECKING:
    from trikubelet.model.api import Resource, Selection

_COMPARISON = re.compile(r"\s*([\w./-]+)\s*(==|!=|=)\s*([\w./:-]*)\s*")
_EXISTENCE = re.compile(r"\s*(!?)\s*([\w./-]+)\s*")


Selector = Callable[[Tree], bool]
"""True if an object is selected."""


def selector(selection: Selection, resource: Resource) -> Selector:
    """The selector for a resource. Raises Refused for a selection that cannot be parsed."""
    tests = [_field(term, kind_of(resource).fields) for term in _terms(selection.fields)]
    tests += [_label(term) for term in _terms(selection.labels)]
    if selection.namespace and resource.namespaced:
        tests.append(lambda tree: tree["metadata"]["namespace"] == selection.namespace)
    return lambda tree: all(test(tree) for test in tests)


def _terms(text: str) -> list[str]:
    return text.split(",") if text else []


def _field(term: str, known: frozenset[str]) -> Selector:
    match = _COMPARISON.fullmatch(term)
    if match is None:
        raise Refused(f"invalid field selector: {term!r}", "BadRequest")
    path, operator, value = match.groups()
    if path not in known:
        raise Refused(f"field label not supported: {path}", "BadRequest")
    return lambda tree: (_at(tree, path) == value) is (operator != "!=")


def _at(tree: Tree, path: str) -> str:
    value: Any = tree
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _label(term: str) -> Selector:
    if match := _COMPARISON.fullmatch(term):
        key, operator, value = match.groups()
        return lambda tree: (_labels(tree).get(key) == value) is (operator != "!=")
    if match := _EXISTENCE.fullmatch(term):
        negated, key = match.groups()
        return lambda tree: (key in _labels(tree)) is not bool(negated)
    raise Refused(f"unable to parse requirement: {term!r}", "BadRequest")


def _labels(tree: Tree) -> dict[str, str]:
    return tree["metadata"].get("labels") or {}
