"""CSI drivers that have registered on this node (``plugins.watcher``): usable after they have answered NodeGetInfo.

A driver is used as soon as it has answered. Nothing waits until it is published to the cluster (``node.csi_node``),
because volumes must be unmounted without a cluster, too.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.csi import plugin_problem
from trikubelet.kit.listeners import Listeners
from trikubelet.plugins.asking import within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from collections.abc import Set as AbstractSet

    from trikubelet.model.csi import Capability, DriverInfo
    from trikubelet.model.plugins import PluginInfo
    from trikubelet.ports import CsiDriver, PluginSockets

log = logging.getLogger(__name__)

INTRODUCE_SECONDS_MAX: Final = 120.0
CALL_SECONDS_MAX: Final = 120.0
"""The deadline of all other calls to a driver (upstream: 2 min)."""
STATS_REQUESTS_MAX: Final = 8
"""Concurrent stats requests to one driver: one scrape may ask for all volumes of the node."""
AWAIT_SECONDS_MAX: Final = 10.0
"""How long a pod waits for a driver to register: it is often a pod itself, and this agent may have just started."""


@dataclass(frozen=True, slots=True, eq=False)
class Registered:
    """A driver, its capabilities, and its view of this node. ``stats_limiter``: limits concurrent requests for volume
    stats; each driver has its own limit, because a driver may hang."""

    name: str
    driver: CsiDriver
    capabilities: AbstractSet[Capability]
    info: DriverInfo
    stats_limiter: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(STATS_REQUESTS_MAX))


class RegisteredDrivers:
    """Owns which CSI drivers are registered. ``changed``: notified when one came or went."""

    def __init__(self, sockets: PluginSockets) -> None:
        self.drivers: dict[str, Registered] = {}
        self.changed: Final[Listeners[()]] = Listeners("a CSI driver that came or went")
        self._sockets = sockets
        self._waiting = trio.lowlevel.ParkingLot()

    async def driver(self, name: str) -> Registered:
        """Return the driver of that name; waits up to AWAIT_SECONDS_MAX for it. Raises ValueError if there is none."""
        with trio.move_on_after(AWAIT_SECONDS_MAX):
            while name not in self.drivers:
                await self._waiting.park()
        return self.registered(name)

    def registered(self, name: str) -> Registered:
        """Return the driver of that name. Raises ValueError if there is none now."""
        if name not in self.drivers:
            raise ValueError(f"driver name {name} not found in the list of registered CSI drivers")
        return self.drivers[name]

    def problem(self, plugin: PluginInfo) -> str:
        """See ``plugins.watcher.PluginHandler``; the same holds for ``used``."""
        return plugin_problem(plugin)

    @asynccontextmanager
    async def used(self, plugin: PluginInfo) -> AsyncGenerator[None, None]:
        async with self._sockets.driver(plugin.endpoint) as driver:
            registered = await _introduced(plugin, driver)
            self.drivers[plugin.name] = registered
            log.info("CSI driver %s at %s is registered", plugin.name, plugin.endpoint)
            self._changed()
            try:
                yield
            finally:
                # A new socket of the same driver may have registered already: that registration must stay.
                if self.drivers.get(plugin.name) is registered:
                    del self.drivers[plugin.name]
                    log.info("CSI driver %s is no longer registered", plugin.name)
                    self._changed()

    def _changed(self) -> None:
        self._waiting.unpark_all()
        self.changed.notify()

    def __repr__(self) -> str:
        return f"<RegisteredDrivers: {', '.join(sorted(self.drivers)) or 'none'}>"


async def _introduced(plugin: PluginInfo, driver: CsiDriver) -> Registered:
    with within(INTRODUCE_SECONDS_MAX):
        info = await driver.info()
        if not info.node_id:
            raise ValueError(f"CSI driver {plugin.name} returned no node ID")
        return Registered(plugin.name, driver, await driver.capabilities(), info)
