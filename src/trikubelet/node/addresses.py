"""The addresses of this node, which may come late and may change: asked for again and again, as upstream does for each
status.

    default routes, DNS, --node-ip ─► core.node_addresses ─► get() ─► statuses of node and pods, probes, variables
                                                          └► changed ─► the node's status is published at once

A node of a cluster that has none yet is not registered: nobody could reach what was scheduled to it. That is said once
a minute. Addresses once known stay where later there are none, as with a route that is gone for a moment; a DNS server
that does not answer says nothing of the name, so what it said before counts while it is this machine's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.node_addresses import AddressReading, node_addresses, why_none
from trikubelet.kit.listeners import Listeners
from trikubelet.kit.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.node_addresses import AddressRules
    from trikubelet.ports import HostNetwork

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""As often as upstream computes a node's status."""
FIRST_LOOK_SECONDS: Final = 1.0
"""Between two looks of a node that has no address yet."""
NAME_SECONDS_MAX: Final = 5.0
"""A look does not wait longer for DNS."""


class NodeAddresses:
    """Owns the addresses of this node."""

    def __init__(self, network: HostNetwork, rules: AddressRules) -> None:
        """Begins with what is known without DNS, which nothing at the start waits for."""
        self._network = network
        self._rules = rules
        self._named: Sequence[str] = ()
        self._addresses = node_addresses(rules, self._reading())
        self._complaints = LogRateLimit()
        self.looked: Final = trio.Event()
        """DNS was asked, too: from then on the addresses are those to be published."""
        self.changed: Final[Listeners[tuple[str, ...]]] = Listeners("the node's addresses")

    def get(self) -> tuple[str, ...]:
        """Those there are now, the primary first; none while a node of a cluster has none."""
        return self._addresses

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look until cancelled."""
        task_status.started()
        while True:
            await self._look()
            await trio.sleep(LOOK_SECONDS if self._addresses else FIRST_LOOK_SECONDS)

    async def _look(self) -> None:
        if self._rules.asks_dns:
            with trio.move_on_after(NAME_SECONDS_MAX):
                named = await self._network.named(self._rules.node_name)
                self._named = self._named if named is None else named
        reading = self._reading()
        found = node_addresses(self._rules, reading, self._addresses)
        if not found and self._complaints.may_log():
            known = (
                f"{', '.join(self._addresses)} stays" if self._addresses else "it is not registered before it has one"
            )
            log.warning("This node has no address, %s: %s", known, why_none(self._rules, reading))
        self.looked.set()
        if found and found != self._addresses:
            log.info("The addresses of this node are %s", ", ".join(found))
            self._addresses = found
            self.changed.notify(found)

    def _reading(self) -> AddressReading:
        here = frozenset(one for one in (*self._rules.given, *self._named) if self._network.has(one))
        return AddressReading(self._network.routed(), self._named, here)
