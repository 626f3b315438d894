"""Matches a pod with the node: its node selector, and the node affinity it requires.

Preferences are for schedulers. An invalid requirement (an unknown operator, a bound that is no number) is not met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model import k8s


def wants_node(pod: k8s.Pod, node: k8s.Node) -> bool:
    """True if the node has every label of the selector and meets one of the required terms."""
    labels = node.metadata.labels
    if any(labels.get(name) != value for name, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or is_selected(node, required)


def is_selected(node: k8s.Node, selector: k8s.NodeSelector) -> bool:
    """True if the node meets one of the selector's terms."""
    return any(_is_met(term, node) for term in selector.node_selector_terms)


def _is_met(term: k8s.NodeSelectorTerm, node: k8s.Node) -> bool:
    """True if the node meets the whole term. An empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(holds(r, node.metadata.labels) for r in term.match_expressions) and all(
        r.operator in ("In", "NotIn") and r.key in fields and holds(r, fields) for r in term.match_fields
    )


def holds(requirement: k8s.NodeSelectorRequirement | k8s.LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """True if the labels meet one requirement of a selector."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, value, requirement.values)
        case _:
            return False


def _compares(operator: str, value: str | None, bounds: tuple[str, ...]) -> bool:
    try:
        number, (bound,) = int(value or ""), map(int, bounds)
    except ValueError:
        return False
    return number > bound if operator == "Gt" else number < bound
