"""Device plugins that are connected: registered by a call or by the plugin watcher, and followed until they stop.

    Register ────────┐
    plugin watcher ──┴─► GetDevicePluginOptions ─► ListAndWatch ─► each list replaces the resource's devices
                                                        └── ends: unhealthy, and dropped after the grace

Plugins are containers. Each is called in a task of its own, so one that hangs or fails concerns no other. A plugin
whose stream ended must register again, like upstream.
"""

from __future__ import annotations

import logging
import stat
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.devices import inventory
from trikubelet.core.devices.registration import registering_problem, watched_problem
from trikubelet.kit.disk import on_disk
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.listeners import Listeners
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.asking import within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path

    from trikubelet.core.devices.inventory import Inventory
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.devices import PluginOptions, Registering
    from trikubelet.model.plugins import PluginInfo
    from trikubelet.ports import DevicePlugin, DeviceSockets

log = logging.getLogger(__name__)

SOCKET: Final = "kubelet.sock"
MODE: Final = 0o750
CONNECT_SECONDS_MAX: Final = 10.0
"""Until a plugin has told its options. Like upstream."""
PLUGINS_MAX: Final = 256
"""Connected at the same time. A node has one for each kind of device, and each has a task and a connection."""


class Connected:
    """One plugin while it is connected. Compared by identity: a plugin that registers again is another one."""

    def __init__(self, resource: str, endpoint: str, plugin: DevicePlugin, options: PluginOptions) -> None:
        self.resource = resource
        self.endpoint = endpoint
        self.plugin = plugin
        self.options = options
        self.scope = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Connected: {self.resource} at {self.endpoint}>"


class DevicePlugins:
    """Owns which device plugins are connected, by resource, and the devices that they listed. ``changed``: notified
    when either changed."""

    def __init__(self, directory: Path, sockets: DeviceSockets, threads: ThreadPool) -> None:
        self.changed: Final[Listeners[()]] = Listeners("devices that changed")
        self.connected: dict[str, Connected] = {}
        self._inventory: Inventory = {}
        self._directory = directory
        self._sockets = sockets
        self._threads = threads
        self._following = 0
        self._nursery: trio.Nursery | None = None
        self._barriers = FaultBarriers(log, "The device plugin at %s: a bug in using it; it must register again")

    @property
    def inventory(self) -> Inventory:
        """The resources that are known now, without those whose grace has ended."""
        return inventory.expired(self._inventory, trio.current_time()).kept

    def restore(self, resources: Iterable[str]) -> None:
        """An earlier run knew these resources: they have no devices until their plugins register."""
        self._inventory = {**inventory.restored(resources, trio.current_time()), **self._inventory}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take registrations until cancelled. Started: plugins can register. Raises OSError if the socket cannot be
        made."""
        clearing = partial(_clear, self._directory)
        await on_disk(self._threads, clearing, f"remove old sockets in {self._directory}", may_hang=True)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await self._sockets.serve_registration(
                    str(self._directory / SOCKET), self._register, task_status=task_status
                )
            finally:
                self._nursery = None

    # ---- the plugin watcher's ----

    def problem(self, plugin: PluginInfo) -> str:
        """See ``plugins.watcher.PluginHandler``; so for the next."""
        return watched_problem(plugin)

    @asynccontextmanager
    async def used(self, plugin: PluginInfo) -> AsyncGenerator[None, None]:
        connected = await self._begin(plugin.name, plugin.endpoint)
        try:
            yield
        finally:
            connected.scope.cancel()

    # ---- registration by a call ----

    async def _register(self, request: Registering) -> None:
        if problem := registering_problem(request):
            log.warning("A device plugin is not registered: %s", problem)
            raise ValueError(problem)
        await self._begin(request.resource, str(self._directory / request.endpoint))

    async def _begin(self, resource: str, endpoint: str) -> Connected:
        """Use a plugin from now on. Raises PluginFailed."""
        if self._nursery is None:
            raise PluginFailed("Unavailable", "the agent takes no device plugins now, it starts or stops")
        connected: Connected = await self._nursery.start(self._follow, resource, endpoint)
        return connected

    async def _follow(self, resource: str, endpoint: str, *, task_status: trio.TaskStatus[Connected]) -> None:
        """Use a plugin until it stops. Started: it has told its options. Raises PluginFailed only before that."""
        if self._following >= PLUGINS_MAX:
            raise PluginFailed("ResourceExhausted", f"{PLUGINS_MAX} device plugins are connected, no more are taken")
        self._following += 1
        try:
            async with self._sockets.plugin(endpoint) as plugin:
                with within(CONNECT_SECONDS_MAX):
                    options = await plugin.options()
                connected = Connected(resource, endpoint, plugin, options)
                if (before := self.connected.get(resource)) is not None:
                    before.scope.cancel()
                self.connected[resource] = connected
                log.info("Device plugin %s at %s is registered", resource, endpoint)
                task_status.started(connected)
                with self._barriers.of(endpoint), connected.scope:
                    await self._take_lists(connected)
        finally:
            self._following -= 1

    async def _take_lists(self, connected: Connected) -> None:
        resource = connected.resource
        try:
            async with connected.plugin.lists() as lists:
                async for devices in lists:
                    self._set(inventory.listed(self._inventory, resource, devices))
        except PluginFailed as error:
            log.warning("Device plugin %s at %s stopped: %s", resource, connected.endpoint, error)
        finally:
            # The end of a stream says nothing about a plugin that has registered again meanwhile (kubernetes#121994).
            if self.connected.get(resource) is connected:
                del self.connected[resource]
                log.info("Device plugin %s is no longer connected", resource)
                self._set(inventory.stopped(self._inventory, resource, trio.current_time()))

    def _set(self, found: Inventory) -> None:
        self._inventory = found
        self.changed.notify()

    def __repr__(self) -> str:
        return f"<DevicePlugins: {', '.join(sorted(self.connected)) or 'none'}>"


def _clear(directory: Path) -> None:
    """Remove the sockets of plugins that registered with an earlier agent, so that they register again. The agent's own
    stays, because another agent may listen there. In a thread. Raises OSError."""
    directory.mkdir(mode=MODE, parents=True, exist_ok=True)
    for path in directory.iterdir():
        if path.name != SOCKET and stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink(missing_ok=True)
