"""The names and addresses for which the certificate of a node's API must be valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.certificates import Subject, node_subject
from trikubelet.model.names import ip_problem, subdomain_problem

if TYPE_CHECKING:
    from trikubelet.model import k8s


def serving_subject(node_name: str, node: k8s.Node | None) -> Subject | None:
    """Return the subject of the serving certificate: the node's addresses in the cluster, whichever component reported
    them. None before there are any: a cloud's controller may set them, and a wrong guess would be signed for the
    certificate's lifetime. Values that are neither names nor addresses are left out. (upstream-behaviour.md §1.18)"""
    reported = [] if node is None or node.status is None else [one.address for one in node.status.addresses]
    addresses = tuple(dict.fromkeys(one for one in reported if not ip_problem(one)))
    if not addresses:
        return None
    names = [one for one in reported if ip_problem(one) and not subdomain_problem(one)]
    return node_subject(node_name, tuple(dict.fromkeys(names)) or (node_name,), addresses)
