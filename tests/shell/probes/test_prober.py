"""What each handler's probe asks, and its results in upstream's words."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from trikubelet.model import k8s
from trikubelet.model.bounds import Bounds
from trikubelet.model.handlers import HandlerInvalid, Health, HttpAnswer, HttpTarget, Unreachable
from trikubelet.model.runtime import ExecResult
from trikubelet.model.runtime_errors import NotFound, RuntimeTimeout, RuntimeUnavailable
from trikubelet.probes.prober import ProbeOutcome, Prober, ProbeResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trio.testing import MockClock

CONTAINER = k8s.Container(
    name="c",
    image="i",
    ports=(k8s.ContainerPort(container_port=8080, name="web"),),
    env=(k8s.EnvVar(name="WHO", value="me"),),
)
SUCCESS, FAILURE, UNKNOWN = ProbeResult.SUCCESS, ProbeResult.FAILURE, ProbeResult.UNKNOWN


class Answers:
    """Handlers and a runtime that give one answer after another, the last for good; "late" is none at all."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []
        self.inside = self.inside_max = 0

    async def _next(self, *asked: Any) -> Any:
        self.asked.append(asked)
        self.inside += 1
        self.inside_max = max(self.inside, self.inside_max)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        try:
            await trio.sleep(float("inf") if answer == "late" else 0.1)
        finally:
            self.inside -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def http_get(self, target: HttpTarget) -> Any:
        return await self._next(target.url, dict(target.headers)["User-Agent"])

    def prepare_http_get(self, target: HttpTarget) -> Callable[[], Awaitable[Any]]:
        return partial(self.http_get, target)

    async def tcp_connect(self, host: str, port: int) -> None:
        await self._next(host, port)

    async def grpc_health(self, host: str, port: int, service: str, agent: str) -> Any:
        return await self._next(host, port, service, agent)

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> Any:
        return await self._next(container_id, tuple(command), limit_seconds)


async def asked(probe: k8s.Probe, answers: Answers) -> ProbeOutcome:
    prober = Prober(answers, answers, Bounds())  # type: ignore[arg-type] # of a runtime only this is asked
    return await prober.run_with_retries(prober.prepare(probe, CONTAINER, "cid", "10.0.0.1"))


HTTP = k8s.Probe(http_get=k8s.HTTPGetAction(port="web", path="/x"), timeout_seconds=3)
TCP = k8s.Probe(tcp_socket=k8s.TCPSocketAction(port=1))
GRPC = k8s.Probe(grpc=k8s.GRPCAction(port=2, service="s"))
EXEC = k8s.Probe(exec=k8s.ExecAction(command=("sh", "-c", "$(WHO)")), timeout_seconds=2)


@pytest.mark.parametrize(
    ("probe", "question"),
    [
        (HTTP, ("http://10.0.0.1:8080/x", "kube-probe/1.37")),
        (TCP, ("10.0.0.1", 1)),
        (k8s.Probe(tcp_socket=k8s.TCPSocketAction(port="web", host="h")), ("h", 8080)),
        (GRPC, ("10.0.0.1", 2, "s", "kube-probe/1.37")),
        (EXEC, ("cid", ("sh", "-c", "me"), 2)),
    ],
)
async def test_each_handler_asks_its_question(
    probe: k8s.Probe, question: tuple[Any, ...], autojump_clock: MockClock
) -> None:
    answers = Answers(Unreachable("x"))
    await asked(probe, answers)

    assert [question] == answers.asked


