"""The agent on real containerds: pods come up, change, crash, end and go, as their manifests say.

Each test has a containerd without pods and an agent of its own. What is claimed is what containerd, the network or the
disk shows, not only what the agent says. Waiting is for states, never for times.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import network, places
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state, waiting_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd
    from live.kit.registry import Registry

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(containerd: Containerd) -> Iterator[Agent]:
    with Agent(containerd) as agent:
        yield agent


def log_of(agent: Agent, found: dict[str, Any], name: str, attempt: int = 0) -> str:
    """What a container printed, read where upstream's tools look for it."""
    metadata = found["metadata"]
    directory = agent.pod_logs / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / name
    path = directory / f"{attempt}.log"
    return "".join(line.split(" ", 3)[3] + "\n" for line in path.read_text().splitlines()) if path.exists() else ""


@pytest.mark.core
def test_a_pod_comes_up_and_answers(agent: Agent) -> None:
    agent.put(pod("web", container("server", "serve", "8080")))
    found = agent.wait_phase("web", "Running")
    assert 200 == network.ask(found["status"]["podIP"], 8080)[0]


def test_the_examples_run_as_they_say(agent: Agent) -> None:
    for path in sorted((places.LIVE.parent.parent / "examples/manifests/containerd").glob("*.yaml")):
        agent.put(path.read_text(), path.name)
    agent.wait_phase("web", "Running")
    await_that(lambda: "it is" in network.ask(network.host_address(), 8080)[1], 60, agent.story)
    done = agent.wait_phase("job", "Succeeded")
    assert 1 == state(done, "worker")["restartCount"]

    # Shown in one table: crashing waits now and runs then, and the job stays as it ended.
    wanted = {"CrashLoopBackOff", "Completed"}
    await_that(lambda: wanted <= set(agent.command("get", "pods").stdout.split()), 60, agent.story)


