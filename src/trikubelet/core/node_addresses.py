"""Chooses the addresses of a node from those of its machine. (upstream-behaviour.md §1.17)

    --node-ip ─► the node's name, if it is an address ─► the name in DNS, of this machine's ─► the default route

The first step that yields an address counts. A node without a cluster has no DNS entry, so there the routes count at
once, those of both families. A node of a cluster has one address, or the pair of ``--node-ip``.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from trikubelet.model.frozen import Frozen
from trikubelet.model.names import canonical_ip, ip_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model import k8s

ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - not for listening: as a node's address it stands for its family
ANY_IPV6: Final = "::"
NONE_BUT_LOOPBACK: Final = ("127.0.0.1",)


class AddressRules(Frozen):
    """The configuration of a node's addresses. ``given``: those of ``--node-ip``, one or one of each family;
    ``prefers_ipv6``: from DNS and routes (``--node-ip=::``)."""

    node_name: str
    given: tuple[str, ...] = ()
    prefers_ipv6: bool = False
    in_cluster: bool = True

    @property
    def asks_dns(self) -> bool:
        """True if the DNS entry of the node's name matters."""
        return self.in_cluster and not self.given and bool(ip_problem(self.node_name))


class AddressReading(Frozen):
    """The machine's addresses. ``routed``: those its default routes send from; ``named``: those of the node's name in
    the last answer of DNS; ``here``: those of ``named`` and of ``--node-ip`` that belong to this machine;
    ``dns_answers``: False if DNS was asked and has not answered."""

    routed: Sequence[str]
    named: Sequence[str] = ()
    here: frozenset[str] = frozenset()
    dns_answers: bool = True


def node_addresses(rules: AddressRules, reading: AddressReading, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the node's addresses, the primary first; none if a node of a cluster has none now. ``before``: the last
    ones, which a standalone node keeps while its route is gone."""
    if rules.given:
        is_there = not rules.in_cluster or reading.here.issuperset(rules.given)
        return rules.given if is_there else ()
    if not ip_problem(rules.node_name):
        return (canonical_ip(rules.node_name),)
    routed = _by_family(rules, reading.routed)
    if not rules.in_cluster:
        return tuple(routed) or before or NONE_BUT_LOOPBACK
    named = _by_family(rules, [one for one in reading.named if one in reading.here])
    return tuple((named or routed)[:1])


def _by_family(rules: AddressRules, addresses: Sequence[str]) -> list[str]:
    """Return the addresses at which other machines reach this one, the preferred family first."""
    usable = (one for one in addresses if not node_ip_problem(one))
    return sorted(usable, key=lambda one: is_ipv6(one) is not rules.prefers_ipv6)


def why_none(rules: AddressRules, reading: AddressReading) -> str:
    """Return why a node has no address, with what to do."""
    if missing := [one for one in rules.given if one not in reading.here]:
        return f"{' and '.join(missing)} of --node-ip is no address of this machine: correct it, or check its network"
    dns = "has no address of this machine" if reading.dns_answers else "does not answer in time"
    return f"there is no default route, and DNS {dns} for {rules.node_name}: check its network, or set --node-ip"


def internal_ips(node: k8s.Node | None) -> tuple[str, ...]:
    """Return the addresses that a node was published with, the primary first."""
    addresses = node.status.addresses if node is not None and node.status is not None else ()
    return tuple(one.address for one in addresses if one.type == "InternalIP")


def is_ipv6(address: str) -> bool:
    """True for an IPv6 address. The argument must be a valid address."""
    return ":" in address


def node_ip_problem(address: str, *, standalone: bool = False) -> str:
    """Return why other machines cannot reach a node by this valid address; "" if they can, and for a loopback address
    of a standalone node."""
    found = ip_address(address)
    if found.is_loopback and not standalone:
        return "is a loopback address, by which no other machine reaches this one"
    if found.is_multicast:
        return "is a multicast address"
    return "is a link-local address, which is only valid with a link's name" if found.is_link_local else ""


def node_ips_problem(addresses: Sequence[str]) -> str:
    """Return why ``--node-ip`` cannot have these addresses together; "" if it can."""
    if len(addresses) > 2 or len({is_ipv6(one) for one in addresses}) < len(addresses):
        return "must be one address, or one of each family"
    if len(addresses) == 2 and not {ANY_IPV4, ANY_IPV6}.isdisjoint(addresses):
        return f"cannot name {ANY_IPV4} or {ANY_IPV6} beside another address"
    return ""
