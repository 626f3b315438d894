"""No devices, on a node whose containers are only simulated (``ports.PodDevices``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.core.devices.decision import Met
from trikubelet.core.devices.listing import pod_resources
from trikubelet.kit.listeners import Listeners
from trikubelet.model.device_figures import DeviceFigures
from trikubelet.model.devices import RunOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from trikubelet.core.devices.decision import Answer
    from trikubelet.core.devices.inventory import Amounts
    from trikubelet.model import k8s
    from trikubelet.model.pod_resources import DeviceGroup, PodResources


class NoDevices:
    """Gives no devices, like a node without plugins. Owns no state."""

    had_record = False

    def __init__(self) -> None:
        self.changed: Listeners[Collection[str]] = Listeners("devices that changed")
        self.figures = DeviceFigures()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See ``ports.PodDevices``; so for all below."""
        task_status.started()
        await trio.sleep_forever()

    def unhealthy(self) -> str | None:
        return None

    def amounts(self) -> Mapping[str, Amounts]:
        return {}

    def resources(self) -> Collection[str]:
        return ()

    def refusal(self, _pod: k8s.Pod, _unlisted: Collection[str] = ()) -> str:
        return ""

    async def ensure(self, _pod: k8s.Pod) -> Answer:
        return Met()

    async def for_container(self, _pod: k8s.Pod, _container: str) -> RunOptions:
        return RunOptions()

    async def release(self, _uid: str) -> None:
        await trio.lowlevel.checkpoint()

    def holders(self) -> Collection[str]:
        return ()

    def health(self, _uid: str) -> Mapping[str, tuple[k8s.ResourceStatus, ...]]:
        return {}

    def listed(self, pods: Iterable[k8s.Pod]) -> Sequence[PodResources]:
        return pod_resources(pods, {})

    def allocatable(self) -> Sequence[DeviceGroup]:
        return ()
