"""Under which names and addresses a node's API is asked, and so what its certificate must be good for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.certificates import Subject, node_subject
from trikubelet.model.names import ip_problem, subdomain_problem

if TYPE_CHECKING:
    from trikubelet.model import k8s


def serving_subject(node_name: str, node: k8s.Node | None) -> Subject | None:
    """The subject of the serving certificate: the addresses the cluster has of the node, whoever reported them. None
    before it has any: with a cloud's controller they are its to say, and a guess would be signed for its lifetime. What
    is neither a name nor an address is left out. (upstream-behaviour.md §1.18)"""
    reported = [] if node is None or node.status is None else [one.address for one in node.status.addresses]
    addresses = tuple(dict.fromkeys(one for one in reported if not ip_problem(one)))
    if not addresses:
        return None
    names = [one for one in reported if ip_problem(one) and not subdomain_problem(one)]
    return node_subject(node_name, tuple(dict.fromkeys(names)) or (node_name,), addresses)
