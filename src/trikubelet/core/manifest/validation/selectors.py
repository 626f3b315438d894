"""Selectors of labels and of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import forbidden, invalid, named, required, unsupported
from trikubelet.core.manifest.validation.metadata import label_problems
from trikubelet.model import names

if TYPE_CHECKING:
    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import LabelSelector, NodeSelectorRequirement, NodeSelectorTerm

_OF_LABELS = ("In", "NotIn", "Exists", "DoesNotExist")
_OF_NODES = (*_OF_LABELS, "Gt", "Lt")
_OF_FIELDS = ("In", "NotIn")
_FIELD = "metadata.name"
"""The only field of a node that a selector may name."""


def selector_problems(path: str, selector: LabelSelector | None) -> Problems:
    """Yield the problems of a selector of labels."""
    if selector is None:
        return
    yield from label_problems(f"{path}.matchLabels", selector.match_labels)
    for n, one in enumerate(selector.match_expressions):
        here = f"{path}.matchExpressions[{n}]"
        yield from _requirement(here, one.key, one.operator, one.values, _OF_LABELS)
        yield from _values(here, one.values)


def term_problems(path: str, term: NodeSelectorTerm, *, checks_values: bool) -> Problems:
    """Yield the problems of one term that selects nodes. In a preferred term the API accepts values that no label can
    have, because they only match no node."""
    for n, one in enumerate(term.match_expressions):
        here = f"{path}.matchExpressions[{n}]"
        yield from _requirement(here, one.key, one.operator, one.values, _OF_NODES)
        if one.operator in ("Gt", "Lt") and len(one.values) != 1:
            yield required(f"{here}.values", f'must be one value where the operator is "{one.operator}"')
        if checks_values:
            yield from _values(here, one.values)
    for n, one in enumerate(term.match_fields):
        yield from _field(f"{path}.matchFields[{n}]", one)


def _requirement(path: str, key: str, operator: str, values: tuple[str, ...], operators: tuple[str, ...]) -> Problems:
    if operator in ("In", "NotIn") and not values:
        yield required(f"{path}.values", f'at least one where the operator is "{operator}"')
    if operator in ("Exists", "DoesNotExist") and values:
        yield forbidden(f"{path}.values", f'there are none where the operator is "{operator}"')
    if operator not in operators:
        yield unsupported(f"{path}.operator", operator, operators)
    yield from named(f"{path}.key", key, names.qualified_name_problem(key))


def _values(path: str, values: tuple[str, ...]) -> Problems:
    for n, value in enumerate(values):
        if problem := names.label_value_problem(value):
            yield invalid(f"{path}.values[{n}]", value, problem)


def _field(path: str, one: NodeSelectorRequirement) -> Problems:
    if one.operator not in _OF_FIELDS:
        yield unsupported(f"{path}.operator", one.operator, _OF_FIELDS)
    elif len(one.values) != 1:
        yield required(f"{path}.values", "must be one value, the name of a node")
    if one.key != _FIELD:
        yield unsupported(f"{path}.key", one.key, (_FIELD,))
        return
    for n, value in enumerate(one.values):
        if problem := names.subdomain_problem(value):
            yield invalid(f"{path}.values[{n}]", value, problem)
