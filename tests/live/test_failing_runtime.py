"""An agent whose containerd has problems: what is cut off is taken up again, what hangs holds up nothing else.

A shim that has stopped is the one thing of a pod that can hang on a real containerd: neither its lists nor its statuses
ask the shim, in 1.6 or 2.x, so such a pod is seen as well as any other and only cannot be ended. A status that hangs
has to be pretended (``trikubelet fake-runtime``, docs/fake-runtime.md).
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.kit import frozen, instance
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state
from live.kit.transitions import Kind, published

if TYPE_CHECKING:
    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

RECEIVED, RELIABLE = "trikubelet_pleg_events_received_total", "trikubelet_pleg_events_reliable"


def id_of(agent: Agent, name: str) -> str:
    """The container of a pod."""
    found: str = state(agent.pods()[name], "c").get("containerID", "").partition("://")[2]
    return found


def die(containerd: Containerd, id_: str) -> None:
    """The container's process ends, and nobody is asked."""
    os.kill(containerd.tasks()[id_], signal.SIGKILL)


def test_the_event_stream_that_a_restart_of_containerd_ended_is_opened_again(containerd2: Containerd) -> None:
    with Agent(containerd2) as agent:
        agent.put(pod("web", container("c", "serve", "8080")))
        agent.wait_phase("web", "Running")
        id_ = id_of(agent, "web")
        await_that(lambda: 1 == agent.measured()[RELIABLE], 60, agent.story)
        containerd2.stop()
        await_that(lambda: 0 == agent.measured()[RELIABLE], 60, agent.story)
        before = agent.measured()[RECEIVED]
        containerd2.start()
        die(containerd2, id_)
        # Seen by a list, should it have died before the stream was there; what follows from it is told by events.
        await_that(lambda: agent.measured()[RECEIVED] > before, 60, agent.story)
        await_that(lambda: 1 == agent.measured()[RELIABLE], 60, agent.story)
        await_that(lambda: id_of(agent, "web") not in ("", id_), 60, agent.story)
        agent.wait_phase("web", "Running")


def test_a_pod_that_ends_while_containerd_is_away_has_its_hook_and_its_grace(
    containerd2: Containerd, tmp_path: Path
) -> None:
    (told := tmp_path / "told").mkdir()
    told.chmod(0o777)
    said = told / "said"
    on_term = "echo term >> /told/said; sleep 4; echo flushed >> /told/said; exit 0"
    main = f"trap '{on_term}' TERM; echo up >> /told/said; while :; do sleep 0.1; done"
    bye = {"preStop": {"exec": {"command": ["sh", "-c", "echo bye >> /told/said"]}}}
    web = pod(
        "web",
        shell("c", main, lifecycle=bye, volumeMounts=[{"name": "told", "mountPath": "/told"}]),
        volumes=[{"name": "told", "hostPath": {"path": str(told)}}],
        terminationGracePeriodSeconds=20,
    )
    with Agent(containerd2) as agent:
        agent.put(web)
        agent.wait_phase("web", "Running")
        await_that(said.exists, 60, agent.story)
        containerd2.stop()
        agent.take("web")
        await_that(lambda: "Stopping container c" in agent.log_path.read_text(), 60, agent.story)
        time.sleep(25)  # longer than its grace
        assert "up\n" == said.read_text()
        containerd2.start()
        agent.wait_gone("web", seconds=90)
    assert ["up", "bye", "term", "flushed"] == said.read_text().split()


def test_pod_with_a_stopped_shim_is_reported_and_delays_no_other(containerd: Containerd) -> None:
    with Agent(containerd) as agent:
        for name in ("stuck", "well"):
            agent.put(pod(name, container("c", "stubborn")))
        agent.wait_phase("well", "Running")
        agent.wait_phase("stuck", "Running")
        ended = id_of(agent, "well")
        shim = _shim(containerd, "stuck")
        try:
            frozen.freeze(shim)
            agent.take("stuck")
            await_that(lambda: "Terminating" in agent.command("describe", "pod", "stuck-live").stdout, 60, agent.story)
            die(containerd, ended)
            await_that(lambda: id_of(agent, "well") not in ("", ended), 60, agent.story)
            agent.put(pod("late", container("c", "stubborn")))
            agent.wait_phase("late", "Running")
            agent.take("late")
            agent.wait_gone("late")
            assert "stuck" in agent.pods()
            assert 0 == agent.measured()["trikubelet_pleg_hung_pods"]
        finally:
            frozen.thaw(shim)
        agent.wait_gone("stuck", seconds=150)
        assert ended in {one.container for one in published(agent.log_path) if one.kind is Kind.DIED}


def _shim(containerd: Containerd, name: str) -> int:
    """The process between containerd and a pod's containers; the sandbox's id is on its command line."""
    sandboxes = containerd.cri.call("ListPodSandbox").items
    id_ = next(one.id for one in sandboxes if one.metadata.name.startswith(name))
    found = instance.processes(containerd.instance)
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in found}
    return next(pid for pid, words in lines.items() if b"shim" in words[0] and id_.encode() in words)
