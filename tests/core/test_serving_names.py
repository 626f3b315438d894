"""What a node's serving certificate is good for."""

from __future__ import annotations

from trikubelet.core.serving_names import serving_subject
from trikubelet.model import k8s


def node(**addresses: str) -> k8s.Node:
    told = tuple(k8s.NodeAddress(type=type_, address=address) for type_, address in addresses.items())
    return k8s.Node(metadata=k8s.ObjectMeta(name="n"), status=k8s.NodeStatus(addresses=told))


def test_before_the_cluster_has_an_address_of_the_node_there_is_nothing_to_ask_for() -> None:
    for known in (None, k8s.Node(metadata=k8s.ObjectMeta(name="n")), node(), node(Hostname="n")):
        assert serving_subject("n", known) is None


def test_addresses_of_the_cluster_count_from_any_source() -> None:
    known = node(InternalIP="10.0.0.1", ExternalIP="192.0.2.9", Hostname="n", ExternalDNS="n.example.com")

    found = serving_subject("n", known)

    assert found is not None
    assert ("system:node:n", ("system:nodes",)) == (found.common_name, found.organizations)
    assert (("n", "n.example.com"), ("10.0.0.1", "192.0.2.9")) == (found.dns_names, found.addresses)


def test_what_is_neither_a_name_nor_an_address_is_left_out() -> None:
    found = serving_subject("n", node(InternalIP="10.0.0.1", Hostname="not a name!"))

    assert found is not None
    assert (("n",), ("10.0.0.1",)) == (found.dns_names, found.addresses)
