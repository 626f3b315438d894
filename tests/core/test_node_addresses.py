"""Which addresses a node has."""

from __future__ import annotations

import pytest

from trikubelet.core.node_addresses import AddressReading, AddressRules, internal_ips, node_addresses, why_none
from trikubelet.model import k8s

CLUSTER = AddressRules("n")
SIX_FIRST = AddressRules("n", prefers_ipv6=True)
GIVEN = AddressRules("n", ("10.0.0.9", "fd00::9"))
ALONE = AddressRules("n", in_cluster=False)
ROUTED = AddressReading(["10.0.0.1", "fd00::1"])


def named(*addresses: str, here: tuple[str, ...] | None = None) -> AddressReading:
    return AddressReading(["10.0.0.1", "fd00::1"], addresses, frozenset(addresses if here is None else here))


@pytest.mark.parametrize(
    ("expected", "rules", "reading"),
    [
        (("10.0.0.9", "fd00::9"), GIVEN, AddressReading([], here=frozenset(GIVEN.given))),
        ((), GIVEN, AddressReading(["10.0.0.9"], here=frozenset(["10.0.0.9"]))),  # the other is not there yet
        (("10.0.0.7",), AddressRules("10.0.0.7"), ROUTED),
        (("10.0.0.5",), CLUSTER, named("fd00::5", "10.0.0.5")),
        (("fd00::5",), CLUSTER, named("fd00::5")),
        (("fd00::5",), SIX_FIRST, named("10.0.0.5", "fd00::5")),
        (("10.0.0.5",), SIX_FIRST, named("10.0.0.5")),
        (("10.0.0.1",), CLUSTER, named("127.0.1.1")),  # Debian's hosts file
        (("10.0.0.1",), CLUSTER, named("10.0.0.5", here=())),  # another machine's
        (("10.0.0.1",), CLUSTER, named("fe80::1", "169.254.0.1", "224.0.0.1")),
        (("10.0.0.1",), CLUSTER, ROUTED),
        (("fd00::1",), SIX_FIRST, ROUTED),
        (("10.0.0.1",), SIX_FIRST, AddressReading(["10.0.0.1"])),
        ((), CLUSTER, AddressReading([])),
        ((), CLUSTER, AddressReading(["169.254.7.7"])),
        (("10.0.0.1", "fd00::1"), ALONE, named("10.0.0.5")),
        (("127.0.0.1",), ALONE, AddressReading([])),
        (("10.0.0.9",), AddressRules("n", ("10.0.0.9",), in_cluster=False), AddressReading([])),
    ],
)
def test_the_first_step_that_gives_an_address_counts(
    expected: tuple[str, ...], rules: AddressRules, reading: AddressReading
) -> None:
    assert expected == node_addresses(rules, reading)


@pytest.mark.parametrize(
    ("expected", "rules"),
    [
        (True, CLUSTER),
        (True, SIX_FIRST),
        (False, GIVEN),
        (False, AddressRules("10.0.0.7")),
        (False, ALONE),
    ],
)
def test_dns_is_asked_only_where_it_matters_what_it_says(expected: bool, rules: AddressRules) -> None:
    assert expected is rules.asks_dns


def test_a_node_without_an_address_says_what_is_missing() -> None:
    assert why_none(GIVEN, AddressReading([], here=frozenset(["fd00::9"]))).startswith("10.0.0.9 of --node-ip is no")
    assert "no address of this machine for n: check its network, or set --node-ip" in why_none(CLUSTER, ROUTED)
    assert "DNS does not answer in time for n: " in why_none(CLUSTER, AddressReading([], dns_answers=False))


def test_a_node_was_published_with_its_internal_addresses() -> None:
    listed = (("InternalIP", "10.0.0.1"), ("Hostname", "n"), ("ExternalIP", "192.0.2.1"), ("InternalIP", "fd00::1"))
    addresses = tuple(k8s.NodeAddress(type=kind, address=address) for kind, address in listed)

    node = k8s.Node(metadata=k8s.ObjectMeta(name="n"), status=k8s.NodeStatus(addresses=addresses))

    assert ("10.0.0.1", "fd00::1") == internal_ips(node)
    assert () == internal_ips(k8s.Node(metadata=node.metadata)) == internal_ips(None)
