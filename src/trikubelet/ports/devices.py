"""The calls to and from device plugins (``cri.device_plugins``), the devices that pods hold (``devices.pod_devices``),
and the API that lists them (``cri.pod_resources``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    import trio

    from trikubelet.core.devices.choice import Question
    from trikubelet.core.devices.decision import Answer
    from trikubelet.core.devices.inventory import Amounts
    from trikubelet.kit.listeners import Listeners
    from trikubelet.model import k8s
    from trikubelet.model.device_figures import DeviceFigures
    from trikubelet.model.devices import Device, PluginOptions, Registering, RunOptions
    from trikubelet.model.pod_resources import DeviceGroup, PodResources


class DevicePlugin(Protocol):
    """The service of one plugin. A call takes as long as the caller's scope allows. All raise
    ``model.plugins.PluginFailed``."""

    async def options(self) -> PluginOptions:
        """Return the calls that the plugin wants."""
        ...

    def lists(self) -> AbstractAsyncContextManager[AsyncIterator[tuple[Device, ...]]]:
        """All devices of the plugin, and again whenever they change; ends when the plugin ends the stream."""
        ...

    async def preferred(self, question: Question) -> tuple[str, ...]:
        """Return the ids that the plugin advises."""
        ...

    async def allocate(self, ids: Iterable[str]) -> bytes:
        """Return the plugin's ContainerAllocateResponse, as it came, for one container that gets these devices."""
        ...

    async def pre_start(self, ids: Iterable[str]) -> None:
        """Tell the plugin that a container with these devices is about to start."""
        ...


class DeviceSockets(Protocol):
    """The sockets of device plugins, and the one where they register."""

    def plugin(self, endpoint: str) -> AbstractAsyncContextManager[DevicePlugin]:
        """The plugin that listens at a path, for the length of the block."""
        ...

    def run_options(self, answer: bytes) -> RunOptions:
        """Return what a plugin's answer to ``DevicePlugin.allocate`` adds to a container. Raises
        ``model.plugins.PluginFailed`` if it cannot be read."""
        ...

    async def serve_registration(
        self,
        socket: str,
        register: Callable[[Registering], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Serve registrations at a path until cancelled. A plugin is answered with the text of a PluginFailed or
        ValueError that ``register`` raises. Raises OSError if it cannot listen."""
        ...


class PodDevices(Protocol):
    """The devices of plugins that pods of this node hold."""

    @property
    def changed(self) -> Listeners[Collection[str]]:
        """The listeners that get the UIDs of the pods that hold devices of a resource that changed."""
        ...

    @property
    def figures(self) -> DeviceFigures:
        """The measurements."""
        ...

    @property
    def had_record(self) -> bool:
        """True if an earlier run of the agent had recorded devices of pods."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Take plugins until cancelled. Started when the earlier record was read."""
        ...

    def unhealthy(self) -> str | None:
        """Return why plugins cannot register; None if they can."""
        ...

    def amounts(self) -> Mapping[str, Amounts]:
        """Return the amounts for the node's status, by resource."""
        ...

    def resources(self) -> Collection[str]:
        """Return the resources whose devices are given out here."""
        ...

    def refusal(self, pod: k8s.Pod, unlisted: Collection[str] = ()) -> str:
        """Return why the pod's containers cannot have their devices now; "" if they can. ``unlisted``: resources that
        only a plugin can bring."""
        ...

    async def ensure(self, pod: k8s.Pod) -> Answer:
        """Give the pod's containers the devices that they need and do not hold yet. Raises OSError if that cannot be
        recorded, and ValueError."""
        ...

    async def for_container(self, pod: k8s.Pod, container: str) -> RunOptions:
        """Return the additions to the container's configuration, which is about to be made; it keeps the devices that
        it holds. Raises ConfigError, RetryAt while it waits for a plugin, and OSError."""
        ...

    async def release(self, uid: str) -> None:
        """Take the devices from the pod, which has ended."""
        ...

    def holders(self) -> Collection[str]:
        """Return the UIDs of the pods that hold devices."""
        ...

    def health(self, uid: str) -> Mapping[str, tuple[k8s.ResourceStatus, ...]]:
        """Return the health of the devices of the pod's containers, by container name."""
        ...

    def listed(self, pods: Iterable[k8s.Pod]) -> Sequence[PodResources]:
        """Return the resources of each of these pods."""
        ...

    def allocatable(self) -> Sequence[DeviceGroup]:
        """Return the devices of the node that pods can have, used ones as well."""
        ...


class PodResourcesAnswers(Protocol):
    """The answers of the pod resources API."""

    def admits(self) -> bool:
        """Count a call. Returns False if it is beyond the rate limit."""
        ...

    def all(self, api_version: str) -> Sequence[PodResources]:
        """Return the resources of each active pod."""
        ...

    def of(self, namespace: str, name: str) -> PodResources | None:
        """Return the resources of one pod; None if no active pod has that name."""
        ...

    def allocatable(self) -> Sequence[DeviceGroup]:
        """Return the devices of the node that pods can have, used ones as well."""
        ...


class PodResourcesSocket(Protocol):
    """The socket of the pod resources API."""

    async def serve(self, socket: str, answers: PodResourcesAnswers, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve the API at a path until cancelled. Raises OSError if it cannot listen."""
        ...
