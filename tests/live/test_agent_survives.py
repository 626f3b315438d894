"""Nothing an agent or a runtime goes through may touch a container that runs well: kills, restarts, both at once.

The witness is containerd: the process ids of its tasks and its own event stream, not what the agent remembers.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.histories import read_histories
from live.kit.manifests import container, pod, shell, state

if TYPE_CHECKING:
    from live.kit.containerd import Containerd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

KILLS = 50
STARTS = 10
BACK_OFFS = ("10s", "20s", "40s", "1m20s", "2m40s", "5m0s")


@pytest.mark.core
def test_sigterm_ends_the_agent_with_0_and_touches_nothing(containerd: Containerd) -> None:
    with Agent(containerd) as agent:
        agent.put(pod("web", container("s", "serve", "8080")))
        agent.wait_phase("web", "Running")
        before = containerd.tasks()
        assert 0 == agent.stop()
        assert before == containerd.tasks()
        agent.start()
        agent.wait_phase("web", "Running")
        assert before == containerd.tasks()


def test_fifty_kills_at_random_moments_restart_nothing_and_lose_no_pod(containerd2: Containerd) -> None:
    """A restart count may be as high as the number of starts of that container that were abandoned, and no higher. It
    is no mistake that it may be more than 1: containerd may keep a container whose start it gave up with its caller,
    and then the next one must have the next number; that one's start may be met by the next kill, and there are fifty,
    none far from the one before. Where no start was abandoned it is 0, and nothing that ran was ended for it."""
    chance = random.Random(20)  # the moments are repeatable as far as a real machine allows
    names = [f"steady-{number}" for number in range(5)]
    with Agent(containerd2) as agent, containerd2.events() as events:
        for name in names:
            agent.put(pod(name, container("s", "serve", "8080"), initContainers=[container("i", "exit", "0")]))
        for _ in range(KILLS):
            agent.kill()
            agent.start(wait=False)
            time.sleep(chance.uniform(0.0, 1.5))  # the moment is what is tested
        counts = {name: state(agent.wait_phase(name, "Running"), "s")["restartCount"] for name in names}
        histories = read_histories(containerd2.log_path.read_text(errors="replace"), events.all)

        assert [] == histories.faults(once={"i"})
        # No pod is lost: of each its sandbox runs, and its server. (A start that was rolled back may leave a process.)
        ids = histories.started & containerd2.tasks().keys()
        live = Counter((one.pod, one.name) for one in map(histories.made.__getitem__, ids))
        assert live == Counter((f"{name}-live", part) for name in names for part in ("", "s"))
        # Only where a start was abandoned, or rolled back by containerd, may the next one have the next number.
        abandoned = histories.abandoned()
        assert all(count <= abandoned[f"{name}-live", "s"] for name, count in counts.items()), (counts, abandoned)
        assert "Stopping" not in agent.log_path.read_text()


def test_kills_while_containers_start_fail_no_pod_that_runs_once(containerd: Containerd) -> None:
    """Nor are they restarts, but where a start was abandoned the next container may have the next number: containerd
    may keep the one before with its name, or a kill may fall between the removal of that and the making of another, and
    then only its log says that there was one. How often either happens in ten kills is chance."""
    chance = random.Random(21)
    names = [f"once-{number}" for number in range(STARTS)]
    with Agent(containerd) as agent, containerd.events() as events:
        for name in names:
            made = len(events.of("/containers/create"))
            agent.put(pod(name, container("c", "stubborn"), hostNetwork=True, restartPolicy="Never"))
            # The container is made, beside its sandbox, and the call to start it is on its way or under way.
            await_that(lambda made=made: len(events.of("/containers/create")) >= made + 2, 60, agent.story, 0.001)
            time.sleep(chance.uniform(0.0, 0.05))
            agent.kill()
            agent.start()
        counts = {name: state(agent.wait_phase(name, "Running"), "c")["restartCount"] for name in names}
        histories = read_histories(containerd.log_path.read_text(errors="replace"), events.all)

        assert [] == histories.faults(once={"c"})
        abandoned = histories.abandoned()
        assert all(count <= abandoned[f"{name}-live", "c"] for name, count in counts.items()), (counts, abandoned)
        ids = histories.started & containerd.tasks().keys()
        running = Counter(one.pod for one in map(histories.made.__getitem__, ids) if one.name)
        assert running == Counter(f"{name}-live" for name in names)


@pytest.mark.core
def test_running_pods_outlive_kills_with_their_processes_and_counts(containerd: Containerd) -> None:
    with Agent(containerd) as agent:
        agent.put(pod("web", container("s", "serve", "8080")))
        agent.put(pod("once", container("c", "exit", "1", "200")))

        def restarted() -> bool:
            return state(agent.pods().get("once", {}), "c").get("restartCount", 0) >= 1

        agent.wait_phase("web", "Running")
        await_that(restarted, 60, agent.story)
        before = agent.pods()
        running = {identity: pid for identity, pid in containerd.tasks().items() if identity in _ids(before["web"])}
        for _ in range(5):
            agent.kill()
            agent.start()
            agent.wait_phase("web", "Running")
        # One that was made and not started when its agent was killed is taken away: for a moment there may be none.
        await_that(lambda: "containerID" in state(agent.pods()["once"], "c"), 60, agent.story)
        now = agent.pods()
        assert running.items() <= containerd.tasks().items()
        # Its age is that of its sandbox, which is older than its container, and not that of this agent.
        assert now["web"]["status"]["startTime"] <= state(before["web"], "s")["state"]["running"]["startedAt"]
        assert state(before["once"], "c")["restartCount"] <= state(now["once"], "c")["restartCount"]


def _ids(found: dict[str, object]) -> set[str]:
    return {state(found, "s")["containerID"].partition("://")[2]}


@pytest.mark.core
def test_what_was_unwanted_while_the_agent_was_down_is_ended_when_it_is_back(containerd: Containerd) -> None:
    with Agent(containerd) as agent:
        agent.put(pod("stays", container("s", "serve", "8080")))
        agent.put(pod("goes", container("s", "serve", "8080")))
        agent.wait_phase("stays", "Running")
        agent.wait_phase("goes", "Running")
        kept = _ids(agent.pods()["stays"])
        agent.kill()
        agent.take("goes")
        agent.start()
        await_that(lambda: 2 == len(containerd.tasks()), 60, agent.story)
        assert kept <= set(containerd.tasks())


@pytest.mark.core
def test_a_restarted_containerd_keeps_the_pods_and_the_agent_finds_it_again(containerd: Containerd) -> None:
    with Agent(containerd) as agent:
        agent.put(pod("web", container("s", "serve", "8080")))
        agent.wait_phase("web", "Running")
        before = containerd.tasks()
        containerd.stop()
        agent.put(pod("late", container("s", "serve", "8080")))
        containerd.start()
        agent.wait_phase("late", "Running")
        agent.wait_phase("web", "Running")
        assert before.items() <= containerd.tasks().items()
        assert 0 == state(agent.pods()["web"], "s")["restartCount"]


def test_an_agent_that_starts_before_its_runtime_waits_and_says_so_once(containerd: Containerd) -> None:
    containerd.stop()
    with Agent(containerd) as agent:
        agent.put(pod("web", container("s", "serve", "8080")))
        await_that(lambda: "is not ready" in agent.log_path.read_text(), 60, agent.story)
        containerd.start()
        agent.wait_phase("web", "Running")
        said = [line for line in agent.log_path.read_text().splitlines() if "is not ready" in line]
        # A containerd that is starting takes calls before it can answer them: another problem, in its own words.
        starting = [line for line in said if "not initialized" in line]
        assert (1, True) == (len(said) - len(starting), len(starting) <= 1), said


def test_a_manifest_that_is_bad_when_the_agent_comes_back_does_not_cost_its_pod(containerd2: Containerd) -> None:
    with Agent(containerd2) as agent:
        agent.put(pod("web", container("s", "serve", "8080")))
        agent.put(pod("goes", container("s", "serve", "8080")))
        agent.wait_phase("web", "Running")
        agent.wait_phase("goes", "Running")
        before = containerd2.tasks()
        agent.kill()
        agent.put("kind: Pod\nspec: [", "web.yaml")
        agent.take("goes")
        agent.start()
        await_that(lambda: "Not killing orphaned pods" in agent.log_path.read_text(), 60, agent.story)
        assert before == containerd2.tasks()
        agent.put(pod("web", container("s", "serve", "8080")))
        await_that(lambda: 2 == len(containerd2.tasks()), 60, agent.story)
        assert containerd2.tasks().items() <= before.items()


def test_a_node_that_is_given_up_is_reset_and_nothing_of_its_pods_stays(containerd2: Containerd) -> None:
    with Agent(containerd2) as agent:
        volume = {"name": "v", "emptyDir": {"medium": "Memory"}}
        mounted = container("s", "serve", "8080", volumeMounts=[{"name": "v", "mountPath": "/v"}])
        agent.put(pod("web", mounted, volumes=[volume]))
        agent.wait_phase("web", "Running")
        refused = agent.reset()
        assert (1, True) == (refused.returncode, "an agent runs there" in refused.stderr), refused
        agent.kill()
        done = agent.reset()
        assert 0 == done.returncode, done
        assert {} == containerd2.tasks()
        assert [[], []] == [list(place.iterdir()) for place in (agent.root / "pods", agent.pod_logs)]


def test_the_back_off_of_a_crashing_container_survives_restarts_of_the_agent(containerd2: Containerd) -> None:
    def step(pods: dict[str, dict[str, Any]]) -> int:
        """The place of its back-off among ``BACK_OFFS``, after three starts at least; -1 while it does not wait."""
        [status] = pods.get("crashes", {}).get("status", {}).get("containerStatuses") or [{}]
        waiting = status.get("state", {}).get("waiting", {})
        if status.get("restartCount", 0) < 2 or waiting.get("reason") != "CrashLoopBackOff":
            return -1
        return BACK_OFFS.index(str(waiting["message"]).split()[1])

    with Agent(containerd2) as agent:
        agent.put(pod("crashes", shell("c", "exit 1")))
        before = step(agent.wait(lambda pods: step(pods) >= 0, "it backs off", 120))
        assert before > 0
        for _ in range(3):
            agent.kill()
            agent.start()
            now = step(agent.wait(lambda pods: step(pods) >= 0, "it still backs off", 120))
            assert now >= before
            before = now
