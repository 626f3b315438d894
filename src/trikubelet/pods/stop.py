"""Stops containers and sandboxes, in the order of ``core.termination``.

Grace is data. It is passed to the runtime as a number of seconds and is never a Trio deadline, so nothing in this
process can cut a container's termination short. The time for a preStop hook and for a container's turn is deducted. The
time until there is a connection to the runtime is not: a call that cannot be sent would use up the grace of a container
that does not know of it. So each call first waits for a connection, as long as a call may take, and then the sync has
failed.

    one container:  Killing ─► its preStop hook, as long as its grace at most ─► its turn has come ─► StopContainer

A hook that outlasts the grace is no longer waited for, but its call stays open until StopContainer has returned
(``pods/pre_stop.py``).

A deletion with less grace interrupts the sync: a hook under way is cut, and runs again within the remaining grace. A
finished hook is not repeated, however often the container's stop is retried. A hook that the runtime cut is repeated
once: a hook that restarts the runtime would be cut each time, and its container never be stopped. A hook that the
runtime did not begin is retried some times.

A stage has its turn when every container of the one before has ended. If one could not be stopped, the later stages
keep the rest of their grace for the next sync: a sidecar serves as long as it has something to serve.

After a failed call, for example because the runtime restarts, the container may be in the middle of its termination.
StopPodSandbox would kill it, so a sandbox stays until every container in it is known to have ended, and the next sync
of a terminating pod goes on with the remaining grace (``unfinished_stops``).

If the runtime answers but cannot stop a container, retries will not help: after the whole grace the next stage has its
turn and the sandbox is stopped all the same, as upstream does at once. If a stop gets no answer, while the runtime
answers other calls, it gets the longest time of a call in addition.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio
from msgspec import field

from trikubelet.core.names import all_containers, object_ref
from trikubelet.core.termination import container_grace, grace_left, kill_stages
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime import ContainerState, ContainerStatus
from trikubelet.model.runtime_errors import NotFound, RuntimeCallError, RuntimeLost, RuntimeTimeout, RuntimeUnavailable
from trikubelet.pods.hooks import Hooked
from trikubelet.pods.in_time import in_time
from trikubelet.pods.pre_stop import PreStopRun
from trikubelet.pods.unfinished_stops import Away, UnfinishedStops, Used

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


class _Order(Frozen):
    """One container to stop. ``container``: its spec, if there is one; ``message``: that of the Killing event.
    ``refused_seconds_max``: how long its sandbox is kept while it cannot be stopped; infinite for containers that live
    on with their sandbox."""

    status: ContainerStatus
    container: Container | None
    grace_seconds: float
    message: str
    refused_seconds_max: float = math.inf


class _Failure(NamedTuple):
    """A container that is not known to have ended, and why. ``is_past_stopping``: nothing may wait for it any more."""

    status: ContainerStatus
    error: RuntimeCallError
    is_past_stopping: bool


class _Stage(msgspec.Struct):
    """Owns the end of a stage, and its error: None if none of its containers must be waited for any more."""

    over: trio.Event = field(default_factory=trio.Event)
    error: RuntimeCallError | None = None


class _Stopping(msgspec.Struct):
    """Owns the errors while containers were stopped in one sync, in order. ``carries_over``: the rest of a container's
    grace is remembered."""

    pod: Pod
    ips: tuple[str, ...]
    limit: trio.CapacityLimiter
    carries_over: bool
    began_at: float = field(default_factory=trio.current_time)
    away: Away = field(default_factory=Away)
    failures: list[_Failure] = field(default_factory=list)

    def failed(self, order: _Order, stage: _Stage, error: RuntimeCallError, *, is_past_stopping: bool = False) -> None:
        """Record that the container of the order is not known to have ended."""
        self.failures.append(_Failure(order.status, error, is_past_stopping))
        if not is_past_stopping:
            stage.error = stage.error or error


class PodKiller:
    """Stops containers and sandboxes. ``probes`` are notified of ended containers long before these are observed."""

    def __init__(self, runtime: Runtime, hooks: Hooks, events: Events, probes: Probes, bounds: Bounds) -> None:
        self._runtime = runtime
        self._hooks = hooks
        self._events = events
        self._probes = probes
        self._bounds = bounds
        self._unfinished = UnfinishedStops()

    async def terminate_pod(self, pod: Pod, observed: PodObservation, grace_seconds: int) -> None:
        """Stop a pod that never runs again, like ``stop_pod``: a sync goes on with the rest of the last one's grace, or
        with ``grace_seconds`` if that is less."""
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
                    grace_seconds,
                )
                for status in stage
            ]
            for stage in kill_stages(pod, observed)
        ]
        failures = await self._stop_all(pod, stages, observed.ips, carries_over=carries_over)
        errors = [failure.error for failure in failures]
        occupied = {one.status.sandbox_id for one in failures if not one.is_past_stopping}
        for sandbox in observed.sandboxes:
            if sandbox.id in occupied or "" in occupied:  # "": a container whose sandbox is unknown may be in any
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

    async def reset(self, pod: Pod, resets: Sequence[Reset]) -> None:
        """Remove containers, in order, so that their pod starts over. Their logs stay. A missing one is no error.
        Raises the first RuntimeCallError, and leaves the rest for the next sync."""
        for reset in resets:
            with suppress(NotFound):
                if reset.kill:
                    message = f"Restarting all containers: stopping {reset.status.name}"
                    self._announce(pod, _Order(reset.status, None, 0, message))
                    await self._stop_one(pod, reset.status.id, 0)
                with self._in_time():
                    await self._runtime.remove_container(reset.status.id)

    async def _stop_all(
        self, pod: Pod, stages: Sequence[Sequence[_Order]], ips: tuple[str, ...], *, carries_over: bool
    ) -> list[_Failure]:
        """Stop containers, those of a stage together after the stage before it; return the errors in order. A missing
        container is no error. ``carries_over``: the rest of a container's grace is remembered.
        """
        stopping = _Stopping(pod, ips, trio.CapacityLimiter(self._bounds.stops_per_pod_max), carries_over)

        async def stop_stage(orders: Sequence[_Order], before: _Stage, own: _Stage) -> None:
            async with trio.open_nursery() as nursery:
                for order in orders:
                    nursery.start_soon(self._stop_in_turn, stopping, order, before, own)
            own.over.set()

        before = _Stage()
        before.over.set()
        async with trio.open_nursery() as everyone:
            for orders in stages:
                everyone.start_soon(stop_stage, orders, before, own := _Stage())
                before = own
        return stopping.failures

    async def _stop_in_turn(self, stopping: _Stopping, order: _Order, before: _Stage, own: _Stage) -> None:
        """Stop a container when the stage ``before`` its ``own`` has ended. The time it waits for the bound on calls is
        not deducted, because it is not its fault."""
        self._announce(stopping.pod, order)
        async with trio.open_nursery() as hooks:
            await self._stop_after_hook(stopping, order, before, own, hooks)
            # Not before the container has stopped: the runtime kills the command of a cancelled call.
            hooks.cancel_scope.cancel()

    async def _stop_after_hook(
        self, stopping: _Stopping, order: _Order, before: _Stage, own: _Stage, hooks: trio.Nursery
    ) -> None:
        """Run the container's preStop hook in the nursery ``hooks``, and stop the container when the hook has ended or
        the grace has expired, and its turn has come."""
        used, called_at, is_down = Used(), math.inf, False
        try:
            await self._run_pre_stop_hook(stopping, order, used, hooks)
            with used.counting(stopping.away):
                await before.over.wait()
            if before.error is not None:
                stopping.failed(order, own, before.error)
                return
            async with stopping.limit:
                await self._wait_connected(stopping)
                called_at = trio.current_time()
                grace = grace_left(order.grace_seconds, used.seconds)
                with used.counting():
                    await self._stop_one(stopping.pod, order.status.id, grace)
            is_down = True
        except NotFound:
            is_down = True
        except RuntimeCallError as error:
            is_past = self._is_past_stopping(order, error, stopping.began_at, called_at)
            stopping.failed(order, own, error, is_past_stopping=is_past)
        finally:
            if stopping.carries_over and not is_down:
                self._unfinished.carry_over(order.status.id, max(0.0, order.grace_seconds - used.seconds))

    def _announce(self, pod: Pod, order: _Order) -> None:
        log.info("Pod %s: %s (grace %d s)", object_ref(pod), order.message, math.ceil(order.grace_seconds))
        self._events.record(object_ref(pod, order.status.name), "Normal", "Killing", order.message)

    async def _run_pre_stop_hook(self, stopping: _Stopping, order: _Order, used: Used, hooks: trio.Nursery) -> None:
        """Run the container's preStop hook, if it has an unfinished one, and return when it has ended or the grace has
        expired. Raises RuntimeUnavailable if the runtime is away, cut it, or did not begin it, and it must be
        retried."""
        container, id_ = order.container, order.status.id
        if container is None or container.lifecycle is None or container.lifecycle.pre_stop is None:
            return
        if order.grace_seconds <= 0 or order.status.state is not ContainerState.RUNNING:
            return
        if self._unfinished.has_hook_ended(id_):
            return
        hook = PreStopRun(self._hooks, Hooked(stopping.pod, container, id_, stopping.ips))
        async with stopping.limit:
            if container.lifecycle.pre_stop.exec is not None:  # other kinds do not need the runtime
                await self._wait_connected(stopping)
            hooks.start_soon(hook.run)
            with used.counting(), trio.move_on_after(order.grace_seconds) as scope:
                await hook.over.wait()
        if hook.lost is not None:
            has_failed = self._unfinished.hook_cut(id_, may_have_begun=isinstance(hook.lost, RuntimeLost))
            self._hooks.pre_stop_was_cut(hook.of, hook.lost, has_failed=has_failed)
            if not has_failed:
                raise hook.lost
        if scope.cancelled_caught:
            log.warning("Pod %s: the preStop hook of %s took all its grace", object_ref(stopping.pod), container.name)
            hook.has_expired = True
        self._unfinished.hook_ended(id_)

    async def _wait_connected(self, stopping: _Stopping) -> None:
        """Return once the runtime is connected. Raises RuntimeUnavailable if that takes longer than a call may."""
        seconds = self._bounds.runtime_call_seconds_max
        with stopping.away.waiting(), trio.move_on_after(seconds):
            await self._runtime.wait_connected()
            return
        raise RuntimeUnavailable(f"there was no connection to the container runtime for {seconds:.0f}s")

    async def _stop_one(self, pod: Pod, container_id: str, grace_seconds: int) -> None:
        try:
            with self._in_time(grace_seconds):  # the runtime may use all of it, and must then answer in time
                await self._runtime.stop_container(container_id, grace_seconds)
        except NotFound:
            self._is_down(pod, container_id)
            raise
        self._is_down(pod, container_id)

    def _is_past_stopping(self, order: _Order, error: RuntimeCallError, sync_began_at: float, called_at: float) -> bool:
        """True if a runtime that answers has been unable to stop the container for all of its grace. False if it was
        not called. A runtime that is away or times out may only not have reported the end yet, so that time counts only
        if it answered other calls since, and must be longer."""
        if math.inf in (called_at, order.refused_seconds_max):
            return False
        if isinstance(error, RuntimeUnavailable | RuntimeTimeout):
            unanswered = self._unfinished.unanswered_for(order.status.id, sync_began_at, called_at)
            return unanswered >= order.refused_seconds_max + self._bounds.runtime_call_seconds_max
        return self._unfinished.refused_for(order.status.id, order.refused_seconds_max) >= order.refused_seconds_max

    def _is_down(self, pod: Pod, container_id: str) -> None:
        self._unfinished.is_down(container_id)
        self._probes.stopped(pod.metadata.uid, container_id)

    def _in_time(self, grace_seconds: int = 0) -> AbstractContextManager[None]:
        return in_time(self._bounds.runtime_call_seconds_max + grace_seconds)
