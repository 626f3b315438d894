"""Questions to containers, by whichever handler a probe has, and what the answers mean.

    answer     well · failed · a redirect elsewhere, which is well and remarkable · error: no answer to be had
    in time    a container that does not answer within timeoutSeconds has failed; a runtime that does not is an error

An error says nothing about the container. The question is asked again at once, a few times, and then counts for
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
from trikubelet.model.handlers import HandlerInvalid, Health, HttpTarget, Unreachable, authority
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Container, GRPCAction, Probe
    from trikubelet.ports import Handlers, Runtime

ASKED_MAX: Final = 3
"""Times a question is asked in a row while there are errors (upstream: maxProbeRetries)."""
OUTPUT_BYTES_MAX: Final = 10 * 1024


class Meaning(Enum):
    """What an answer says of the container. The values are those of upstream's metrics."""

    WELL = "successful"
    REMARKABLE = "warning"
    FAILED = "failed"
    ERROR = "unknown"


class Answer(NamedTuple):
    """An answer, and in words what an event says of it; one that is well needs none."""

    meaning: Meaning
    text: str = ""


class Question(NamedTuple):
    """What is asked of one container. It has failed with ``late`` when there is no answer in time."""

    ask: Callable[[], Awaitable[Answer]]
    seconds_max: float
    late: str


class Asking:
    """Joins what questions are asked with, for all probes of a node. Owns how many commands run."""

    def __init__(self, runtime: Runtime, handlers: Handlers, bounds: Bounds) -> None:
        self._runtime = runtime
        self._handlers = handlers
        self._runtime_seconds_max = bounds.exec_probe_extra_seconds_max
        self._commands = Turnstile(bounds.exec_probes_side_by_side, bounds.exec_probe_turn_seconds_max)

    def question(self, probe: Probe, container: Container, container_id: str, address: str) -> Question:
        """What the probe asks of that container; ``address`` is the pod's. Raises HandlerInvalid."""
        seconds = probe.timeout_seconds or PROBE_TIMEOUT_SECONDS
        if probe.exec is not None:
            # The runtime keeps the time: only it can end the command.
            command = probe_command(probe.exec, container)
            return Question(partial(self._run, container_id, command, seconds), math.inf, "")
        if probe.http_get is not None:
            try:
                target = http_target(probe.http_get, container, address, PROBE_AGENT)
            except Unreachable as error:
                return Question(partial(_failed, str(error)), seconds, "")
            late = f'Get "{target.url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
            return Question(partial(self._get, target), seconds, late)
        if probe.tcp_socket is not None:
            host, port = host_of(probe.tcp_socket.host, address), port_number(probe.tcp_socket.port, container)
            return Question(
                partial(self._connect, host, port), seconds, f"dial tcp {authority(host, port)}: i/o timeout"
            )
        if probe.grpc is not None:
            where = authority(host_of("", address), probe.grpc.port)
            late = f'timeout: failed to connect service "{where}" within {seconds}s: context deadline exceeded'
            return Question(partial(self._check, address, probe.grpc), seconds, late)
        raise HandlerInvalid("missing probe handler")

    async def answer(self, question: Question) -> Answer:
        """The answer, at once or after some errors."""
        answer = Answer(Meaning.ERROR)
        for _ in range(ASKED_MAX):
            answer = await self._once(question)
            if answer.meaning is not Meaning.ERROR:
                break
        return answer

    async def _once(self, question: Question) -> Answer:
        try:
            with trio.move_on_after(question.seconds_max):
                return await question.ask()
        except Unreachable as error:
            return Answer(Meaning.FAILED, str(error))
        except RuntimeCallError as error:
            return Answer(Meaning.ERROR, str(error))
        return Answer(Meaning.FAILED, question.late)

    async def _run(self, container_id: str, command: Sequence[str], seconds: int) -> Answer:
        limit = seconds + self._runtime_seconds_max
        try:
            async with self._commands.turn():
                with trio.fail_after(limit):
                    result = await self._runtime.exec_sync(container_id, command, seconds)
        except RuntimeTimeout:
            return Answer(Meaning.FAILED, f'command timed out: "{" ".join(command)}" timed out after {seconds}s')
        except trio.TooSlowError:
            return Answer(Meaning.ERROR, f"the container runtime did not answer within {limit:.0f}s")
        output = (result.stdout + result.stderr)[:OUTPUT_BYTES_MAX].decode(errors="replace")
        return Answer(Meaning.WELL if result.exit_code == 0 else Meaning.FAILED, output)

    async def _get(self, target: HttpTarget) -> Answer:
        answer = await self._handlers.http_get(target)
        if not HTTPStatus.OK <= answer.status < HTTPStatus.BAD_REQUEST:
            return Answer(Meaning.FAILED, f"HTTP probe failed with statuscode: {answer.status}")
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return Answer(Meaning.WELL)
        body = answer.body.decode(errors="replace")
        return Answer(Meaning.REMARKABLE, f"Probe terminated redirects, Response body: {body}")

    async def _connect(self, host: str, port: int) -> Answer:
        await self._handlers.tcp_connect(host, port)
        return Answer(Meaning.WELL)

    async def _check(self, address: str, action: GRPCAction) -> Answer:
        health = await self._handlers.grpc_health(address, action.port, action.service, PROBE_AGENT)
        if health is Health.SERVING:
            return Answer(Meaning.WELL)
        return Answer(Meaning.FAILED, f'service unhealthy (responded with "{health.name}")')


async def _failed(text: str) -> Answer:
    """The answer to what nobody needs to be asked."""
    await trio.lowlevel.checkpoint()
    return Answer(Meaning.FAILED, text)
