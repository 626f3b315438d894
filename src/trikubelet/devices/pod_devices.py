"""The devices of this node's pods, as the rest of the agent uses them (``ports.PodDevices``).

    admission ─► refusal: could the node meet the pod's needs?      node's status ─► amounts
    first sync, before anything is made ─► ensure                   pod's status ─► health
    a container is made ─► for_container ─► its additions           pod has ended ─► release

The plugins' part is ``plugins``, the holdings' ``holdings``. Every container is made with what it holds already; the
health of its devices counts when it is given them, and is shown afterwards.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.devices import trial
from trikubelet.core.devices.decision import AWAITS_PLUGIN, Awaited, Refused
from trikubelet.core.devices.health import health_of
from trikubelet.core.devices.listing import allocatable_devices, pod_resources
from trikubelet.core.devices.run_options import merged
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.listeners import Listeners
from trikubelet.kit.slot import Slot
from trikubelet.model.errors import RetryAt
from trikubelet.model.plugins import PluginFailed
from trikubelet.plugins.asking import within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from trikubelet.core.devices.decision import Answer
    from trikubelet.core.devices.inventory import Amounts
    from trikubelet.devices.holdings import DeviceHoldings
    from trikubelet.devices.plugins import DevicePlugins
    from trikubelet.model import k8s
    from trikubelet.model.device_figures import DeviceFigures
    from trikubelet.model.devices import Held, Resource, RunOptions
    from trikubelet.model.pod_resources import DeviceGroup, PodResources
    from trikubelet.ports import DeviceSockets

log = logging.getLogger(__name__)

PRE_START_SECONDS_MAX: Final = 30.0
"""Like upstream."""
RECORD_PAUSE_SECONDS: Final = 1.0
"""Between two records of the names of resources, whatever plugins do."""
_RECORDING: Final = "record the devices of pods"


class PluginDevices:
    """Owns the resources as they were when pods last learnt of them, and which pods wait for a plugin. ``changed``: the
    UIDs of those, and of the pods that hold devices of a resource that changed; none if only the node's amounts did."""

    def __init__(
        self,
        plugins: DevicePlugins,
        holdings: DeviceHoldings,
        sockets: DeviceSockets,
        *,
        shows_health: bool,
        wait_seconds: float,
    ) -> None:
        """``shows_health``: the feature gate ResourceHealthStatus; ``wait_seconds``: how long pods wait for a plugin
        that is away."""
        self.changed: Final[Listeners[Collection[str]]] = Listeners("devices that changed")
        self._plugins = plugins
        self._holdings = holdings
        self._sockets = sockets
        self._shows_health = shows_health
        self._wait_seconds = wait_seconds
        self._waiting: set[str] = set()
        self._known: Mapping[str, Resource] = {}
        self._failure_log = FailureLog()
        self._due: Slot[None] = Slot()
        plugins.changed.add(self._plugins_changed)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take plugins until cancelled. Started: the record of earlier runs was read, and plugins can register."""
        await self._holdings.load()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._plugins.run)
            nursery.start_soon(self._record_resources)
            task_status.started()

    @property
    def had_record(self) -> bool:
        """See ``ports.PodDevices``; so for all below."""
        return self._holdings.had_file

    @property
    def figures(self) -> DeviceFigures:
        return self._plugins.figures

    def unhealthy(self) -> str | None:
        return self._plugins.unhealthy()

    def amounts(self) -> Mapping[str, Amounts]:
        return self._plugins.amounts()

    def resources(self) -> Collection[str]:
        return self._holdings.resources

    def refusal(self, pod: k8s.Pod, unlisted: Collection[str] = ()) -> str:
        try:
            return trial.refusal(
                pod,
                self._plugins.inventory,
                self._holdings.held,
                resources=self._holdings.resources.union(unlisted),
                awaited=self._plugins.awaited(self._wait_seconds),
            )
        except ValueError as error:
            return str(error)

    async def ensure(self, pod: k8s.Pod) -> Answer:
        answer = await self._holdings.ensure(pod, awaited=self._plugins.awaited(self._wait_seconds))
        self._note_wait(pod, answer)
        return answer

    async def for_container(self, pod: k8s.Pod, container: str) -> RunOptions:
        awaited = self._plugins.awaited(self._wait_seconds)
        try:
            answer = await self._holdings.ensure(pod, only=container, keeps=True, awaited=awaited)
            self._note_wait(pod, answer)
            if isinstance(answer, Refused):
                raise ConfigError(answer.message, container)
            if isinstance(answer, Awaited):
                raise RetryAt(AWAITS_PLUGIN, answer.message, answer.until_seconds, container)
            held = self._holdings.of(pod, container)
            for resource, its in held.items():
                await self._pre_start(resource, its)
            return merged(self._sockets.run_options(its.answer) for its in held.values())
        except (PluginFailed, ValueError) as error:
            raise ConfigError(str(error), container) from error

    def _note_wait(self, pod: k8s.Pod, answer: Answer) -> None:
        if isinstance(answer, Awaited):
            self._waiting.add(pod.metadata.uid)
        else:
            self._waiting.discard(pod.metadata.uid)

    async def release(self, uid: str) -> None:
        self._waiting.discard(uid)
        try:
            await self._holdings.release({uid})
        except OSError as error:
            self._log_unrecorded(error)

    def holders(self) -> Collection[str]:
        return self._holdings.holders()

    def health(self, uid: str) -> Mapping[str, tuple[k8s.ResourceStatus, ...]]:
        if not self._shows_health:
            return {}
        return health_of(uid, self._plugins.inventory, self._holdings.held)

    def listed(self, pods: Iterable[k8s.Pod]) -> list[PodResources]:
        return pod_resources(pods, self._holdings.held)

    def allocatable(self) -> list[DeviceGroup]:
        return allocatable_devices(self._plugins.inventory)

    async def _pre_start(self, resource: str, held: Held) -> None:
        """Tell the plugin that the container starts, if it wants to know and is there: like upstream, a container that
        starts again does not wait for a plugin that has not registered again."""
        connected = self._plugins.connected.get(resource)
        if connected is None or not connected.options.needs_pre_start:
            return
        try:
            with within(PRE_START_SECONDS_MAX):
                await connected.plugin.pre_start(held.devices)
        except PluginFailed as error:
            raise ConfigError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    def _plugins_changed(self) -> None:
        before, self._known = self._known, self._plugins.inventory
        changed = {name for name in before.keys() | self._known if before.get(name) != self._known.get(name)}
        self._due.put(None)
        holding = {holder.pod_uid for holder in self._holdings.held if holder.resource in changed}
        self.changed.notify(holding | self._waiting)

    async def _record_resources(self) -> None:
        """Record which resources have a plugin, so that a later run of the agent waits for it."""
        while True:
            await self._due.take()
            try:
                await self._holdings.record()
            except OSError as error:
                self._log_unrecorded(error)
            else:
                self._failure_log.works_again(_RECORDING)
            await trio.sleep(RECORD_PAUSE_SECONDS)

    def _log_unrecorded(self, error: OSError) -> None:
        if self._failure_log.may_log(_RECORDING):
            log.warning("Cannot %s, will try again with the next change: %s", _RECORDING, error)

    def __repr__(self) -> str:
        return f"<PluginDevices: {self._plugins!r}, {self._holdings!r}>"