@pytest.mark.core
def test_init_containers_run_one_after_another_and_a_sidecar_before_the_rest(agent: Agent) -> None:
    share = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    agent.put(
        pod(
            "ordered",
            shell("main", "echo main >> /v/order; cat /v/order; sleep 1000", **share),
            initContainers=[
                shell("first", "echo first >> /v/order", **share),
                shell("beside", "echo beside >> /v/order; sleep 1000", restartPolicy="Always", **share),
                shell("second", "echo second >> /v/order", **share),
            ],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
    )
    found = agent.wait_phase("ordered", "Running")
    await_that(lambda: log_of(agent, found, "main").endswith("main\n"), 60, agent.story)
    assert ["first", "beside", "second", "main"] == log_of(agent, found, "main").split()
    assert state(found, "beside")["started"]
    assert "Completed" == state(found, "second")["state"]["terminated"]["reason"]


@pytest.mark.core
def test_an_edited_manifest_replaces_the_pod_and_the_old_one_ends_first(agent: Agent) -> None:
    agent.put(pod("web", container("server", "serve", "8080", env=[{"name": "V", "value": "one"}])))
    before = agent.wait_phase("web", "Running")
    agent.put(pod("web", container("server", "serve", "8080", env=[{"name": "V", "value": "two"}])))

    def replaced(pods: dict[str, Any]) -> bool:
        now = pods.get("web", before)
        return now["metadata"]["uid"] != before["metadata"]["uid"] and now.get("status", {}).get("phase") == "Running"

    agent.wait(replaced, "web is replaced")
    await_that(lambda: _answer(agent, "web", "/env/V") == "two", 60, agent.story)
    await_that(lambda: 2 == len(agent.containerd.tasks()), 60, agent.story)


def _answer(agent: Agent, name: str, path: str) -> str:
    return network.ask(agent.pods()[name]["status"]["podIP"], 8080, path)[1].strip()


@pytest.mark.core
def test_a_removed_manifest_ends_its_pod_with_grace_and_leaves_nothing_that_runs(agent: Agent) -> None:
    agent.put(pod("gentle", container("c", "trap", "300"), terminationGracePeriodSeconds=60))
    found = agent.wait_phase("gentle", "Running")
    await_that(lambda: "waiting\n" == log_of(agent, found, "c"), 60, agent.story)  # until then it is deaf
    uid = found["metadata"]["uid"]
    with agent.containerd.events() as events:  # type: ignore[attr-defined]
        agent.take("gentle")
        agent.wait_gone("gentle", seconds=120)
        [end] = events.wait_for("/tasks/exit", state(found, "c")["containerID"].partition("://")[2])
    # It ended by itself after SIGTERM, inside its grace; a SIGKILL would have left 137.
    assert 0 == end.fields.get("exit_status", 0)
    assert {} == agent.containerd.tasks()
    await_that(lambda: not (agent.root / "pods" / uid).exists(), 60, agent.story)


def test_the_logs_of_a_pod_that_is_gone_go_with_the_next_round_of_garbage(agent: Agent) -> None:
    agent.put(pod("gone", container("c", "serve", "8080"), terminationGracePeriodSeconds=1))
    uid = agent.wait_phase("gone", "Running")["metadata"]["uid"]
    assert list(agent.pod_logs.glob(f"*_{uid}"))
    agent.take("gone")
    await_that(lambda: not list(agent.pod_logs.glob(f"*_{uid}")), 150, agent.story)


@pytest.mark.core
def test_a_container_deaf_to_sigterm_is_killed_when_its_grace_is_over(agent: Agent) -> None:
    agent.put(pod("deaf", container("c", "stubborn"), terminationGracePeriodSeconds=1))
    agent.wait_phase("deaf", "Running")
    agent.take("deaf")
    agent.wait_gone("deaf")
    assert {} == agent.containerd.tasks()


@pytest.mark.core
def test_a_crashing_container_is_restarted_ever_more_slowly(agent: Agent) -> None:
    agent.put(pod("crash", container("c", "exit", "3")))

    def waiting(pods: dict[str, Any]) -> bool:
        found = pods.get("crash", {})
        return state(found, "c").get("restartCount", 0) >= 1 and "CrashLoopBackOff" == waiting_reason(found, "c")

    one = state(agent.wait(waiting, "crash is in CrashLoopBackOff after a restart", 90)["crash"], "c")
    assert 3 == one["lastState"]["terminated"]["exitCode"]
    assert "back-off" in one["state"]["waiting"]["message"]


def test_a_container_that_takes_too_much_memory_is_oom_killed(agent: Agent) -> None:
    limits = {"resources": {"limits": {"memory": "32Mi"}}}
    agent.put(pod("greedy", container("c", "eat", "200", **limits), restartPolicy="Never"))
    found = agent.wait_phase("greedy", "Failed")
    ended = state(found, "c")["state"]["terminated"]
    assert ("OOMKilled", 137) == (ended["reason"], ended["exitCode"])


def test_a_static_pod_that_was_rejected_for_its_host_port_begins_when_the_port_is_free(agent: Agent) -> None:
    port = network.free_port()
    here = {"name": "web", "containerPort": 8080, "hostPort": port}
    agent.put(pod("holder", shell("c", "sleep 1000", ports=[here])))
    agent.wait_phase("holder", "Running")
    agent.put(pod("late", shell("c", "sleep 1000", ports=[here])))
    status = agent.wait_phase("late", "Failed")["status"]
    assert "NodePorts" == status["reason"]
    assert status["message"].endswith(f": host port {port}/TCP is in use by pod default/holder-live")

    agent.take("holder")
    agent.wait_gone("holder")
    status = agent.wait_phase("late", "Running")["status"]
    assert ("", "") == (status.get("reason", ""), status.get("message", ""))


def test_a_host_port_leads_to_the_pod(agent: Agent) -> None:
    port = network.free_port()
    here = {"name": "web", "containerPort": 8080, "hostPort": port, "hostIP": network.host_address(), "protocol": "TCP"}
    agent.put(pod("web", container("s", "serve", "8080", ports=[here])))
    agent.wait_phase("web", "Running")
    assert 200 == network.ask(network.host_address(), port)[0]
    with pytest.raises(OSError, match=r"refused|timed out"):
        network.ask("127.0.0.1", port, seconds=0.1)


def test_a_pod_on_the_hosts_network_has_the_hosts_address(agent: Agent) -> None:
    port = network.free_port()
    agent.put(pod("web", container("s", "serve", str(port)), hostNetwork=True))
    found = agent.wait_phase("web", "Running")
    assert found["status"]["hostIP"] == found["status"]["podIP"]
    assert 200 == network.ask("127.0.0.1", port)[0]


@pytest.mark.core
def test_one_pod_reaches_another_by_its_address(agent: Agent) -> None:
    agent.put(pod("server", container("s", "serve", "8080")))
    address = agent.wait_phase("server", "Running")["status"]["podIP"]
    agent.put(pod("client", container("c", "get", address, "8080"), restartPolicy="OnFailure"))
    agent.wait_phase("client", "Succeeded")


@pytest.mark.core
@pytest.mark.parametrize("medium", ["", "Memory"])
def test_containers_share_an_empty_dir(agent: Agent, medium: str) -> None:
    share = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    reader = "until [ -e /v/said ]; do sleep 0.1; done; grep ' /v ' /proc/mounts; cat /v/said"
    agent.put(
        pod(
            "shared",
            shell("writer", "echo hello > /v/new; mv /v/new /v/said", **share),
            shell("reader", reader, **share),
            volumes=[{"name": "v", "emptyDir": {"medium": medium}}],
            restartPolicy="Never",
        )
    )
    found = agent.wait_phase("shared", "Succeeded")
    said = log_of(agent, found, "reader")
    assert said.endswith("hello\n")
    assert bool(medium) == ("tmpfs" in said)
    agent.take("shared")
    agent.wait_gone("shared")
    await_that(lambda: not os.listdir(agent.root / "pods"), 60, agent.story)


def test_a_host_path_is_seen_and_a_missing_one_is_told(agent: Agent) -> None:
    there = agent.directory / "data"
    there.mkdir()
    (there / "file").write_text("from the host\n")
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}

    def reads(name: str, path: Path) -> dict[str, Any]:
        volume = {"name": "v", "hostPath": {"path": str(path), "type": "Directory"}}
        return pod(name, shell("c", "cat /v/file", **mount), volumes=[volume], restartPolicy="Never")

    agent.put(reads("reads", there))
    agent.put(reads("misses", there / "nothing"))
    assert "from the host\n" == log_of(agent, agent.wait_phase("reads", "Succeeded"), "c")
    await_that(lambda: "is not a directory" in agent.command("describe", "pod", "misses-live").stdout, 60, agent.story)
    (there / "nothing").mkdir()
    (there / "nothing" / "file").write_text("late\n")
    assert "late\n" == log_of(agent, agent.wait_phase("misses", "Succeeded"), "c")


