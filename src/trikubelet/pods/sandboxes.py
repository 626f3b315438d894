"""Creates a pod's sandbox: its configuration, the log directory that the runtime expects, and the settled call.

``pods.carry_out`` calls this at each sync that does something; for an existing sandbox only for its configuration,
which is passed with every container that is created in it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import object_ref
from trikubelet.kit.disk import disk_in_time
from trikubelet.kit.klog import level
from trikubelet.kit.settle import settled
from trikubelet.model.errors import PodSyncError
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.pods.in_time import in_time

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import SandboxStatus
    from trikubelet.model.runtime_config import SandboxConfig
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.making_paces import MakingPaces
    from trikubelet.pods.sandbox_configs import SandboxConfigs
    from trikubelet.ports import ContainerFiles, Events, Runtime

log = logging.getLogger(__name__)


class Sandboxes:
    """Configures and creates sandboxes. Owns no state."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        configs: SandboxConfigs,
        files: ContainerFiles,
        paces: MakingPaces,
        events: Events,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._runtime = runtime
        self._configs = configs
        self._files = files
        self._paces = paces
        self._events = events
        self._bounds = bounds
        self._figures = figures

    async def configure(self, pod: Pod, attempt: int, *, is_new: bool) -> SandboxConfig:
        """Return the configuration of the pod's sandbox, an existing one or one that ``is_new``. Raises
        PodSyncError."""
        try:
            return await self._configs.sandbox(pod, attempt, is_new=is_new)
        except PodSyncError as error:
            self._events.record(object_ref(pod), "Warning", "FailedCreatePodSandBox", error.message)
            raise

    async def make(self, pod: Pod, config: SandboxConfig) -> SandboxStatus:
        """Create the sandbox, settled; return its status at the runtime. Raises PodSyncError, and RuntimeCallError if
        the runtime is unavailable."""
        limit, began = self._bounds.runtime_call_seconds_max, trio.current_time()
        is_mapped = pod.spec.host_users is False
        self._figures.mapped += is_mapped
        try:
            await disk_in_time(limit, partial(self._files.make_log_directory, config.log_directory, ""))
            self._paces.sandbox_made(pod)
            # Twice the time of any other call, like upstream, because it sets up the pod's network.
            async with settled(self._bounds.settle_seconds_max):
                with in_time(2 * limit):
                    made = await self._runtime.run_sandbox(config)
        except (OSError, RuntimeCallError) as error:
            message = f"Failed to create pod sandbox: {error}"
            self._events.record(object_ref(pod), "Warning", "FailedCreatePodSandBox", message)
            self._figures.sandbox_failures[config.runtime_handler] += 1
            self._figures.mapped_failures += is_mapped
            raise PodSyncError("FailedCreatePodSandBox", message) from error
        finally:
            self._figures.sandboxes[config.runtime_handler].add(trio.current_time() - began)
        log.log(level(2), "Pod %s: made sandbox %s", object_ref(pod), made[:13])
        with in_time(limit):
            return (await self._runtime.sandbox_status(made)).decode()
