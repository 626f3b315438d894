"""Lifecycle hooks: what a container asked to be done right after its start and right before its end.

A hook runs inside its pod's sync and ends with it: one that hangs holds up its own pod alone, until the pod is
deleted or, before an end, until the grace is over. It has no time limit of its own, as upstream; who calls holds the
scope. A preStop hook is run at least once: after an agent that is stopped in the middle of it, or a runtime that goes
away, it runs again with the grace that is left. When the runtime goes away again it has failed, for it may be the hook
that takes the runtime away; and so has one that a runtime which answers others does not begin, after some tries. None
runs a postStart hook of a container that it finds running.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from trikubelet.core.handlers import HOOK_AGENT, http_target
from trikubelet.core.hooks import POST_START_ERROR, exec_error, failure, without_tls
from trikubelet.core.names import object_ref
from trikubelet.kit.barrier import Barrier, message_of
from trikubelet.model.errors import PodSyncError
from trikubelet.model.handlers import HandlerInvalid, NotTls, Unreachable
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeUnavailable

if TYPE_CHECKING:
    from trikubelet.model.handlers import HttpTarget
    from trikubelet.model.k8s import Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod
    from trikubelet.pods.figures import PodFigures
    from trikubelet.ports import Events, Handlers, HostIps, Runtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hooked:
    """The container a hook is of: the pod and what it says of the container, its id, and the pod's addresses (none on
    the host's network)."""

    pod: Pod
    container: Container
    id: str
    ips: tuple[str, ...]


class Hooks:
    """Runs lifecycle hooks. Owns no state."""

    def __init__(
        self,
        runtime: Runtime,
        handlers: Handlers,
        host_ips: HostIps,
        events: Events,
        figures: PodFigures,
    ) -> None:
        self._runtime = runtime
        self._handlers = handlers
        self._host_ips = host_ips
        self._events = events
        self._figures = figures

    async def post_start(self, of: Hooked) -> None:
        """Run the hook of a container that just started, if it has one. Raises PodSyncError when it failed."""
        handler = of.container.lifecycle.post_start if of.container.lifecycle else None
        if handler is None:
            return
        try:
            failed = await self._run(of, handler)
        except RuntimeUnavailable as error:
            failed = failure(of.pod, of.container, handler, str(error))
        if failed:
            # No details: what a hook writes may be secret, and more people read events than statuses.
            self._warn(of, "FailedPostStartHook", "PostStartHook failed")
            raise PodSyncError(POST_START_ERROR, failed, of.container.name)

    async def pre_stop(self, of: Hooked) -> None:
        """Run the hook of a container that is about to be stopped, if it has one. A failure is reported and changes
        nothing: the container is stopped all the same. Raises RuntimeUnavailable where it was not begun, or where
        nobody can tell that it came to its end; who does not try it again says so (``pre_stop_was_cut``)."""
        handler = of.container.lifecycle.pre_stop if of.container.lifecycle else None
        if handler is None:
            return
        failed = await self._run(of, handler)
        if failed:
            self._pre_stop_failed(of, failed)

    def pre_stop_was_cut(self, of: Hooked, error: RuntimeUnavailable, *, has_failed: bool) -> None:
        """Report that the runtime did not let it come to its end: as a failure, where it is not tried any more."""
        if has_failed:
            self._pre_stop_failed(of, f"the container runtime has not let it come to its end, again: {error}")
        else:
            log.warning("Pod %s: its preStop hook was cut off and will run again: %s", object_ref(of.pod), error)

    def pre_stop_outlasted(self, of: Hooked) -> None:
        """Report that the hook had not ended when its container was down, as a failure."""
        self._pre_stop_failed(of, "it had not ended when its container was stopped after the grace period")

    def _pre_stop_failed(self, of: Hooked, why: str) -> None:
        log.warning("Pod %s: its preStop hook failed: %s", object_ref(of.pod), why)
        self._warn(of, "FailedPreStopHook", "PreStopHook failed")

    def _warn(self, of: Hooked, reason: str, message: str) -> None:
        self._events.record(object_ref(of.pod, of.container.name), "Warning", reason, message)

    async def _run(self, of: Hooked, handler: LifecycleHandler) -> str:
        """Run a hook to its end; how it failed, or empty. A bug in it is a failure: it is not to keep its pod from
        being stopped. Raises RuntimeUnavailable."""
        error, output, lost = "", b"", None
        with Barrier(lambda bug: log.error("Pod %s: a bug in a hook", object_ref(of.pod), exc_info=bug)) as barrier:
            try:
                error, output = await self._tried(of, handler)
            except RuntimeUnavailable as unavailable:
                lost = unavailable
        if lost is not None:
            raise lost
        error = error or message_of(barrier.fault)
        return error and failure(of.pod, of.container, handler, error, output)

    async def _tried(self, of: Hooked, handler: LifecycleHandler) -> tuple[str, bytes]:
        if handler.exec is not None:
            return await self._execute(of, handler.exec)
        if handler.http_get is not None:
            return await self._get(of, handler.http_get), b""
        if handler.sleep is not None:
            await self._sleep(handler.sleep.seconds)
            return "", b""
        return "it has neither exec, httpGet nor sleep", b""

    async def _sleep(self, seconds: float) -> None:
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            self._figures.sleeps_cut += 1
            raise

    async def _execute(self, of: Hooked, action: ExecAction) -> tuple[str, bytes]:
        try:
            result = await self._runtime.exec_sync(of.id, action.command, 0)
        except RuntimeUnavailable:
            raise
        except RuntimeCallError as error:
            return str(error), b""
        return exec_error(action.command, result), result.stdout + result.stderr

    async def _get(self, of: Hooked, action: HTTPGetAction) -> str:
        """Any answer will do, whatever its status (as upstream): a hook is a notification, not a question."""
        ips = self._host_ips() if of.pod.spec.host_network else of.ips
        if not (action.host or ips):
            return "failed to find networking container: the pod has no address"
        try:
            target = http_target(action, of.container, ips[0] if ips else "", HOOK_AGENT)
            try:
                await self._handlers.http_get(target)
            except NotTls:
                await self._get_without_tls(of, target)
        except (HandlerInvalid, Unreachable) as error:
            return str(error)
        return ""

    async def _get_without_tls(self, of: Hooked, target: HttpTarget) -> None:
        """A hook that asks for HTTPS of a server without it worked for years, so it still does, and is reported."""
        await self._handlers.http_get(without_tls(target))
        self._figures.hook_fallbacks += 1
        message = f"request to HTTPS lifecycle hook {target.authority} got HTTP response, retry with HTTP succeeded"
        self._warn(of, "LifecycleHTTPFallback", message)
