"""Lifecycle hooks and the order of ends on real containerds. What a hook did is read where it left it: in a directory
of the host, in an exit code, in the order of both.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import network
from live.kit.agent import Agent
from live.kit.answering import HOST, Answering
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state, waiting_reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

WAITS = "trap 'echo term >> /v/order; exit 0' TERM; echo main >> /v/order; while :; do sleep 0.1; done"


@pytest.fixture
def agent(containerd: Containerd) -> Iterator[Agent]:
    with Agent(containerd) as agent:
        yield agent


def does(script: str) -> dict[str, Any]:
    """A hook that runs a shell script in its container."""
    return {"exec": {"command": ["sh", "-c", script]}}


def shared(agent: Agent) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    """A directory that containers and tests see: its path, a container's mount of it, the pod's volumes."""
    directory = agent.directory / "shared"
    directory.mkdir()
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    return directory / "order", mount, [{"name": "v", "hostPath": {"path": str(directory)}}]


def told(agent: Agent, name: str) -> str:
    """What an operator is told of a pod, its events among it."""
    return agent.command("describe", "pod", name).stdout


def test_a_command_runs_after_the_start_before_the_next_container_and_one_before_the_end(agent: Agent) -> None:
    order, mount, volumes = shared(agent)
    hooks = {"postStart": does("sleep 1; echo started >> /v/order"), "preStop": does("echo bye >> /v/order")}
    second = shell("second", "echo second >> /v/order; sleep 1000", **mount)
    agent.put(
        pod(
            "hooked",
            shell("first", WAITS, lifecycle=hooks, **mount),
            second,
            volumes=volumes,
            terminationGracePeriodSeconds=30,
        )
    )
    agent.wait_phase("hooked", "Running")
    await_that(lambda: 3 == len(order.read_text().split()), 60, agent.story)
    assert ["main", "started", "second"] == order.read_text().split()
    agent.take("hooked")
    agent.wait_gone("hooked")
    assert ["main", "started", "second", "bye", "term"] == order.read_text().split()


def test_container_with_a_failing_post_start_hook_is_stopped_with_the_reason(agent: Agent) -> None:
    agent.put(pod("unlucky", container("c", "trap", lifecycle={"postStart": does("echo out; echo no >&2; exit 3")})))
    pods = agent.wait(
        lambda pods: waiting_reason(pods.get("unlucky", {}), "c") == "PostStartHookError", "its hook has failed"
    )
    message = state(pods["unlucky"], "c")["state"]["waiting"]["message"]
    words = "Exec lifecycle hook ([sh -c echo out; echo no >&2; exit 3])"
    assert message.startswith(f'{words} for Container "c" in Pod "unlucky-live_default(')
    assert message.endswith('exited with 3: no\n, message: "out\\nno\\n"')
    agent.wait(
        lambda pods: waiting_reason(pods.get("unlucky", {}), "c") == "CrashLoopBackOff",
        "it is started ever more slowly",
    )
    shown = told(agent, "unlucky")
    for word in ("FailedPostStartHook", "PostStartHook failed", "Killing"):
        assert word in shown


def test_a_get_before_the_end_reaches_a_server_without_tls_that_was_asked_with_it(agent: Agent) -> None:
    bye = {"httpGet": {"path": "/exit/7", "port": "web", "scheme": "HTTPS"}}
    ports = [{"name": "web", "containerPort": 8080}]
    agent.put(pod("web", container("c", "serve", "8080", ports=ports, lifecycle={"preStop": bye})))
    found = agent.wait_phase("web", "Running")
    identity = state(found, "c")["containerID"].partition("://")[2]
    assert 200 == network.ask(found["status"]["podIP"], 8080)[0]  # it listens
    with agent.containerd.events() as events:  # type: ignore[attr-defined]
        agent.take("web")
        (end,) = events.wait_for("/tasks/exit", identity)
    # 0 would be the server's own answer to SIGTERM.
    assert 7 == end.fields["exit_status"]


def test_a_container_that_sleeps_before_its_end_does_not_end_before(agent: Agent) -> None:
    patient = container("c", "trap", lifecycle={"preStop": {"sleep": {"seconds": 3}}})
    agent.put(pod("sleepy", patient, terminationGracePeriodSeconds=30))
    found = agent.wait_phase("sleepy", "Running")
    identity = state(found, "c")["containerID"].partition("://")[2]
    await_that(lambda: "waiting" in agent.command("logs", "sleepy-live").stdout, 60, agent.story)  # deaf until then
    with agent.containerd.events() as events:  # type: ignore[attr-defined]
        asked = time.time()
        agent.take("sleepy")
        (end,) = events.wait_for("/tasks/exit", identity)
    assert (0, True) == (end.fields.get("exit_status", 0), end.when - asked >= 3)


def test_a_hook_sleeps_or_asks_the_host_it_names_with_its_headers(agent: Agent, tmp_path: Path) -> None:
    with Answering(tmp_path) as server:

        def asks(moment: str, scheme: str) -> dict[str, Any]:
            headers = [{"name": "X-Moment", "value": moment}]
            return {
                "httpGet": {
                    "host": HOST,
                    "port": server.port,
                    "path": f"/{moment}",
                    "scheme": scheme,
                    "httpHeaders": headers,
                }
            }

        hooks = {"postStart": asks("begin", "HTTPS"), "preStop": asks("end", "HTTPS")}
        agent.put(
            pod(
                "asks",
                container("c", "trap", lifecycle=hooks),
                container("late", "trap", lifecycle={"postStart": {"sleep": {"seconds": 3}}}),
                container("after", "trap"),
                terminationGracePeriodSeconds=30,
            )
        )
        found = agent.wait_phase("asks", "Running")
        assert (["begin"], []) == (server.asked("/begin", "X-Moment"), server.asked("/end", "X-Moment"))
        # Containers are started one after another: the last waits for the sleep of the one before.
        late, after = (
            datetime.fromisoformat(state(found, name)["state"]["running"]["startedAt"]) for name in ("late", "after")
        )
        assert (after - late).total_seconds() >= 2  # in whole seconds
        agent.take("asks")
        agent.wait_gone("asks")
        assert ["end"] == server.asked("/end", "X-Moment")


def test_sidecars_end_after_the_regular_containers_and_the_last_to_start_first(agent: Agent) -> None:
    order, mount, volumes = shared(agent)

    def waits(name: str, **fields: Any) -> dict[str, Any]:
        ends = f"sleep 0.2; echo {name} >> /v/order; exit 0"
        script = f"trap '{ends}' TERM; touch /v/{name}; while :; do sleep 0.1; done"
        return shell(name, script, **mount, **fields)

    beside = [waits(name, restartPolicy="Always") for name in ("one", "two")]
    agent.put(pod("ordered", waits("main"), initContainers=beside, volumes=volumes, terminationGracePeriodSeconds=60))
    agent.wait_phase("ordered", "Running")
    ready = [order.parent / name for name in ("main", "one", "two")]
    await_that(lambda: all(path.exists() for path in ready), 60, agent.story)  # each would hear a signal
    agent.take("ordered")
    agent.wait_gone("ordered")
    assert ["main", "two", "one"] == order.read_text().split()
