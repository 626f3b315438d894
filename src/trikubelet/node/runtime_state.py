"""How the container runtime is: asked every five seconds, remembered for those who must not start anything without it.

``RuntimeReady`` false, or no answer for half a minute, makes the runtime down. ``NetworkReady`` false lets only
host-network pods start. A change is logged once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.kit.every import Every
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime import RuntimeInfo
    from trikubelet.ports import Runtime

log = logging.getLogger(__name__)


class RuntimeState:
    """Owns what the runtime last said of itself."""

    def __init__(self, runtime: Runtime, bounds: Bounds) -> None:
        self._runtime = runtime
        self._bounds = bounds
        self._info: RuntimeInfo | None = None
        self._answered_at: float | None = None
        self._trouble = "the container runtime has not answered yet"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask until cancelled. Started: asked once, whatever the answer."""
        asked = False
        async for _ in Every(self._bounds.runtime_check_seconds):
            await self._ask()
            if not asked:
                task_status.started()
            asked = True

    async def _ask(self) -> None:
        try:
            with trio.fail_after(self._bounds.runtime_check_seconds):
                info = await self._runtime.info()
        except (RuntimeCallError, trio.TooSlowError) as error:
            self._note(str(error) or "the container runtime did not answer in time")
            return
        if self._info is None:
            log.info("Container runtime %s %s, CRI %s", info.name, info.version, info.api_version)
        self._info = info
        self._answered_at = trio.current_time()
        self._note(_trouble(info, "RuntimeReady") or "")

    def _note(self, trouble: str) -> None:
        if trouble != self._trouble:
            if trouble:
                log.warning("Container runtime is not well: %s", trouble)
            else:
                log.info("Container runtime is ready")
        self._trouble = trouble

    @property
    def name(self) -> str:
        """What the runtime calls itself: the scheme of container ids in statuses."""
        return self._info.name if self._info else "unknown"

    @property
    def info(self) -> RuntimeInfo | None:
        """The last answer."""
        return self._info

    def unhealthy(self) -> str | None:
        """Why the runtime counts as down, or None."""
        if self._answered_at is None:
            return f"container runtime is down: {self._trouble}"
        age = trio.current_time() - self._answered_at
        if age > self._bounds.runtime_stale_seconds_max:
            return f"container runtime is down: no answer for {age:.0f}s: {self._trouble}"
        return f"container runtime is not ready: {_trouble(self._info, 'RuntimeReady')}" if self._broken else None

    @property
    def _broken(self) -> bool:
        return self._info is not None and _trouble(self._info, "RuntimeReady") is not None

    def network_trouble(self) -> str | None:
        """Why the runtime's network is not ready, or None. Unknown counts as ready: the runtime will say."""
        return _trouble(self._info, "NetworkReady") if self._info else None


def _trouble(info: RuntimeInfo | None, type_: str) -> str | None:
    condition = info.condition(type_) if info else None
    if condition is None or condition.status:
        return None
    return f"{type_} is false: {condition.reason}: {condition.message}"
