"""Stopping containers and sandboxes: carries out the order of ``core.termination``.

Grace is data. It goes to the runtime as a number of seconds and is never a Trio deadline, so nothing in this process
can cut a container's farewell short.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import object_ref
from trikubelet.core.termination import RUNTIME_GRACE_SECONDS_MIN, container_grace, grace_left, kill_stages
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError
from trikubelet.pods.in_time import in_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.core.actions import Kill, Reset
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import ContainerStatus, PodObservation
    from trikubelet.ports import Events, Runtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Order:
    """One container to stop. ``message`` is what the Killing event says."""

    status: ContainerStatus
    grace_seconds: int
    message: str


class Stopper:
    """Stops what it is told to. Owns no state."""

    def __init__(self, runtime: Runtime, events: Events, bounds: Bounds) -> None:
        self._runtime = runtime
        self._events = events
        self._bounds = bounds

    async def stop_pod(self, pod: Pod, observed: PodObservation, grace_seconds: int) -> None:
        """Stop every container, stage by stage within one grace, then every sandbox. Raises the first
        RuntimeCallError after everything was tried."""
        began = trio.current_time()
        errors: list[RuntimeCallError] = []
        for stage in kill_stages(pod, observed):
            left = grace_left(grace_seconds, trio.current_time() - began)
            orders = [_Order(status, left, f"Stopping container {status.name}") for status in stage]
            errors += await self._stop_all(pod, orders)
        for sandbox in observed.sandboxes:
            try:
                await self._in_time(0, partial(self._runtime.stop_sandbox, sandbox.id))
            except NotFound:
                continue
            except RuntimeCallError as error:
                errors.append(error)
        if errors:
            self._events.record(object_ref(pod), "Warning", "FailedKillPod", f"error killing pod: {errors[0]}")
            raise errors[0]

    async def stop_some(self, pod: Pod, kills: tuple[Kill, ...]) -> None:
        """Stop single containers of a pod that lives on, together: each has its own grace and waits for no other.
        Raises the first RuntimeCallError after everything was tried."""
        named = {container.name: container for container in (*pod.spec.init_containers, *pod.spec.containers)}
        orders = []
        for kill in kills:
            seconds = container_grace(pod, named.get(kill.status.name), kill.reason)
            orders.append(_Order(kill.status, max(RUNTIME_GRACE_SECONDS_MIN, seconds), kill.message))
        errors = await self._stop_all(pod, orders)
        if errors:
            raise errors[0]

    async def reset(self, pod: Pod, resets: tuple[Reset, ...]) -> None:
        """Take containers away, in order, so that their pod begins anew. Their logs stay. One that is gone already is
        no error. Raises the first RuntimeCallError, and leaves the rest for the next attempt."""
        for reset in resets:
            with suppress(NotFound):
                if reset.kill:
                    message = f"Restarting all containers: stopping {reset.status.name}"
                    await self._stop_one(pod, _Order(reset.status, 0, message))
                await self._in_time(0, partial(self._runtime.remove_container, reset.status.id))

    async def _stop_all(self, pod: Pod, orders: Sequence[_Order]) -> list[RuntimeCallError]:
        """Stop containers together; what went wrong, in the order it did. One that is gone already is no error."""
        errors: list[RuntimeCallError] = []
        limit = trio.CapacityLimiter(self._bounds.stops_per_pod_max)

        async def stop(order: _Order) -> None:
            try:
                async with limit:
                    await self._stop_one(pod, order)
            except NotFound:
                return
            except RuntimeCallError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for order in orders:
                nursery.start_soon(stop, order)
        return errors

    async def _stop_one(self, pod: Pod, order: _Order) -> None:
        log.info("Pod %s: %s (grace %d s)", object_ref(pod), order.message, order.grace_seconds)
        self._events.record(object_ref(pod, order.status.name), "Normal", "Killing", order.message)
        # The runtime may take the whole grace and still answer in time.
        stop = partial(self._runtime.stop_container, order.status.id, order.grace_seconds)
        await self._in_time(order.grace_seconds, stop)

    async def _in_time(self, grace_seconds: int, call: Callable[[], Awaitable[None]]) -> None:
        await in_time(self._bounds.runtime_call_seconds_max + grace_seconds, call)