@pytest.mark.parametrize(
    ("probe", "answer", "expected"),
    [
        (HTTP, HttpAnswer(200, b"fine"), ProbeOutcome(SUCCESS)),
        (HTTP, HttpAnswer(299), ProbeOutcome(SUCCESS)),
        (
            HTTP,
            HttpAnswer(302, b"there"),
            ProbeOutcome(ProbeResult.WARNING, "Probe terminated redirects, Response body: there"),
        ),
        (HTTP, HttpAnswer(400), ProbeOutcome(FAILURE, "HTTP probe failed with statuscode: 400")),
        (HTTP, HttpAnswer(199), ProbeOutcome(FAILURE, "HTTP probe failed with statuscode: 199")),
        (HTTP, Unreachable("refused"), ProbeOutcome(FAILURE, "refused")),
        (
            HTTP,
            "late",
            ProbeOutcome(
                FAILURE,
                'Get "http://10.0.0.1:8080/x": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)",
            ),
        ),
        (TCP, None, ProbeOutcome(SUCCESS)),
        (TCP, Unreachable("refused"), ProbeOutcome(FAILURE, "refused")),
        (TCP, "late", ProbeOutcome(FAILURE, "dial tcp 10.0.0.1:1: i/o timeout")),
        (GRPC, Health.SERVING, ProbeOutcome(SUCCESS)),
        (GRPC, Health.NOT_SERVING, ProbeOutcome(FAILURE, 'service unhealthy (responded with "NOT_SERVING")')),
        (GRPC, Health.UNKNOWN, ProbeOutcome(FAILURE, 'service unhealthy (responded with "UNKNOWN")')),
        (
            GRPC,
            "late",
            ProbeOutcome(
                FAILURE, 'timeout: failed to connect service "10.0.0.1:2" within 1s: context deadline exceeded'
            ),
        ),
        (EXEC, ExecResult(0, b"out", b"err"), ProbeOutcome(SUCCESS, "outerr")),
        (EXEC, ExecResult(3, b"out\n", b"\xff"), ProbeOutcome(FAILURE, "out\n\ufffd")),
        (EXEC, ExecResult(1, b"x" * 20_000), ProbeOutcome(FAILURE, "x" * 10240)),
        (EXEC, RuntimeTimeout("x"), ProbeOutcome(FAILURE, 'command timed out: "sh -c me" timed out after 2s')),
        (EXEC, "late", ProbeOutcome(UNKNOWN, "the container runtime did not answer within 12s")),
        (EXEC, NotFound("no such container"), ProbeOutcome(UNKNOWN, "no such container")),
    ],
)
async def test_results_are_upstreams(
    probe: k8s.Probe, answer: Any, expected: ProbeOutcome, autojump_clock: MockClock
) -> None:
    assert expected == await asked(probe, Answers(answer))


async def test_an_unknown_result_is_tried_again_at_once(autojump_clock: MockClock) -> None:
    lost, well = RuntimeUnavailable("lost"), ExecResult(0)

    assert SUCCESS is (await asked(EXEC, Answers(lost, lost, well))).result
    assert ProbeOutcome(UNKNOWN, "lost") == await asked(EXEC, Answers(lost, lost, lost, well))


async def test_a_failure_is_not_tried_again(autojump_clock: MockClock) -> None:
    answers = Answers(HttpAnswer(500), HttpAnswer(200))

    assert FAILURE is (await asked(HTTP, answers)).result
    assert 1 == len(answers.asked)


async def test_a_header_that_no_request_can_have_is_a_failure_without_asking() -> None:
    headers = (k8s.HTTPHeader(name="X", value="a\nb"),)
    answers = Answers(HttpAnswer(200))
    probe = k8s.Probe(http_get=k8s.HTTPGetAction(port=1, http_headers=headers))

    text = 'Get "http://10.0.0.1:1/": net/http: invalid header field value for "X"'
    assert ProbeOutcome(FAILURE, text) == await asked(probe, answers)
    assert [] == answers.asked


@pytest.mark.parametrize("probe", [k8s.Probe(), k8s.Probe(tcp_socket=k8s.TCPSocketAction(port="no"))])
def test_a_probe_without_a_handler_or_a_known_port_is_refused(probe: k8s.Probe) -> None:
    answers = Answers(None)
    with pytest.raises(HandlerInvalid):
        Prober(answers, answers, Bounds()).prepare(probe, CONTAINER, "cid", "10.0.0.1")  # type: ignore[arg-type]


@pytest.mark.parametrize("probe", [HTTP, TCP, GRPC])
def test_a_pod_without_an_address_is_not_looked_for_on_this_machine(probe: k8s.Probe) -> None:
    answers = Answers(None)
    with pytest.raises(HandlerInvalid, match="the pod has no address"):
        Prober(answers, answers, Bounds()).prepare(probe, CONTAINER, "cid", "")  # type: ignore[arg-type]


async def test_only_so_many_commands_run_at_a_time(autojump_clock: MockClock) -> None:
    answers = Answers(ExecResult(0))
    prober = Prober(answers, answers, Bounds(exec_probes_side_by_side=3))  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(prober.run_with_retries, prober.prepare(EXEC, CONTAINER, "cid", "10.0.0.1"))

    assert (3, 10) == (answers.inside_max, len(answers.asked))


async def test_commands_that_take_long_keep_no_other_from_beginning(autojump_clock: MockClock) -> None:
    slow, quick = Answers("late"), Answers(ExecResult(0))
    prober = Prober(slow, slow, Bounds(exec_probes_side_by_side=3))  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(prober.run_with_retries, prober.prepare(EXEC, CONTAINER, "slow", "10.0.0.1"))
        await trio.sleep(10)
        prober._runtime = quick  # type: ignore[assignment]
        began = trio.current_time()
        await prober.run_with_retries(prober.prepare(EXEC, CONTAINER, "quick", "10.0.0.1"))
        nursery.cancel_scope.cancel()

    assert 1 >= trio.current_time() - began - 0.1
