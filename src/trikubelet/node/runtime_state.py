"""The state of the container runtime, for all parts that depend on it: polled every five seconds, and twice a second
while it is not ready, so that a node is ready as soon as its runtime is.

``RuntimeReady`` false, or no answer for half a minute, means that the runtime is down. ``NetworkReady`` false lets only
host-network pods start. A change is logged once; lists that no longer fit in one message are also reported as an event
of the node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.listeners import Listeners
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.model.runtime import RuntimeHandler, RuntimeInfo
    from trikubelet.ports import Events, Runtime

log = logging.getLogger(__name__)


class RuntimeState:
    """Owns the runtime's last report on itself. ``changed``: it became healthy or not ready."""

    def __init__(self, runtime: Runtime, events: Events, node: ObjectRef, bounds: Bounds) -> None:
        self._runtime = runtime
        self._events = events
        self._node = node
        self._bounds = bounds
        self._info: RuntimeInfo | None = None
        self._answered_at: float | None = None
        self._problem = "the container runtime has not answered yet"
        self.changed: Final[Listeners[()]] = Listeners("a runtime that is well or not ready by now")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Poll until cancelled. Started after the first poll, whatever the answer."""
        await self._ask()
        task_status.started()
        while True:
            before = self._ready
            await trio.sleep(
                self._bounds.runtime_check_seconds if before else self._bounds.runtime_not_ready_check_seconds
            )
            await self._ask()
            if self._ready != before:
                self.changed.notify()

    async def _ask(self) -> None:
        try:
            with trio.fail_after(self._bounds.runtime_check_seconds):
                info = await self._runtime.info()
        except (RuntimeCallError, trio.TooSlowError) as error:
            self._note(str(error) or f"no answer from it within {self._bounds.runtime_check_seconds:g} s")
            return
        if self._info is None:
            log.info("Container runtime %s %s, CRI %s", info.name, info.version, info.api_version)
        self._note_warning(info.list_warning)
        self._info = info
        self._answered_at = trio.current_time()
        self._note(_problem(info, "RuntimeReady") or "")

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            if problem:
                log.warning("Container runtime is not ready: %s", problem)
            else:
                log.info("Container runtime is ready")
        self._problem = problem

    def _note_warning(self, warning: str) -> None:
        before = self._info.list_warning if self._info else ""
        if warning and warning != before:
            log.warning("Container runtime: %s", warning)
            self._events.record(self._node, "Warning", "RuntimeListTooLarge", warning)
        elif before and not warning:
            log.info("Container runtime lists everything in one message again")

    @property
    def name(self) -> str:
        """The runtime's own name: the scheme of container ids in statuses."""
        return self._info.name if self._info else "unknown"

    @property
    def info(self) -> RuntimeInfo | None:
        """The last answer."""
        return self._info

    def supports_recursive_read_only(self, handler: str) -> bool:
        """True if pods of that runtime handler can have recursively read-only mounts."""
        return any(one.recursive_read_only_mounts for one in self._handlers(handler))

    def supports_user_namespaces(self, handler: str) -> bool:
        """True if pods of that runtime handler can have a user namespace of their own."""
        return any(one.user_namespaces for one in self._handlers(handler))

    def _handlers(self, name: str) -> list[RuntimeHandler]:
        return [one for one in self._info.handlers if one.name == name] if self._info else []

    def supports_strict_groups(self) -> bool | None:
        """True if the runtime can limit a process's groups to its pod's; None until it has reported. An unset field
        means that it cannot."""
        return None if self._info is None else bool(self._info.supplemental_groups_policy)

    @property
    def _ready(self) -> bool:
        return self.unhealthy() is None and self.network_problem() is None

    def unhealthy(self) -> str | None:
        """Return why the runtime counts as down; None if it does not."""
        if self._answered_at is None:
            return f"container runtime is down: {self._problem}"
        age = trio.current_time() - self._answered_at
        if age > self._bounds.runtime_stale_seconds_max:
            return f"container runtime is down: {self._problem}"
        return f"container runtime is not ready: {_problem(self._info, 'RuntimeReady')}" if self._broken else None

    @property
    def _broken(self) -> bool:
        return self._info is not None and _problem(self._info, "RuntimeReady") is not None

    def network_problem(self) -> str | None:
        """Return why the runtime's network is not ready; None if it is. Unknown counts as ready: the runtime will
        report."""
        return _problem(self._info, "NetworkReady") if self._info else None


def _problem(info: RuntimeInfo | None, type_: str) -> str | None:
    condition = info.condition(type_) if info else None
    if condition is None or condition.status:
        return None
    return f"{type_} is false: {condition.reason}: {condition.message}"
