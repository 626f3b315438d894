"""Runs lifecycle hooks: a container's commands right after its start and right before its end.

A hook runs inside its pod's sync and ends with it: one that hangs holds up only its own pod, until the pod is deleted
or, before an end, until the grace is over. It has no time limit of its own, like upstream; the caller provides the
cancel scope. A preStop hook runs at least once: if the agent is stopped or the runtime fails meanwhile, it runs again
with the remaining grace. If the runtime fails a second time, the hook counts as failed, because it may be the hook that
stops the runtime; so does one that a runtime, while it answers other calls, does not begin after some tries. The
postStart hook of a container that was already running is not run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.core.handlers import HOOK_AGENT, http_target
from trikubelet.core.hooks import POST_START_ERROR, exec_error, failure, without_tls
from trikubelet.core.names import object_ref
from trikubelet.kit.barrier import Barrier, message_of
from trikubelet.model.errors import PodSyncError
from trikubelet.model.frozen import Frozen
from trikubelet.model.handlers import HandlerInvalid, NotTls, Unreachable
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeUnavailable

if TYPE_CHECKING:
    from trikubelet.model.handlers import HttpTarget
    from trikubelet.model.k8s import Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod
    from trikubelet.pods.figures import PodFigures
    from trikubelet.ports import Events, Handlers, HostIps, Runtime

log = logging.getLogger(__name__)


class Hooked(Frozen):
    """The container of a hook: the pod, the container in its spec, its id, and the pod's addresses (none on the host's
    network)."""

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
        """Run the hook of a container that just started, if it has one. Raises PodSyncError if it fails."""
        handler = of.container.lifecycle.post_start if of.container.lifecycle else None
        if handler is None:
            return
        try:
            failed = await self._run(of, handler)
        except RuntimeUnavailable as error:
            failed = failure(of.pod, of.container, handler, str(error))
        if failed:
            # No details: a hook's output may be secret, and more people read events than statuses.
            self._warn(of, "FailedPostStartHook", "PostStartHook failed")
            raise PodSyncError(POST_START_ERROR, failed, of.container.name)

    async def pre_stop(self, of: Hooked) -> None:
        """Run the hook of a container that is about to be stopped, if it has one. A failure is reported and changes
        nothing: the container is stopped all the same. Raises RuntimeUnavailable if it was not begun, or if its end is
        unknown; a caller that does not retry reports that with ``pre_stop_was_cut``."""
        handler = of.container.lifecycle.pre_stop if of.container.lifecycle else None
        if handler is None:
            return
        failed = await self._run(of, handler)
        if failed:
            self._pre_stop_failed(of, failed)

    def pre_stop_was_cut(self, of: Hooked, error: RuntimeUnavailable, *, has_failed: bool) -> None:
        """Report that the runtime failed during the hook; as a failure if it will not be retried."""
        if has_failed:
            self._pre_stop_failed(of, f"the container runtime has not let it come to its end, again: {error}")
        else:
            log.warning("Pod %s: its preStop hook was cut off and will run again: %s", object_ref(of.pod), error)

    def pre_stop_outlasted(self, of: Hooked) -> None:
        """Report as a failure that the hook had not ended when its container was stopped."""
        self._pre_stop_failed(of, "it had not ended when its container was stopped after the grace period")

    def _pre_stop_failed(self, of: Hooked, why: str) -> None:
        log.warning("Pod %s: its preStop hook failed: %s", object_ref(of.pod), why)
        self._warn(of, "FailedPreStopHook", "PreStopHook failed")

    def _warn(self, of: Hooked, reason: str, message: str) -> None:
        self._events.record(object_ref(of.pod, of.container.name), "Warning", reason, message)

    async def _run(self, of: Hooked, handler: LifecycleHandler) -> str:
        """Run a hook to its end; return its error, or "". A bug in it counts as a failure, because it must not keep its
        pod from being stopped. Raises RuntimeUnavailable."""
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
        """Send the request. Any answer is a success, whatever its status, like upstream: a hook is only a
        notification."""
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
        """Retry without TLS and report it. Hooks for HTTPS of a server without it have always worked, so they still
        do."""
        await self._handlers.http_get(without_tls(target))
        self._figures.hook_fallbacks += 1
        message = f"request to HTTPS lifecycle hook {target.authority} got HTTP response, retry with HTTP succeeded"
        self._warn(of, "LifecycleHTTPFallback", message)
