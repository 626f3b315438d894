"""The addresses of this node, which may come late and may change: polled, like upstream does for each status.

    default routes, DNS, --node-ip ─► core.node_addresses ─► get() ─► statuses of node and pods, probes, variables
                                                          └► changed ─► the node's status is published at once

A node of a cluster that has none yet is not registered, because its pods would be unreachable. That is logged once a
minute. Known addresses stay if there are none later, for example while a route is gone for a moment. If a DNS server
does not answer, its last answer counts while the address is this machine's. A late answer, as when the first servers of
resolv.conf are away, is used at the next check.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.node_addresses import AddressReading, node_addresses, why_none
from trikubelet.kit.listeners import Listeners
from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.core.node_addresses import AddressRules
    from trikubelet.ports import HostNetwork

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""As often as upstream computes a node's status."""
FIRST_LOOK_SECONDS: Final = 1.0
"""The time between two checks while the node has no address yet."""
NAME_SECONDS_MAX: Final = 5.0
"""A check does not wait longer for DNS."""
SLOW_SILENCE_SECONDS: Final = 3600.0
"""The time between two logs of a DNS that does not answer in time."""


class NodeAddresses:
    """Owns the addresses of this node."""

    def __init__(self, network: HostNetwork, rules: AddressRules) -> None:
        """Begin with the addresses that are known without DNS, because the start must not wait for DNS."""
        self._network = network
        self._rules = rules
        self._named: Sequence[str] = ()
        self._asked: trio.Event | None = None
        self._dns_answers = True
        self._addresses = node_addresses(rules, self._reading())
        self._complaints = LogRateLimit()
        self._slow_log = LogRateLimit(SLOW_SILENCE_SECONDS)
        self.published: Callable[[], Sequence[str]] = tuple
        """The addresses that the cluster has of this node; set by the owner of the node's object."""
        self.looked: Final = trio.Event()
        """DNS was asked, too: from then on the addresses may be published."""
        self.changed: Final[Listeners[tuple[str, ...]]] = Listeners("the node's addresses")

    def get(self) -> tuple[str, ...]:
        """Return the present ones, the primary first; none while a node of a cluster has none."""
        return self._addresses

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Check until cancelled."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                if self._rules.asks_dns:
                    await self._ask_dns(nursery)
                self._look()
                await trio.sleep(LOOK_SECONDS if self._addresses else FIRST_LOOK_SECONDS)

    async def _ask_dns(self, nursery: trio.Nursery) -> None:
        """Start a lookup, or go on waiting for an earlier one, for a limited time."""
        if self._asked is None:
            self._asked = trio.Event()
            nursery.start_soon(self._named_by_dns, self._asked)
        with trio.move_on_after(NAME_SECONDS_MAX):
            await self._asked.wait()
            self._asked = None
            return
        self._dns_answers = False
        if self._slow_log.may_log():
            log.warning(
                "DNS does not answer within %g s for %s: a late answer still counts; check the servers of "
                "resolv.conf, or set --node-ip",
                NAME_SECONDS_MAX,
                self._rules.node_name,
            )

    async def _named_by_dns(self, answered: trio.Event) -> None:
        """Make one lookup, which may take longer than a check."""
        named = await self._network.named(self._rules.node_name)
        self._dns_answers = named is not None
        self._named = self._named if named is None else named
        answered.set()

    def _look(self) -> None:
        reading = self._reading()
        found = node_addresses(self._rules, reading, self._addresses)
        if not found and self._complaints.may_log():
            known = ", ".join(self._addresses or self.published())
            then = f"{known} stays" if known else "a new one is not registered before it has one"
            log.warning("This node has no address, %s: %s", then, why_none(self._rules, reading))
        self.looked.set()
        if found and found != self._addresses:
            log.info("The addresses of this node are %s", ", ".join(found))
            self._addresses = found
            self.changed.notify(found)

    def _reading(self) -> AddressReading:
        here = frozenset(one for one in (*self._rules.given, *self._named) if self._network.has(one))
        return AddressReading(self._network.routed(), self._named, here, self._dns_answers)
