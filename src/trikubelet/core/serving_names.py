"""Under which names and addresses a node's API is asked, and so what its certificate must be good for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.certificates import Subject, node_subject
from trikubelet.model.names import ip_problem, subdomain_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model import k8s


def serving_subject(node_name: str, node: k8s.Node | None, host_ips: Sequence[str]) -> Subject:
    """The subject of the serving certificate: the addresses the cluster has of the node, whoever reported them, or
    before it has any the node's own. What is neither a name nor an address is left out. (upstream-behaviour.md
    §1.18)"""
    reported = [] if node is None or node.status is None else [one.address for one in node.status.addresses]
    addresses = tuple(dict.fromkeys(one for one in reported if not ip_problem(one))) or tuple(host_ips)
    names = [one for one in reported if ip_problem(one) and not subdomain_problem(one)]
    return node_subject(node_name, tuple(dict.fromkeys(names)) or (node_name,), addresses)
