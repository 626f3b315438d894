"""The agent beside another node agent on one container runtime, or in its place: it ends no pod that is not its own."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, state
from live.kit.upstream import UpstreamKubelet
from trikubelet.core.unknown_pods import UNKNOWN_PODS

if TYPE_CHECKING:
    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def refusal(agent: Agent) -> str:
    """Start an agent that must be refused; return its log once it has ended."""
    agent.start(wait=False)
    await_that(lambda: not agent.alive, 60, agent.story)
    return agent.log_path.read_text()


def pods_finding(agent: Agent) -> dict[str, Any]:
    """Return the finding of the doctor about the pods on the runtime."""
    (found,) = (one for one in json.loads(agent.command("doctor", "-o", "json").stdout) if one["check"] == "pods")
    return found


def reports(agent: Agent) -> list[str]:
    return [one["message"] for one in agent.ask("/events")["items"] if one["reason"] == UNKNOWN_PODS]


def leaves_them_alone(agent: Agent, containerd: Containerd, theirs: dict[str, int]) -> None:
    """Start the agent, run a pod of its own and end it, and hold that another agent's pods are reported, one that runs
    and one that has ended, and that their processes stay."""
    logged = len(agent.log_path.read_text()) if agent.log_path.exists() else 0
    agent.start()
    agent.put(pod("ours", container("s", "serve", "8081")))
    agent.wait_phase("ours", "Running")
    await_that(lambda: bool(reports(agent)), 60, agent.story)

    runs = "1 unknown pod runs on the container runtime: default/theirs-"
    assert [True] == [message.startswith(runs) for message in reports(agent)]
    log = agent.log_path.read_text()[logged:]
    assert 1 == log.count(f"] {runs}"), log
    assert 1 == log.count(f"] Doctor: pods: {runs}"), log
    found = pods_finding(agent)
    assert ("warning", True) == (found["severity"], found["found"].startswith(runs)), found
    assert "; 1 more has ended. " in found["found"]

    agent.take("ours")
    agent.wait_gone("ours")

    def sandboxes() -> int:
        return len(containerd.cri.call("ListPodSandbox").items)

    await_that(lambda: 2 == sandboxes(), 90, agent.story)  # the next agent must not find what was removed too late
    assert theirs == containerd.tasks()
    assert 0 == agent.stop()


def test_pods_of_a_stopped_upstream_kubelet_are_left_alone_on_any_root_directory_until_reset(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    kubelet, stranger, successor = (
        UpstreamKubelet(containerd2, control_plane),
        Agent(containerd2),
        Agent(containerd2),
    )
    successor.root = kubelet.root

    def directories() -> set[str]:
        return {one.name for one in (kubelet.root / "pods").iterdir()}

    try:
        kubelet.start()
        kubelet.put(pod("theirs", container("s", "serve", "8080")))
        kubelet.put(pod("ended", container("s", "exit", "0"), restartPolicy="Never"))
        kubelet.wait_phase(f"theirs-{kubelet.name}", "Running", 120)
        kubelet.wait_phase(f"ended-{kubelet.name}", "Succeeded", 120)
        await_that(lambda: 2 == len(containerd2.tasks()), 60, kubelet.story)  # the ended pod's sandbox has stopped
        theirs = containerd2.tasks()
        assert "a kubelet" in (said := refusal(stranger)), said
        assert "--share-runtime" in said
        kubelet.kill()
        on_disk = directories()
        assert len(on_disk) >= 2

        leaves_them_alone(stranger, containerd2, theirs)
        leaves_them_alone(successor, containerd2, theirs)
        assert on_disk <= directories()

        kept = successor.reset("--keep-unknown-pods")
        assert (0, theirs) == (kept.returncode, containerd2.tasks()), kept
        assert "reset without --keep-unknown-pods" in kept.stderr
        assert on_disk == directories()

        leaves_them_alone(successor, containerd2, theirs)
        done = successor.reset()
        assert (0, {}, set()) == (done.returncode, containerd2.tasks(), directories()), done
        assert "--keep-unknown-pods leaves them alone" in done.stderr
    finally:
        for one in (stranger, successor, kubelet):
            one.kill()


def test_second_agent_on_a_runtime_is_refused_with_its_evidence_and_the_flag(containerd2: Containerd) -> None:
    second = Agent(containerd2)
    with Agent(containerd2) as first:
        first.put(pod("web", container("s", "serve", "8080")))
        first.wait_phase("web", "Running")
        before = containerd2.tasks()
        said = refusal(second)
        assert f"cannot start on the container runtime {containerd2.endpoint}: process {first.pid}, " in said
        assert "--share-runtime" in said
        assert not second.root.exists() or not list(second.root.glob("runtime-endpoint"))

        first.kill()
        first.start()
        first.wait_phase("web", "Running")
        assert before == containerd2.tasks()


def test_pods_of_a_killed_agent_are_adopted_with_an_empty_root_directory(containerd2: Containerd) -> None:
    with Agent(containerd2) as agent:
        agent.put(pod("web", container("s", "serve", "8080")))
        agent.wait_phase("web", "Running")
        before = containerd2.tasks()
        agent.kill()
        shutil.rmtree(agent.root)

        for _ in range(2):
            agent.start()
            web = agent.wait_phase("web", "Running")
            assert (0, before) == (state(web, "s")["restartCount"], containerd2.tasks())
            assert "ok" == pods_finding(agent)["severity"]
            agent.kill()
