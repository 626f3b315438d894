"""What is concluded about one pod, and the task that probes: what counts, what is dropped, what a bug costs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from trikubelet.core.actions import Verdict
from trikubelet.core.probes import ProbeKind
from trikubelet.kit.barrier import InvariantBroken
from trikubelet.kit.shared_timer import SharedTimer
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation
from trikubelet.probes.pod import PodProbes
from trikubelet.probes.probe import ProbeTask
from trikubelet.probes.prober import ProbeCall, ProbeOutcome, ProbeResult
from trikubelet.testing.builders import container, pod

if TYPE_CHECKING:
    from trio.testing import MockClock

READY = (ProbeKind.READINESS, "main")
ALIVE = (ProbeKind.LIVENESS, "main")
PROBE = k8s.Probe(exec=k8s.ExecAction(command=("true",)), period_seconds=1, failure_threshold=1)
POD = pod("web", container(readiness_probe=PROBE, liveness_probe=PROBE))
SUCCESS, FAILURE = Verdict.SUCCESS, Verdict.FAILURE


def seen(id_: str, state: ContainerState = ContainerState.RUNNING) -> PodObservation:
    return PodObservation("uid-web", containers=(ContainerStatus(id_, "main", 0, state, 1, 1),))


class Subject:
    """A pod's probes that were told what a test observed, and count what they concluded that was new."""

    def __init__(self) -> None:
        self.changes = 0
        self.probes = PodProbes(POD, {}, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def look(self, observed: PodObservation) -> None:
        self.probes.look(POD, observed, {}, 10**9 * 60)


async def test_a_result_of_a_container_that_is_gone_is_dropped(autojump_clock: MockClock) -> None:
    subject = Subject()
    subject.look(seen("one"))
    subject.look(seen("two"))
    subject.probes.record_result(READY, "one", SUCCESS)

    assert Verdict.FAILURE is subject.probes.verdicts.readiness["two"]
    assert 0 == subject.changes


async def test_a_container_that_ended_is_not_probed(autojump_clock: MockClock) -> None:
    subject = Subject()
    subject.look(seen("one"))
    assert subject.probes.subject_to_probe(READY) is not None
    subject.look(seen("one", ContainerState.EXITED))
    assert subject.probes.subject_to_probe(READY) is None
    subject.probes.record_result(READY, "one", SUCCESS)

    assert 0 == subject.changes


async def test_stopped_container_is_not_ready_though_its_address_answers(
    autojump_clock: MockClock,
) -> None:
    subject = Subject()
    subject.look(seen("one"))
    subject.probes.record_result(READY, "one", SUCCESS)
    subject.probes.stopped("one")
    assert (FAILURE, 2) == (subject.probes.verdicts.readiness["one"], subject.changes)

    subject.look(seen("one"))  # what the sync that stopped it had observed before
    assert subject.probes.subject_to_probe(READY) is None
    subject.probes.record_result(READY, "one", SUCCESS)
    assert (FAILURE, 2) == (subject.probes.verdicts.readiness["one"], subject.changes)

    subject.look(seen("two"))
    subject.probes.record_result(READY, "two", SUCCESS)
    assert (SUCCESS, 3) == (subject.probes.verdicts.readiness["two"], subject.changes)


async def test_only_what_means_something_for_the_pod_wakes_it(autojump_clock: MockClock) -> None:
    subject = Subject()
    subject.look(seen("one"))
    for key, result, changes in (
        (ALIVE, SUCCESS, 0),
        (READY, SUCCESS, 1),
        (READY, SUCCESS, 1),
        (READY, FAILURE, 2),
        (ALIVE, FAILURE, 3),
    ):
        subject.probes.record_result(key, "one", result)
        assert changes == subject.changes


async def test_container_being_stopped_is_not_killed_by_an_earlier_probe(autojump_clock: MockClock) -> None:
    subject = Subject()
    subject.look(seen("one"))
    subject.probes.end()
    subject.probes.record_result(ALIVE, "one", FAILURE)
    subject.probes.record_result(READY, "one", SUCCESS)

    assert (SUCCESS, SUCCESS) == (subject.probes.verdicts.liveness["one"], subject.probes.verdicts.readiness["one"])
    subject.look(seen("two"))
    assert SUCCESS is subject.probes.verdicts.liveness["two"]


class Asked:
    """A prober with the outcomes that a test wants, one after another; then none."""

    def __init__(self, *answers: ProbeOutcome | Exception) -> None:
        self._answers = list(answers)
        self.times: list[float] = []

    def prepare(self, *_: object) -> ProbeCall:
        return ProbeCall(self._never, 1.0, "")

    async def _never(self) -> ProbeOutcome:
        raise AssertionError

    async def run_with_retries(self, _: ProbeCall) -> ProbeOutcome:
        self.times.append(trio.current_time())
        if not self._answers:
            await trio.sleep_forever()
        answer = self._answers.pop(0)
        await trio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def record(self, *_: object) -> None:
        """An event; nobody reads it."""


async def run(asked: Asked, subject: Subject, seconds: float) -> None:
    timer = SharedTimer(0.025)
    task = ProbeTask(READY, subject.probes, asked, asked, timer)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        await nursery.start(timer.run)
        nursery.start_soon(task.run)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


async def test_a_bug_in_a_probe_costs_a_result_and_is_logged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    subject = Subject()
    subject.look(seen("one"))
    with caplog.at_level(logging.ERROR):
        await run(Asked(*3 * [KeyError("a bug")], ProbeOutcome(ProbeResult.SUCCESS)), subject, 60)

    assert SUCCESS is subject.probes.verdicts.readiness["one"]
    assert 1 == sum("a bug in its probe" in record.message for record in caplog.records)


async def test_broken_invariant_is_not_contained(autojump_clock: MockClock) -> None:
    subject = Subject()
    subject.look(seen("one"))
    with pytest.raises(ExceptionGroup) as found:
        await run(Asked(InvariantBroken("x")), subject, 5)

    assert found.group_contains(InvariantBroken)


async def test_a_probe_runs_each_period_without_drift(autojump_clock: MockClock) -> None:
    asked, subject = Asked(*[ProbeOutcome(ProbeResult.SUCCESS)] * 50), Subject()
    subject.look(seen("one"))
    await run(asked, subject, 39.5)

    gaps = {round(later - earlier, 3) for earlier, later in zip(asked.times, asked.times[1:], strict=False)}
    assert {1.0} == gaps
    assert 40 == len(asked.times)


async def test_a_probe_that_is_woken_again_and_again_before_its_time_waits_once(autojump_clock: MockClock) -> None:
    subject, timer = Subject(), SharedTimer(0.025)
    subject.look(seen("one"))
    task = ProbeTask(ALIVE, subject.probes, Asked(ProbeOutcome(ProbeResult.SUCCESS)), Asked(), timer)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timer.run)
        nursery.start_soon(task.run)
        for number in range(50):
            await trio.testing.wait_all_tasks_blocked()
            subject.probes.record_result(READY, "one", (SUCCESS, FAILURE)[number % 2])
        await trio.testing.wait_all_tasks_blocked()
        assert 1 == len(timer)
        nursery.cancel_scope.cancel()

    assert 0 == len(timer)
