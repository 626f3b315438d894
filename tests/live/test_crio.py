"""The agent on CRI-O, as a node of a cluster: pods and their images, talks with what runs, statistics, and restarts of
the agent and of the runtime.

What containerd's files hold one by one is asked here of one started agent, once each. CRI-O keeps no process for a
sandbox and has every container watched by one that outlives it (conmon). The witness is runc. That CRI-O keeps the
contract of runtimes is in ``test_runtime_contract.py``.
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import network
from live.kit.cluster_agent import PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.images import TESTPROG
from live.kit.manifests import container, pod, shell, state, waiting_reason
from live.kit.watched import is_ready
from live.test_cluster_stats import of_pod
from live.test_cluster_streams import attaches, executes_on_a_terminal, forwarding, run
from live.test_private_images import REFUSED, secret, wants

if TYPE_CHECKING:
    from live.kit.control_plane import ControlPlane
    from live.kit.crio import Crio
    from live.kit.private_registry import PrivateRegistry
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

LISTENS = "echo ready; while read line; do echo heard $line; done; sleep 1000"
LIMITS = {"limits": {"cpu": "500m", "memory": "64Mi"}}
RUNS = {"talks", "own", "shares", "owner"}


def test_a_node_on_crio_runs_pods_talks_with_them_and_loses_none(
    control_plane: ControlPlane, crio: Crio, private_registry: PrivateRegistry
) -> None:
    with ClusterAgent(crio, control_plane) as agent:
        agent.wait_ready()
        pods = comes_up(agent, private_registry)
        assert {id_ for found in pods.values() for id_ in running(found)} <= crio.tasks().keys()
        says_what_it_is(agent, crio, pods)
        executes_on_a_terminal(agent)
        attaches(agent)
        forwards_a_port(agent)
        tells_what_is_used(agent)
        loses_none(agent, crio)
        restarts_what_ended(agent, crio)
        leaves_nothing(agent, crio)


def comes_up(agent: ClusterAgent, registry: PrivateRegistry) -> Objects:
    """A Guaranteed pod with an init container and an image for a volume, one with users of its own, one that shares its
    processes, and two of a private image, one of which may not have it."""
    create = agent.plane.kubectl
    image = registry.push("team/app")
    create("create", "-f-", manifests=secret("good", registry.docker_config()))
    talks = (
        shell("c", "while :; do sleep 1; done", resources=LIMITS, volumeMounts=[{"name": "v", "mountPath": "/image"}]),
        container("web", "serve", "8080", resources=LIMITS),
        shell("ears", LISTENS, stdin=True, resources=LIMITS),
    )
    first = shell("first", "echo went before", resources=LIMITS)
    with agent.watch(PODS) as pods:
        for one in (
            pod("talks", *talks, initContainers=[first], volumes=[{"name": "v", "image": {"reference": TESTPROG}}]),
            pod("own", shell("c", "sleep 1000"), hostUsers=False),
            pod("shares", shell("c", "sleep 1000"), shareProcessNamespace=True),
            wants("owner", image, "good"),
            wants("stranger", image),
        ):
            create("create", "-f-", manifests=one)
        pods.wait(lambda now: all(is_ready(now.get(name, {})) for name in RUNS), "they run", story=agent.story)
        pods.wait(lambda now: waiting_reason(now["stranger"], "c") in REFUSED, "one is refused", story=agent.story)
        create("delete", "pod", "stranger", "--wait=false")
        return {name: pods.now[name] for name in RUNS}


def running(found: dict[str, Any]) -> list[str]:
    """The ids of its containers, which are CRI-O's."""
    ids = [one["containerID"] for one in found["status"]["containerStatuses"]]
    assert all(id_.startswith("cri-o://") for id_ in ids)
    return [id_.removeprefix("cri-o://") for id_ in ids]


def says_what_it_is(agent: ClusterAgent, crio: Crio, pods: Objects) -> None:
    kubectl = agent.plane.kubectl
    assert f"cri-o://{crio.version}" == agent.node()["status"]["nodeInfo"]["containerRuntimeVersion"]
    assert "went before\n" == kubectl("logs", "talks", "-c", "first")
    assert "0" != kubectl("exec", "own", "--", "cat", "/proc/self/uid_map").split()[1], "root in there is root out here"
    assert "0" == kubectl("exec", "shares", "--", "sh", "-c", "tr -d '\\0' < /proc/1/comm | grep -c ^sh$ || :").strip()
    assert 200 == network.ask(pods["talks"]["status"]["podIP"], 8080)[0]
    assert "testprog" in kubectl("exec", "talks", "-c", "c", "--", "ls", "/image/bin").split()
    done = run(agent, "exec", "talks", "-c", "c", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (7, b"out\n") == (done.returncode, done.stdout), done.stderr
    assert done.stderr.startswith(b"err\n")


def forwards_a_port(agent: ClusterAgent) -> None:
    with forwarding(agent) as address:
        host, _, port = address.partition(":")
        assert 200 == network.ask(host, int(port))[0]


def tells_what_is_used(agent: ClusterAgent) -> None:
    def told() -> dict[str, Any]:
        path = f"/api/v1/nodes/{agent.name}/proxy/stats/summary"
        return dict(json.loads(agent.plane.kubectl("get", "--raw", path)))

    def is_whole() -> bool:
        parts = {one["name"]: one for one in of_pod(told(), "talks")["containers"]}
        return all(
            parts.get(name, {}).get("cpu", {}).get("usageCoreNanoSeconds", 0)
            and parts[name]["memory"]["workingSetBytes"]
            and "usedBytes" in parts[name]["rootfs"]
            for name in ("c", "web", "ears")
        )

    await_that(is_whole, 60, agent.story, 1.0)
    assert told()["node"]["runtime"]["imageFs"]["usedBytes"] > 0
    assert "eth0" == of_pod(told(), "talks")["network"]["name"]


def loses_none(agent: ClusterAgent, crio: Crio) -> None:
    before = crio.tasks()
    agent.kill()
    crio.kill()
    agent.start(wait=False)
    crio.start()
    agent.wait_ready()
    crio.restart()
    agent.wait_ready()
    assert before == crio.tasks()
    assert 0 == state(agent.plane.kubectl.get("pod", "talks"), "web")["restartCount"]


def restarts_what_ended(agent: ClusterAgent, crio: Crio) -> None:
    with agent.watch(PODS) as pods:
        (ended,) = running(pods.wait(lambda now: "own" in now, "it is there", story=agent.story)["own"])
        os.kill(crio.tasks()[ended], signal.SIGKILL)
        again = pods.wait(
            lambda now: is_ready(now["own"]) and state(now["own"], "c")["restartCount"] == 1,
            "it is restarted",
            story=agent.story,
        )
    assert 137 == state(again["own"], "c")["lastState"]["terminated"]["exitCode"]
    assert [ended] != running(again["own"])


def leaves_nothing(agent: ClusterAgent, crio: Crio) -> None:
    agent.plane.kubectl("delete", "pods", "--all", "--grace-period=1", seconds=120)
    assert {} == crio.tasks()
    await_that(lambda: not crio.cri.call("ListPodSandbox").items, 60, agent.story)
