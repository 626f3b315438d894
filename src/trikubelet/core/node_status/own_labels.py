"""The labels that a node may give itself.

The names below ``kubernetes.io`` and ``k8s.io`` belong to the project: schedulers and policies trust them, so a node
that could choose them freely could attract pods. The API server's admission of nodes rejects the whole node object
because of them; here they are found before anything runs. Like upstream, nodes may not give themselves roles
(``node-role.kubernetes.io``); the cluster's operator assigns them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.model.names import label_value_problem, qualified_name_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RESERVED: Final = ("kubernetes.io", "k8s.io")
OPEN: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Reserved domains in which a node may use any name, and in all their subdomains."""

ALLOWED: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Upstream's list of labels of the node API that a node may set (``node.kubernetes.io/instance-type`` is one more, in
an open domain)."""

REMEDY: Final = (
    f"a node may give itself labels of other domains, those of {' and '.join(OPEN)}, "
    f"and {', '.join(sorted(ALLOWED))}; any other is given with: kubectl label node"
)


def label_faults(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the faults of the labels that a node gives itself, each with the remedy, "" if it is obvious."""
    for name, value in labels.items():
        if problem := qualified_name_problem(name):
            yield f"{name!r} {problem}", ""
        elif problem := label_value_problem(value):
            yield f"{name}: the value {value!r} {problem}", ""
        elif not _is_for_nodes(name):
            yield f"{name!r} is a label of Kubernetes itself which a node must not give itself", REMEDY


def _is_for_nodes(name: str) -> bool:
    domain = name.rpartition("/")[0]
    return not _is_in(domain, RESERVED) or _is_in(domain, OPEN) or name in ALLOWED


def _is_in(domain: str, roots: tuple[str, ...]) -> bool:
    """True if a domain is one of these or below it."""
    return any(f".{domain}".endswith(f".{root}") for root in roots)
