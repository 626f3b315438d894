"""What each handler asks, and what its answers mean in upstream's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from trikubelet.model import k8s
from trikubelet.model.bounds import Bounds
from trikubelet.model.handlers import HandlerInvalid, Health, HttpAnswer, HttpTarget, Unreachable
from trikubelet.model.runtime import ExecResult
from trikubelet.model.runtime_errors import NotFound, RuntimeTimeout, RuntimeUnavailable
from trikubelet.probes.asking import Answer, Asking, Meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.testing import MockClock

CONTAINER = k8s.Container(
    name="c",
    image="i",
    ports=(k8s.ContainerPort(container_port=8080, name="web"),),
    env=(k8s.EnvVar(name="WHO", value="me"),),
)
WELL, FAILED, ERROR = Meaning.WELL, Meaning.FAILED, Meaning.ERROR


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

    async def tcp_connect(self, host: str, port: int) -> None:
        await self._next(host, port)

    async def grpc_health(self, host: str, port: int, service: str, agent: str) -> Any:
        return await self._next(host, port, service, agent)

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> Any:
        return await self._next(container_id, tuple(command), limit_seconds)


async def asked(probe: k8s.Probe, answers: Answers) -> Answer:
    asking = Asking(answers, answers, Bounds())  # type: ignore[arg-type] # of a runtime only this is asked
    return await asking.answer(asking.question(probe, CONTAINER, "cid", "10.0.0.1"))


HTTP = k8s.Probe(http_get=k8s.HTTPGetAction(port="web", path="/x"), timeout_seconds=3)
TCP = k8s.Probe(tcp_socket=k8s.TCPSocketAction(port=1))
GRPC = k8s.Probe(grpc=k8s.GRPCAction(port=2, service="s"))
EXEC = k8s.Probe(exec=k8s.ExecAction(command=("sh", "-c", "$(WHO)")), timeout_seconds=2)


@pytest.mark.parametrize(
    ("probe", "question"),
    [
        (HTTP, ("http://10.0.0.1:8080/x", "kube-probe/1.36")),
        (TCP, ("10.0.0.1", 1)),
        (k8s.Probe(tcp_socket=k8s.TCPSocketAction(port="web", host="h")), ("h", 8080)),
        (GRPC, ("10.0.0.1", 2, "s", "kube-probe/1.36")),
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
        (HTTP, HttpAnswer(200, b"fine"), Answer(WELL)),
        (HTTP, HttpAnswer(299), Answer(WELL)),
        (
            HTTP,
            HttpAnswer(302, b"there"),
            Answer(Meaning.REMARKABLE, "Probe terminated redirects, Response body: there"),
        ),
        (HTTP, HttpAnswer(400), Answer(FAILED, "HTTP probe failed with statuscode: 400")),
        (HTTP, HttpAnswer(199), Answer(FAILED, "HTTP probe failed with statuscode: 199")),
        (HTTP, Unreachable("refused"), Answer(FAILED, "refused")),
        (
            HTTP,
            "late",
            Answer(
                FAILED,
                'Get "http://10.0.0.1:8080/x": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)",
            ),
        ),
        (TCP, None, Answer(WELL)),
        (TCP, Unreachable("refused"), Answer(FAILED, "refused")),
        (TCP, "late", Answer(FAILED, "dial tcp 10.0.0.1:1: i/o timeout")),
        (GRPC, Health.SERVING, Answer(WELL)),
        (GRPC, Health.NOT_SERVING, Answer(FAILED, 'service unhealthy (responded with "NOT_SERVING")')),
        (GRPC, Health.UNKNOWN, Answer(FAILED, 'service unhealthy (responded with "UNKNOWN")')),
        (
            GRPC,
            "late",
            Answer(FAILED, 'timeout: failed to connect service "10.0.0.1:2" within 1s: context deadline exceeded'),
        ),
        (EXEC, ExecResult(0, b"out", b"err"), Answer(WELL, "outerr")),
        (EXEC, ExecResult(3, b"out\n", b"\xff"), Answer(FAILED, "out\n\ufffd")),
        (EXEC, ExecResult(1, b"x" * 20_000), Answer(FAILED, "x" * 10240)),
        (EXEC, RuntimeTimeout("x"), Answer(FAILED, 'command timed out: "sh -c me" timed out after 2s')),
        (EXEC, "late", Answer(ERROR, "the container runtime did not answer within 12s")),
        (EXEC, NotFound("no such container"), Answer(ERROR, "no such container")),
    ],
)
async def test_an_answer_means_what_it_does_to_upstream(
    probe: k8s.Probe, answer: Any, expected: Answer, autojump_clock: MockClock
) -> None:
    assert expected == await asked(probe, Answers(answer))


async def test_an_error_is_tried_again_at_once(autojump_clock: MockClock) -> None:
    lost, well = RuntimeUnavailable("lost"), ExecResult(0)

    assert WELL is (await asked(EXEC, Answers(lost, lost, well))).meaning
    assert Answer(ERROR, "lost") == await asked(EXEC, Answers(lost, lost, lost, well))


async def test_a_failure_is_not_tried_again(autojump_clock: MockClock) -> None:
    answers = Answers(HttpAnswer(500), HttpAnswer(200))

    assert FAILED is (await asked(HTTP, answers)).meaning
    assert 1 == len(answers.asked)


async def test_a_header_that_no_request_can_have_is_a_failure_without_asking() -> None:
    headers = (k8s.HTTPHeader(name="X", value="a\nb"),)
    answers = Answers(HttpAnswer(200))
    probe = k8s.Probe(http_get=k8s.HTTPGetAction(port=1, http_headers=headers))

    text = 'Get "http://10.0.0.1:1/": net/http: invalid header field value for "X"'
    assert Answer(FAILED, text) == await asked(probe, answers)
    assert [] == answers.asked


@pytest.mark.parametrize("probe", [k8s.Probe(), k8s.Probe(tcp_socket=k8s.TCPSocketAction(port="no"))])
def test_what_cannot_be_asked_is_told(probe: k8s.Probe) -> None:
    answers = Answers(None)
    with pytest.raises(HandlerInvalid):
        Asking(answers, answers, Bounds()).question(probe, CONTAINER, "cid", "10.0.0.1")  # type: ignore[arg-type]


@pytest.mark.parametrize("probe", [HTTP, TCP, GRPC])
def test_a_pod_without_an_address_is_not_looked_for_on_this_machine(probe: k8s.Probe) -> None:
    answers = Answers(None)
    with pytest.raises(HandlerInvalid, match="the pod has no address"):
        Asking(answers, answers, Bounds()).question(probe, CONTAINER, "cid", "")  # type: ignore[arg-type]


async def test_only_so_many_commands_run_at_a_time(autojump_clock: MockClock) -> None:
    answers = Answers(ExecResult(0))
    asking = Asking(answers, answers, Bounds(exec_probes_side_by_side=3))  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(asking.answer, asking.question(EXEC, CONTAINER, "cid", "10.0.0.1"))

    assert (3, 10) == (answers.inside_max, len(answers.asked))


async def test_commands_that_take_long_keep_no_other_from_beginning(autojump_clock: MockClock) -> None:
    slow, quick = Answers("late"), Answers(ExecResult(0))
    asking = Asking(slow, slow, Bounds(exec_probes_side_by_side=3))  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(asking.answer, asking.question(EXEC, CONTAINER, "slow", "10.0.0.1"))
        await trio.sleep(10)
        asking._runtime = quick  # type: ignore[assignment]
        began = trio.current_time()
        await asking.answer(asking.question(EXEC, CONTAINER, "quick", "10.0.0.1"))
        nursery.cancel_scope.cancel()

    assert 1 >= trio.current_time() - began - 0.1