@pytest.mark.core
def test_a_bad_manifest_leaves_the_good_ones_running_and_is_told_everywhere(agent: Agent) -> None:
    agent.put(pod("good", container("s", "serve", "8080")))
    before = agent.wait_phase("good", "Running")
    agent.put("apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {contaners: []}\n", "good.yaml")

    def told(where: str) -> bool:
        return "contaners" in where and "containers" in where

    await_that(lambda: told(agent.log_path.read_text()), 60, agent.story)
    shown = agent.command("get", "pods")
    assert told(shown.stdout + shown.stderr)
    assert told(agent.command("describe", "pod", "good-live").stdout)
    now = agent.pods()["good"]
    assert state(before, "s")["containerID"] == state(now, "s")["containerID"]


def test_an_image_that_is_not_there_waits_with_its_reason(agent: Agent) -> None:
    agent.put(pod("never", container("c", "exit", "0", image="missing.test/x:1", imagePullPolicy="Never")))

    def waiting(pods: dict[str, Any]) -> bool:
        return "ErrImageNeverPull" == state(pods.get("never", {}), "c").get("state", {}).get("waiting", {}).get(
            "reason"
        )

    agent.wait(waiting, "never waits with ErrImageNeverPull")


def test_an_image_is_asked_for_as_often_as_its_policy_says(agent: Agent, registry: Registry) -> None:
    agent.containerd.trust(registry.address)
    policies = (("missing", "IfNotPresent"), ("there", "IfNotPresent"), ("always", "Always"), ("again", "Always"))
    pulls = []
    for name, policy in (*policies, ("never", "Never")):
        one = container("c", "exit", "0", image=registry.image, imagePullPolicy=policy)
        agent.put(pod(name, one, restartPolicy="Never"))
        agent.wait_phase(name, "Succeeded")
        pulls.append(registry.pulls)
    assert [1, 1, 2, 3, 3] == pulls


def test_fifty_pods_come_up_and_go(agent: Agent) -> None:
    names = [f"many-{number}" for number in range(50)]
    for name in names:
        agent.put(pod(name, container("s", "serve", "8080"), terminationGracePeriodSeconds=1))

    def all_run(pods: dict[str, Any]) -> bool:
        return all(state(pods.get(name, {}), "s").get("ready") for name in names)

    agent.wait(all_run, "fifty pods run", 150)
    assert 100 == len(agent.containerd.tasks())
    for name in names:
        agent.take(name)
    agent.wait(lambda pods: not pods, "fifty pods are gone", 150)
    assert {} == agent.containerd.tasks()
