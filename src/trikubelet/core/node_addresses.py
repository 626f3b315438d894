"""Which addresses a node has for its cluster, of those that its machine has. (upstream-behaviour.md §1.17)

    --node-ip ─► the node's name, if it is an address ─► the name in DNS, of this machine's ─► the default route

The first step that gives something counts. Without a cluster nobody has told DNS of this node, so there the routes
count at once, those of both families; a node of a cluster has one address, or the pair of ``--node-ip``.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from trikubelet.model.names import canonical_ip, ip_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model import k8s

ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - nobody listens there: as a node's address it means its family
ANY_IPV6: Final = "::"
NONE_BUT_LOOPBACK: Final = ("127.0.0.1",)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """What is configured of a node's addresses. ``given``: those of ``--node-ip``, one or one of each family;
    ``prefers_ipv6``: of what DNS and routes say (``--node-ip=::``)."""

    node_name: str
    given: tuple[str, ...] = ()
    prefers_ipv6: bool = False
    in_cluster: bool = True

    @property
    def asks_dns(self) -> bool:
        """Whether it matters what DNS says of the node's name."""
        return self.in_cluster and not self.given and bool(ip_problem(self.node_name))


@dataclass(frozen=True, slots=True)
class AddressReading:
    """What the machine says: ``routed`` are the addresses its default routes send from; ``named`` those that DNS gives
    the node's name, the last time it answered; ``here`` are those of ``named`` and of ``--node-ip`` that are this
    machine's; ``dns_answers``: not if it was asked and has not answered."""

    routed: Sequence[str]
    named: Sequence[str] = ()
    here: frozenset[str] = frozenset()
    dns_answers: bool = True


def node_addresses(rules: AddressRules, reading: AddressReading, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The node's addresses, the primary first; none where a node of a cluster has none now. ``before``: those it had
    last, which a node that is alone keeps while its route is gone."""
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
    """Those by which others reach this machine, the preferred family first."""
    usable = (one for one in addresses if not node_ip_problem(one))
    return sorted(usable, key=lambda one: is_ipv6(one) is not rules.prefers_ipv6)


def why_none(rules: AddressRules, reading: AddressReading) -> str:
    """Why a node has no address, and what to do about it."""
    if missing := [one for one in rules.given if one not in reading.here]:
        return f"{' and '.join(missing)} of --node-ip is no address of this machine: correct it, or see to its network"
    dns = "has no address of this machine" if reading.dns_answers else "does not answer in time"
    return f"there is no default route, and DNS {dns} for {rules.node_name}: see to its network, or give --node-ip"


def internal_ips(node: k8s.Node | None) -> tuple[str, ...]:
    """The addresses that a node was published with, the primary first."""
    addresses = node.status.addresses if node is not None and node.status is not None else ()
    return tuple(one.address for one in addresses if one.type == "InternalIP")


def is_ipv6(address: str) -> bool:
    """The family of what is an address."""
    return ":" in address


def node_ip_problem(address: str, *, standalone: bool = False) -> str:
    """Why others cannot reach a node by this address, whoever has it; "" where they may, and for a loopback address of
    a node that nobody else looks for. It is an address."""
    found = ip_address(address)
    if found.is_loopback and not standalone:
        return "is a loopback address, by which no other machine reaches this one"
    if found.is_multicast:
        return "is a multicast address"
    return "is a link-local address, which needs a link beside it" if found.is_link_local else ""


def node_ips_problem(addresses: Sequence[str]) -> str:
    """What is wrong with these addresses together, as ``--node-ip`` names them; "" where nothing is."""
    if len(addresses) > 2 or len({is_ipv6(one) for one in addresses}) < len(addresses):
        return "must be one address, or one of each family"
    if len(addresses) == 2 and not {ANY_IPV4, ANY_IPV6}.isdisjoint(addresses):
        return f"cannot name {ANY_IPV4} or {ANY_IPV6} beside another address"
    return ""
