"""Runs probes by whichever handler they have, and says what the results mean (upstream: pkg/kubelet/prober/prober.go).

    result     success · failure · warning: a redirect elsewhere, which counts as success · unknown: no result to be had
    in time a container that does not answer within timeoutSeconds has failed; for a runtime that does not, it is
    unknown

An unknown result says nothing about the container. The probe is run again at once, a few times, and then counts for
nothing. The texts are upstream's, for there are people who know them by heart.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from trikubelet.core.handlers import PROBE_AGENT, host_of, http_target, port_number, probe_command
from trikubelet.core.manifest.container_defaults import PROBE_TIMEOUT_SECONDS
from trikubelet.kit.turnstile import Turnstile
from trikubelet.model.handlers import HandlerInvalid, Health, Unreachable, authority
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.handlers import HttpAnswer
    from trikubelet.model.k8s import Container, GRPCAction, Probe
    from trikubelet.ports import Handlers, Runtime

TRIES_MAX: Final = 3
"""Times a probe is run in a row while its result is unknown (upstream: maxProbeRetries)."""
OUTPUT_BYTES_MAX: Final = 10 * 1024


class ProbeResult(Enum):
    """The result of a probe. The values are those of upstream's metrics."""

    SUCCESS = "successful"
    WARNING = "warning"
    FAILURE = "failed"
    UNKNOWN = "unknown"


class ProbeOutcome(NamedTuple):
    """A result, and the text an event has of it; a success needs none."""

    result: ProbeResult
    output: str = ""


class ProbeCall(NamedTuple):
    """One container's probe, ready to be run. It has failed with ``timeout_output`` when there is no answer in time."""

    run: Callable[[], Awaitable[ProbeOutcome]]
    seconds_max: float
    timeout_output: str


class Prober:
    """Runs the probes of a node's containers. Owns how many commands run."""

    def __init__(self, runtime: Runtime, handlers: Handlers, bounds: Bounds) -> None:
        self._runtime = runtime
        self._handlers = handlers
        self._runtime_seconds_max = bounds.exec_probe_extra_seconds_max
        self._commands = Turnstile(bounds.exec_probes_side_by_side, bounds.exec_probe_turn_seconds_max)

    def prepare(self, probe: Probe, container: Container, container_id: str, address: str) -> ProbeCall:
        """The call that this probe of that container is; ``address`` is the pod's. Raises HandlerInvalid."""
        seconds = probe.timeout_seconds or PROBE_TIMEOUT_SECONDS
        if probe.exec is not None:
            # The runtime keeps the time: only it can end the command.
            command = probe_command(probe.exec, container)
            return ProbeCall(partial(self._exec, container_id, command, seconds), math.inf, "")
        if probe.http_get is not None:
            try:
                target = http_target(probe.http_get, container, address, PROBE_AGENT)
            except Unreachable as error:
                return ProbeCall(partial(_failed, str(error)), seconds, "")
            timeout_output = (
                f'Get "{target.url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
            )
            return ProbeCall(partial(self._get, self._handlers.prepare_http_get(target)), seconds, timeout_output)
        if probe.tcp_socket is not None:
            host, port = host_of(probe.tcp_socket.host, address), port_number(probe.tcp_socket.port, container)
            return ProbeCall(
                partial(self._connect, host, port), seconds, f"dial tcp {authority(host, port)}: i/o timeout"
            )
        if probe.grpc is not None:
            where = authority(host_of("", address), probe.grpc.port)
            timeout_output = (
                f'timeout: failed to connect service "{where}" within {seconds}s: context deadline exceeded'
            )
            return ProbeCall(partial(self._check, address, probe.grpc), seconds, timeout_output)
        raise HandlerInvalid("missing probe handler")

    async def run_with_retries(self, call: ProbeCall) -> ProbeOutcome:
        """Run it, again while its result is unknown; the last outcome."""
        outcome = ProbeOutcome(ProbeResult.UNKNOWN)
        for _ in range(TRIES_MAX):
            outcome = await self._run_once(call)
            if outcome.result is not ProbeResult.UNKNOWN:
                break
        return outcome

    async def _run_once(self, call: ProbeCall) -> ProbeOutcome:
        try:
            with trio.move_on_after(call.seconds_max):
                return await call.run()
        except Unreachable as error:
            return ProbeOutcome(ProbeResult.FAILURE, str(error))
        except RuntimeCallError as error:
            return ProbeOutcome(ProbeResult.UNKNOWN, str(error))
        return ProbeOutcome(ProbeResult.FAILURE, call.timeout_output)

    async def _exec(self, container_id: str, command: Sequence[str], seconds: int) -> ProbeOutcome:
        limit = seconds + self._runtime_seconds_max
        try:
            async with self._commands.turn():
                with trio.fail_after(limit):
                    result = await self._runtime.exec_sync(container_id, command, seconds)
        except RuntimeTimeout:
            return ProbeOutcome(
                ProbeResult.FAILURE, f'command timed out: "{" ".join(command)}" timed out after {seconds}s'
            )
        except trio.TooSlowError:
            return ProbeOutcome(ProbeResult.UNKNOWN, f"the container runtime did not answer within {limit:.0f}s")
        output = (result.stdout + result.stderr)[:OUTPUT_BYTES_MAX].decode(errors="replace")
        return ProbeOutcome(ProbeResult.SUCCESS if result.exit_code == 0 else ProbeResult.FAILURE, output)

    async def _get(self, ask: Callable[[], Awaitable[HttpAnswer]]) -> ProbeOutcome:
        answer = await ask()
        if not HTTPStatus.OK <= answer.status < HTTPStatus.BAD_REQUEST:
            return ProbeOutcome(ProbeResult.FAILURE, f"HTTP probe failed with statuscode: {answer.status}")
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return ProbeOutcome(ProbeResult.SUCCESS)
        body = answer.body.decode(errors="replace")
        return ProbeOutcome(ProbeResult.WARNING, f"Probe terminated redirects, Response body: {body}")

    async def _connect(self, host: str, port: int) -> ProbeOutcome:
        await self._handlers.tcp_connect(host, port)
        return ProbeOutcome(ProbeResult.SUCCESS)

    async def _check(self, address: str, action: GRPCAction) -> ProbeOutcome:
        health = await self._handlers.grpc_health(address, action.port, action.service, PROBE_AGENT)
        if health is Health.SERVING:
            return ProbeOutcome(ProbeResult.SUCCESS)
        return ProbeOutcome(ProbeResult.FAILURE, f'service unhealthy (responded with "{health.name}")')


async def _failed(text: str) -> ProbeOutcome:
    """Return the outcome for a probe that needs no request."""
    await trio.lowlevel.checkpoint()
    return ProbeOutcome(ProbeResult.FAILURE, text)
