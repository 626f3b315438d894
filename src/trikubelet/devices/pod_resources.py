"""Serves the pod resources API at ``pod-resources/kubelet.sock``: the devices of pods, for monitoring and network
plugins, which match a device's figures to its pod."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.token_bucket import TokenBucket
from trikubelet.kit.disk import on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool
    from trikubelet.model import k8s
    from trikubelet.model.pod_resources import DeviceGroup, PodResources
    from trikubelet.ports import PodDevices, PodResourcesSocket

log = logging.getLogger(__name__)

SOCKET: Final = "kubelet.sock"
MODE: Final = 0o750
CALLS_PER_SECOND: Final = 100.0
CALLS_BURST: Final = 10
"""Limits for all clients and methods together. Both are upstream's."""


class PodResourcesServer:
    """Owns the rate limit of the API (``ports.PodResourcesAnswers``)."""

    def __init__(
        self,
        directory: Path,
        socket: PodResourcesSocket,
        active: Callable[[], Iterable[k8s.Pod]],
        devices: PodDevices,
        threads: ThreadPool,
    ) -> None:
        """``active``: the pods that run or are to run, without those that have ended."""
        self._directory = directory
        self._socket = socket
        self._active = active
        self._devices = devices
        self._threads = threads
        self._calls = TokenBucket(CALLS_BURST, CALLS_PER_SECOND, 0.0)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Started: clients can connect, or the log says why they cannot."""
        path = self._directory / SOCKET
        making = partial(self._directory.mkdir, mode=MODE, parents=True, exist_ok=True)
        try:
            await on_disk(self._threads, making, f"make {self._directory}", may_hang=True)
            await self._socket.serve(str(path), self, task_status=task_status)
        except OSError as error:
            log.warning("Cannot serve the pod resources API at %s, its clients see no devices: %s", path, error)
            task_status.started()
            await trio.sleep_forever()

    def admits(self) -> bool:
        """See ``ports.PodResourcesAnswers``; so for all below."""
        return self._calls.take(trio.current_time())

    def all(self, api_version: str) -> Sequence[PodResources]:
        self._devices.figures.calls["list", api_version] += 1
        return self._devices.listed(self._active())

    def of(self, namespace: str, name: str) -> PodResources | None:
        key, figures = ("get", "v1"), self._devices.figures
        figures.calls[key] += 1
        wanted = (pod for pod in self._active() if (namespace, name) == (pod.metadata.namespace, pod.metadata.name))
        found = next(iter(self._devices.listed(wanted)), None)
        if found is None:
            figures.errors[key] += 1
        return found

    def allocatable(self) -> Sequence[DeviceGroup]:
        self._devices.figures.calls["get_allocatable", "v1"] += 1
        return self._devices.allocatable()
