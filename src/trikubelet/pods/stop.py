"""Stopping containers and sandboxes: carries out the order of ``core.termination``.

Grace is data. It goes to the runtime as a number of seconds and is never a Trio deadline, so nothing in this process
can cut a container's termination short. What a preStop hook and the wait for a container's turn take is counted.

    one container:  Killing ─► its preStop hook, as long as its grace at most ─► its turn has come ─► StopContainer

A deletion with less grace interrupts the attempt: a hook under way is cut, and runs again within what is left now. One
that came to its end is not repeated, however often the end of its container is tried.

A call that failed, because the runtime restarts for instance, says nothing of the container, which may be in the middle
of its termination. StopPodSandbox would kill it, so a sandbox stays until every container in it is known to be down,
and the next attempt of a pod that terminates goes on with the grace that this one left (``unfinished_stops``).

A runtime that answers, and cannot stop a container, will not by being asked again: when that has gone on for the whole
grace, its sandbox is stopped all the same, as upstream does at once.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import trio

from trikubelet.core.names import all_containers, object_ref
from trikubelet.core.termination import container_grace, grace_left, kill_stages
from trikubelet.model.runtime import ContainerState, ContainerStatus
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError, RuntimeTimeout, RuntimeUnavailable
from trikubelet.pods.hooks import Hooked
from trikubelet.pods.in_time import in_time
from trikubelet.pods.unfinished_stops import UnfinishedStops, Used

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from trikubelet.core.actions import Kill, Reset
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import PodObservation
    from trikubelet.pods.hooks import Hooks
    from trikubelet.ports import Events, Probes, Runtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Order:
    """One container to stop. ``container``: what the spec says of it, if anything; ``message`` is what the Killing
    event says."""

    status: ContainerStatus
    container: Container | None
    grace_seconds: int
    message: str


class _Failure(NamedTuple):
    """A container that is not known to be down, and why."""

    status: ContainerStatus
    error: RuntimeCallError


class PodKiller:
    """Stops containers and sandboxes. ``probes`` are notified of who is down, long before anybody observes it."""

    def __init__(self, runtime: Runtime, hooks: Hooks, events: Events, probes: Probes, bounds: Bounds) -> None:
        self._runtime = runtime
        self._hooks = hooks
        self._events = events
        self._probes = probes
        self._bounds = bounds
        self._unfinished = UnfinishedStops()

    async def terminate_pod(self, pod: Pod, observed: PodObservation, grace_seconds: int) -> None:
        """As ``stop_pod``, for a pod that never runs again: an attempt goes on with the grace that the one before it
        left, or with ``grace_seconds`` where that is less."""
        await self._stop_pod(pod, observed, grace_seconds, carries_over=True)

    async def stop_pod(self, pod: Pod, observed: PodObservation, grace_seconds: int) -> None:
        """Stop every container, stage by stage within one grace, then every sandbox in which no container may run any
        more. Raises the first RuntimeCallError after everything was tried."""
        await self._stop_pod(pod, observed, grace_seconds, carries_over=False)

    async def _stop_pod(self, pod: Pod, observed: PodObservation, grace_seconds: int, *, carries_over: bool) -> None:
        named = {container.name: container for container in all_containers(pod)}
        stages = [
            [
                _Order(
                    status,
                    named.get(status.name),
                    self._unfinished.grace_left(status.id, grace_seconds) if carries_over else grace_seconds,
                    f"Stopping container {status.name}",
                )
                for status in stage
            ]
            for stage in kill_stages(pod, observed)
        ]
        failures = await self._stop_all(pod, stages, observed.ips, carries_over=carries_over)
        errors = [failure.error for failure in failures]
        occupied = {one.status.sandbox_id for one in failures if not self._is_past_stopping(one, grace_seconds)}
        for sandbox in observed.sandboxes:
            if sandbox.id in occupied or "" in occupied:  # where a container lives may not be known: in any of them
                continue
            try:
                with self._in_time():
                    await self._runtime.stop_sandbox(sandbox.id)
            except NotFound:
                continue
            except RuntimeCallError as error:
                errors.append(error)
        if errors:
            self._events.record(object_ref(pod), "Warning", "FailedKillPod", f"error killing pod: {errors[0]}")
            raise errors[0]

    async def stop_some(self, pod: Pod, kills: tuple[Kill, ...], ips: tuple[str, ...]) -> None:
        """Stop single containers of a pod that lives on, together: each has its own grace and waits for no other.
        ``ips`` are the pod's addresses. Raises the first RuntimeCallError after everything was tried."""
        named = {container.name: container for container in all_containers(pod)}
        orders = []
        for kill in kills:
            container = named.get(kill.status.name)
            orders.append(_Order(kill.status, container, container_grace(pod, container, kill.reason), kill.message))
        failures = await self._stop_all(pod, [orders], ips, carries_over=False)
        if failures:
            raise failures[0].error

    async def reset(self, pod: Pod, resets: tuple[Reset, ...]) -> None:
        """Take containers away, in order, so that their pod starts over. Their logs stay. One that is gone already is
        no error. Raises the first RuntimeCallError, and leaves the rest for the next attempt."""
        for reset in resets:
            with suppress(NotFound):
                if reset.kill:
                    message = f"Restarting all containers: stopping {reset.status.name}"
                    self._announce(pod, order := _Order(reset.status, None, 0, message))
                    await self._stop_one(pod, order)
                with self._in_time():
                    await self._runtime.remove_container(reset.status.id)

    async def _stop_all(
        self, pod: Pod, stages: Sequence[Sequence[_Order]], ips: tuple[str, ...], *, carries_over: bool
    ) -> list[_Failure]:
        """Stop containers, those of a stage together when the stage before it is down; what went wrong, in the order it
        did. One that is gone already is no error. ``carries_over``: what is left of a container's grace is remembered.
        The time a container is kept waiting by the bound on calls is not counted: it is no fault of its own."""
        failures: list[_Failure] = []
        limit = trio.CapacityLimiter(self._bounds.stops_per_pod_max)

        async def stop(order: _Order, turn: trio.Event) -> None:
            self._announce(pod, order)
            used, is_down = Used(), False
            try:
                await self._run_pre_stop_hook(pod, order, ips, limit, used)
                with used.counting():
                    await turn.wait()
                async with limit:
                    grace = grace_left(order.grace_seconds, used.seconds)
                    with used.counting():
                        await self._stop_one(pod, replace(order, grace_seconds=grace))
                is_down = True
            except NotFound:
                is_down = True
            except RuntimeCallError as error:
                failures.append(_Failure(order.status, error))
            finally:
                if carries_over and not is_down:
                    self._unfinished.carry_over(order.status.id, max(0, order.grace_seconds - int(used.seconds)))

        async def stop_stage(orders: Sequence[_Order], turn: trio.Event, over: trio.Event) -> None:
            async with trio.open_nursery() as nursery:
                for order in orders:
                    nursery.start_soon(stop, order, turn)
            over.set()

        turn = trio.Event()
        turn.set()
        async with trio.open_nursery() as everyone:
            for orders in stages:
                everyone.start_soon(stop_stage, orders, turn, over := trio.Event())
                turn = over
        return failures

    def _announce(self, pod: Pod, order: _Order) -> None:
        log.info("Pod %s: %s (grace %d s)", object_ref(pod), order.message, order.grace_seconds)
        self._events.record(object_ref(pod, order.status.name), "Normal", "Killing", order.message)

    async def _run_pre_stop_hook(
        self, pod: Pod, order: _Order, ips: tuple[str, ...], limit: trio.CapacityLimiter, used: Used
    ) -> None:
        """Run the container's preStop hook, if it has one that has not come to its end."""
        container, id_ = order.container, order.status.id
        if container is None or container.lifecycle is None or container.lifecycle.pre_stop is None:
            return
        if order.grace_seconds <= 0 or order.status.state is not ContainerState.RUNNING:
            return
        if self._unfinished.has_hook_ended(id_):
            return
        async with limit:
            with used.counting(), trio.move_on_after(order.grace_seconds) as scope:
                await self._hooks.pre_stop(Hooked(pod, container, id_, ips))
        if scope.cancelled_caught:
            log.warning("Pod %s: the preStop hook of %s took all its grace", object_ref(pod), container.name)
        self._unfinished.hook_ended(id_)

    async def _stop_one(self, pod: Pod, order: _Order) -> None:
        try:
            with self._in_time(order.grace_seconds):  # all of which the runtime may take, and then answers in time
                await self._runtime.stop_container(order.status.id, order.grace_seconds)
        except NotFound:
            self._is_down(pod, order)
            raise
        self._is_down(pod, order)

    def _is_past_stopping(self, failure: _Failure, grace_seconds: int) -> bool:
        """Whether the container had all its grace since it was first refused to be stopped, by a runtime that answers:
        one that is away or does not answer in time may just not have reported it yet."""
        if isinstance(failure.error, RuntimeUnavailable | RuntimeTimeout):
            return False
        return self._unfinished.refused_for(failure.status.id) >= grace_seconds

    def _is_down(self, pod: Pod, order: _Order) -> None:
        self._unfinished.is_down(order.status.id)
        self._probes.stopped(pod.metadata.uid, order.status.id)

    def _in_time(self, grace_seconds: int = 0) -> AbstractContextManager[None]:
        return in_time(self._bounds.runtime_call_seconds_max + grace_seconds)
