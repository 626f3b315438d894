"""The calls to and from device plugins (``cri.device_plugins``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    import trio

    from trikubelet.core.devices.choice import Question
    from trikubelet.model.devices import Device, PluginOptions, Registering, RunOptions


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
