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
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.fault_barriers import FaultBarriers
from trikubelet.kit.listeners import Listeners
from trikubelet.kit.slot import Slot
from trikubelet.model.device_figures import DeviceFigures
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.asking import within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path

    from trikubelet.core.devices.inventory import Amounts, Inventory
    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model.devices import PluginOptions, Registering
    from trikubelet.model.plugins import PluginInfo
    from trikubelet.ports import DevicePlugin, DeviceSockets

log = logging.getLogger(__name__)

SOCKET: Final = "kubelet.sock"
WATCHED: Final = "DEPRECATION"
"""A file that tells plugins, such as upstream's sample plugin, that they can register by the plugin watcher."""
MODE: Final = 0o750
CONNECT_SECONDS_MAX: Final = 10.0
"""Until a plugin has told its options. Like upstream."""
LIST_PAUSE_SECONDS: Final = 0.2
"""Between two lists of one plugin, because each change is published, and plugins are containers."""
SERVE_AGAIN_SECONDS: Final = 60.0
"""Until the next try where the socket cannot be made, for example on a full disk."""
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
        self.figures: Final = DeviceFigures()
        self._inventory: Inventory = {}
        self._directory = directory
        self._sockets = sockets
        self._threads = threads
        self._following = 0
        self._failure_log = FailureLog()
        self._stops: Slot[None] = Slot()
        self._problem: str | None = "it has not started"
        self._nursery: trio.Nursery | None = None
        self._barriers = FaultBarriers(log, "The device plugin at %s: a bug in using it; it must register again")

    @property
    def inventory(self) -> Inventory:
        """The resources that are known now, without those whose grace has ended."""
        return inventory.expired(self._inventory, trio.current_time()).kept

    @property
    def resources(self) -> frozenset[str]:
        """The names of the resources that a plugin of this run or of the record has brought, also of those that are
        gone: no pod can run without them as if they were unknown."""
        return frozenset(self._inventory)

    def awaited(self, wait_seconds: float) -> dict[str, float]:
        """Return the resources whose plugins are away and may return (see ``inventory.awaited``)."""
        return inventory.awaited(self._inventory, trio.current_time(), wait_seconds)

    def restore(self, resources: Iterable[str]) -> None:
        """An earlier run knew these resources: they have no devices until their plugins register."""
        self._inventory = {**inventory.restored(resources, trio.current_time()), **self._inventory}

    def amounts(self) -> dict[str, Amounts]:
        """Return the amounts for the node's status, by resource."""
        return inventory.amounts(self._inventory, trio.current_time())

    def unhealthy(self) -> str | None:
        """Return why plugins cannot register by a call; None if they can."""
        return self._problem

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take registrations until cancelled. Started: plugins can register, or why they cannot was logged."""
        has_tried = trio.Event()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                nursery.start_soon(self._notify_ends_of_grace)
                nursery.start_soon(self._serve, nursery, has_tried)
                await has_tried.wait()
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def _serve(self, nursery: trio.Nursery, has_tried: trio.Event) -> None:
        """Serve registrations in the nursery. A socket that cannot be made must not stop an agent whose pods need no
        device, so it is tried again."""
        socket = self._directory / SOCKET
        while self._problem is not None:
            try:
                clearing = partial(_clear, self._directory)
                await on_disk(self._threads, clearing, f"remove old sockets in {self._directory}", may_hang=True)
                await nursery.start(partial(self._sockets.serve_registration, str(socket), self._register))
                self._problem = None
            except OSError as error:
                self._problem = f"cannot listen at {socket}: {error}"
                if self._failure_log.may_log(SOCKET):
                    log.warning("Device plugins cannot register by a call, will try again: %s", self._problem)
            has_tried.set()
            if self._problem is not None:
                await trio.sleep(SERVE_AGAIN_SECONDS)

    async def _notify_ends_of_grace(self) -> None:
        """Notify of each end of a stopped plugin's grace, which changes the node's status."""
        while True:
            with trio.move_on_at(inventory.grace_ends_at(self._inventory, trio.current_time())) as grace:
                await self._stops.take()
            if grace.cancelled_caught:
                self.changed.notify()

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
                self.figures.registrations[resource] += 1
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
                    await trio.sleep(LIST_PAUSE_SECONDS)
        except PluginFailed as error:
            log.warning("Device plugin %s at %s stopped: %s", resource, connected.endpoint, error)
        finally:
            # The end of a stream says nothing about a plugin that has registered again meanwhile (kubernetes#121994).
            if self.connected.get(resource) is connected:
                del self.connected[resource]
                log.info("Device plugin %s is no longer connected", resource)
                self._set(inventory.stopped(self._inventory, resource, trio.current_time()))
                self._stops.put(None)

    def _set(self, found: Inventory) -> None:
        if found != self._inventory:
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
    (directory / WATCHED).touch()
