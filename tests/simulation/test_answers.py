"""What the simulation's witness hears of a probe: the container's word, a failure when it is too late, else nothing;
and what follows from what several agents heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench
from shell.pods.test_probed_pods import command, http, probed
from trikubelet.testing.memory_handlers import MemoryHandlers
from trikubelet.testing.probe_truth import Answers, is_ready

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.mark.parametrize(
    ("words", "lived_seconds", "heard"),
    [
        pytest.param("readiness slow 0.5", 0.3, [], id="the agent left before the answer"),
        pytest.param("readiness slow 0.5", 0.8, [("readiness", True)], id="an answer"),
        pytest.param("readiness hang", 0.9, [], id="still waiting when the agent left"),
        pytest.param("readiness hang", 1.3, [("readiness", False)], id="not in time"),
    ],
)
async def test_a_question_that_was_given_up_is_no_answer(
    autojump_clock: MockClock, words: str, lived_seconds: float, heard: list[tuple[str, bool]]
) -> None:
    bench, given = Bench(), []
    bench.handlers = MemoryHandlers(bench.world, lambda _id, kind, well: given.append((kind, well)))
    began = trio.current_time()
    async with bench.agent(probed(readiness_probe=http(words, timeout_seconds=1))):
        await trio.sleep_until(began + lived_seconds)
    assert given == heard


STARTED, SLOW, SERVES, FAILS = ("startup", True), ("startup", False), ("readiness", True), ("readiness", False)


@pytest.mark.parametrize(
    ("heard", "ready"),
    [
        pytest.param([], None, id="nobody was there"),
        pytest.param([[]], None, id="nothing was heard"),
        pytest.param([[STARTED]], None, id="started, not asked whether it serves"),
        pytest.param([[STARTED, SERVES]], True, id="both were heard"),
        pytest.param([[STARTED], [SERVES]], True, id="one heard the first, the next one the second"),
        pytest.param([[STARTED, SERVES], [FAILS]], False, id="the last word counts"),
        pytest.param([[STARTED, SERVES], []], True, id="the last word counts, whoever heard it"),
        pytest.param([[SERVES], [STARTED]], None, id="it served before it had started"),
        pytest.param([[STARTED], [SLOW, SERVES]], False, id="asked again it has not started"),
    ],
)
def test_what_agents_heard_one_after_another(heard: list[list[tuple[str, bool]]], ready: bool | None) -> None:
    asked = dict.fromkeys(("startup_probe", "readiness_probe"), command("ok", failure_threshold=1))
    container = probed(**asked).spec.containers[0]
    agents = []
    for said in heard:
        agents.append(Answers())
        for kind, well in said:
            agents[-1].heard("c1", kind, well)

    assert ready is is_ready(agents, container, "c1")
