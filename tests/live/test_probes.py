"""Probes on real containerds: who is shown ready, who is killed, who waits for whom, by every handler.

The programs answer as they are told to from outside: testprog's server breaks and mends on request, a shell looks for
a file in a volume the test can reach. What a probe found is read where a user would look: status and events.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit import images, network, places
from live.kit.agent import Agent
from live.kit.answering import HOST, Answering
from live.kit.cluster_agent import PODS
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state
from live.kit.watched import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.cluster_agent import ClusterAgent
    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

SHARE = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
VOLUME = [{"name": "v", "emptyDir": {}}]
QUICK = {"periodSeconds": 1, "failureThreshold": 2}
HTTP = {"httpGet": {"path": "/healthz", "port": "web"}, **QUICK, "timeoutSeconds": 30}
WEB = [{"name": "web", "containerPort": 8080}]
SERVES = "mkdir -p /v; while true; do if [ -e /v/up ]; then nc -l -p 8080 -e true; else sleep 0.1; fi; done"


@pytest.fixture
def agent(containerd: Containerd) -> Iterator[Agent]:
    with Agent(containerd) as agent:
        yield agent


def shared(agent: Agent, found: dict[str, Any]) -> Path:
    """The pod's volume as the machine sees it."""
    return agent.root / "pods" / found["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir" / "v"


def wait_flags(agent: Agent, name: str, *, ready: bool, started: bool = True) -> dict[str, Any]:
    """The pod once its container c is shown so."""

    def shown(pods: dict[str, Any]) -> bool:
        now = state(pods.get(name, {}), "c")
        return (now.get("ready", False), now.get("started", False)) == (ready, started)

    return agent.wait(shown, f"{name} is {ready=} {started=}")[name]


def wait_restarts(agent: Agent, name: str, count: int, seconds: float = 90) -> dict[str, Any]:
    def restarted(pods: dict[str, Any]) -> bool:
        now = state(pods.get(name, {}), "c")
        return bool(now.get("restartCount", 0) >= count and now["state"].get("running"))

    return agent.wait(restarted, f"{name} was restarted", seconds)[name]


def told(agent: Agent, name: str) -> str:
    return agent.command("describe", "pod", f"{name}-live").stdout


def test_readiness_by_http_goes_and_comes_back_and_restarts_nothing(agent: Agent) -> None:
    agent.put(pod("web", container("c", "serve", "8080", ports=WEB, readinessProbe=HTTP)))
    found = wait_flags(agent, "web", ready=True)
    network.ask(found["status"]["podIP"], 8080, "/break")
    wait_flags(agent, "web", ready=False)
    assert "Readiness probe failed: HTTP probe failed with statuscode: 500" in told(agent, "web")
    network.ask(found["status"]["podIP"], 8080, "/mend")
    found = wait_flags(agent, "web", ready=True)
    assert 0 == state(found, "c")["restartCount"]


def test_readiness_by_a_command_follows_a_file(agent: Agent) -> None:
    probe = {"exec": {"command": ["cat", "/v/up"]}, **QUICK, "timeoutSeconds": 30}
    agent.put(pod("file", shell("c", "sleep 1000", readinessProbe=probe, **SHARE), volumes=VOLUME))
    found = wait_flags(agent, "file", ready=False)
    await_that(lambda: "Readiness probe failed: cat: can't open '/v/up'" in told(agent, "file"), 60, agent.story)
    (shared(agent, found) / "up").touch()
    wait_flags(agent, "file", ready=True)


def test_liveness_by_http_kills_and_the_container_comes_back(agent: Agent) -> None:
    agent.put(pod("web", container("c", "serve", "8080", ports=WEB, livenessProbe=HTTP)))
    found = wait_flags(agent, "web", ready=True)
    network.ask(found["status"]["podIP"], 8080, "/break")
    wait_restarts(agent, "web", 1)
    story = told(agent, "web")
    assert "Liveness probe failed: HTTP probe failed with statuscode: 500" in story
    assert "Container c failed liveness probe, will be restarted" in story


def test_tcp_liveness_kills_a_container_that_does_not_listen(agent: Agent) -> None:
    probe = {"tcpSocket": {"port": 8080}, **QUICK, "failureThreshold": 10, "timeoutSeconds": 30}
    agent.put(pod("port", shell("c", f"touch /v/up; {SERVES}", livenessProbe=probe, **SHARE), volumes=VOLUME))
    found = wait_flags(agent, "port", ready=True)
    up = shared(agent, found) / "up"
    await_that(up.exists, 60, agent.story)  # ready means that it runs, and not yet that it has done anything
    up.unlink()
    wait_restarts(agent, "port", 1)
    story = told(agent, "port")
    assert "Liveness probe failed: dial tcp" in story
    assert "connect: connection refused" in story


def test_a_command_that_takes_too_long_fails_as_upstream_says_it(agent: Agent) -> None:
    probe = {"exec": {"command": ["sleep", "100"]}, **QUICK, "failureThreshold": 1, "timeoutSeconds": 1}
    agent.put(pod("slow", shell("c", "sleep 1000", livenessProbe=probe)))
    wait_restarts(agent, "slow", 1)
    assert 'Liveness probe failed: command timed out: "sleep 100" timed out after 1s' in told(agent, "slow")


def test_nothing_else_is_asked_before_the_startup_probe_is_well(agent: Agent) -> None:
    """The liveness probe would kill it at once."""
    startup = {"exec": {"command": ["test", "-e", "/v/up"]}, "periodSeconds": 1, "failureThreshold": 1000}
    live = startup | {"failureThreshold": 1, "timeoutSeconds": 30}
    one = shell("c", "sleep 1000", startupProbe=startup, livenessProbe=live, readinessProbe=live, **SHARE)
    agent.put(pod("late", one, volumes=VOLUME))
    await_that(lambda: "Startup probe failed" in told(agent, "late"), 60, agent.story)
    found = agent.pods()["late"]
    assert (False, False, 0) == tuple(state(found, "c")[name] for name in ("started", "ready", "restartCount"))
    (shared(agent, found) / "up").touch()
    found = wait_flags(agent, "late", ready=True)
    assert 0 == state(found, "c")["restartCount"]


def test_failed_startup_or_liveness_kills_with_the_probes_grace(agent: Agent) -> None:
    probe = {"tcpSocket": {"port": 1}, **QUICK, "terminationGracePeriodSeconds": 1}
    begins, lives = (container(f"{of}", "stubborn", **{f"{of}Probe": probe}) for of in ("startup", "liveness"))
    agent.put(pod("deaf", begins, lives, terminationGracePeriodSeconds=3600))
    for of in ("startupProbe", "livenessProbe"):
        kind = of.removesuffix("Probe")
        agent.wait(lambda pods: state(pods.get("deaf", {}), kind).get("restartCount", 0) >= 1, f"{kind} kills", 60)  # noqa: B023 - it is over then
        assert f"Container {kind} failed {kind} probe, will be restarted" in told(agent, "deaf")


def test_each_probe_asks_the_host_it_names_with_all_it_was_given(agent: Agent, tmp_path: Path) -> None:
    """A server of the machine's own, whose certificate nobody believes. A container is ready after three good answers,
    and asked for its life after the first."""
    with Answering(tmp_path) as secure, Answering() as plain:

        def asks(kind: str, **more: Any) -> dict[str, Any]:
            said = {"host": HOST, "port": secure.port, "scheme": "HTTPS", "path": f"/{kind}"}
            said["httpHeaders"] = [{"name": "X-Kind", "value": kind}, {"name": "Host", "value": "named.test"}]
            return {"httpGet": said, "initialDelaySeconds": 1, "timeoutSeconds": 30, "periodSeconds": 1, **more}

        opens = {"tcpSocket": {"host": HOST, "port": plain.port}, "timeoutSeconds": 30, "periodSeconds": 1}
        gets = container(
            "c",
            "trap",
            livenessProbe=asks("live", successThreshold=1),
            readinessProbe=asks("ready", successThreshold=3),
            startupProbe=asks("start", successThreshold=1),
        )
        connects = container("d", "trap", livenessProbe=opens, readinessProbe=opens, startupProbe=opens)
        agent.put(pod("asks", gets, connects))
        found = wait_flags(agent, "asks", ready=True)
        assert 3 <= len(secure.asked("/ready", "X-Kind"))
        await_that(lambda: bool(secure.asked("/live", "X-Kind")), 60, agent.story)
        for kind in ("live", "ready", "start"):
            assert {kind} == set(secure.asked(f"/{kind}", "X-Kind"))
            assert {"named.test"} == set(secure.asked(f"/{kind}", "Host"))
        agent.wait(lambda pods: state(pods["asks"], "d").get("ready", False), "connections are enough")
        assert [0, 0] == [state(agent.pods()["asks"], name)["restartCount"] for name in "cd"], found


def test_a_sidecars_startup_probe_holds_back_the_containers_after_it(agent: Agent) -> None:
    startup = {"exec": {"command": ["test", "-e", "/v/up"]}, "periodSeconds": 1, "failureThreshold": 1000}
    beside = shell("beside", "sleep 1000", restartPolicy="Always", startupProbe=startup, **SHARE)
    agent.put(pod("pair", shell("c", "sleep 1000"), initContainers=[beside], volumes=VOLUME))
    await_that(lambda: "Startup probe failed" in told(agent, "pair"), 60, agent.story)
    found = agent.pods()["pair"]
    assert "PodInitializing" == state(found, "c")["state"]["waiting"]["reason"]
    (shared(agent, found) / "up").touch()
    wait_flags(agent, "pair", ready=True)


def test_grpc_asks_a_real_server_for_its_services_and_tells_one_that_is_none(agent: Agent) -> None:
    """etcd has gRPC's health protocol, for itself as a whole; testprog's server has none. The machine's etcd wants the
    machine's libraries."""
    paths = {"/p": places.control_plane(), "/lib": Path("/lib").resolve(), "/lib64": Path("/lib64").resolve()}
    volumes = [{"name": at[1:], "hostPath": {"path": str(path)}} for at, path in paths.items()]
    run = "/p/etcd --data-dir=/tmp/e --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://x:2379"
    patient = {"grpc": {"port": 2379}, "periodSeconds": 1, "failureThreshold": 60, "timeoutSeconds": 30}
    etcd = {
        "name": "c",
        "image": images.BUSYBOX,
        "command": ["sh", "-c", f"exec {run}"],
        **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), patient),
        "volumeMounts": [{"name": at[1:], "mountPath": at, "readOnly": True} for at in paths],
    }
    stranger = patient | {"grpc": {"port": 2379, "service": "nobody's"}}
    asked = {of: shell(of.lower(), "sleep 1000", **{f"{of}Probe": stranger}) for of in ("liveness", "startup")}
    strange = shell("readiness", "sleep 1000", readinessProbe=stranger)
    agent.put(pod("etcd", etcd, strange, *asked.values(), volumes=volumes))
    other = container("c", "serve", "8080", readinessProbe={"grpc": {"port": 8080}, **QUICK})
    agent.put(pod("other", other))
    wait_flags(agent, "etcd", ready=True)
    for kind in ("Liveness", "Readiness", "Startup"):
        said = f"{kind} probe failed: error: health rpc probe failed: gRPC status 5: unknown service"
        await_that(lambda: said in told(agent, "etcd"), 60, agent.story)  # noqa: B023 - it is over then
    assert 0 == state(agent.pods()["etcd"], "c")["restartCount"]
    await_that(
        lambda: "Readiness probe failed: error: health rpc probe failed" in told(agent, "other"), 60, agent.story
    )
    wait_flags(agent, "other", ready=False)


def test_a_pod_that_is_stopped_is_unready_while_its_grace_lasts(agent: Agent) -> None:
    """It says goodbye slowly; its file goes before it does."""
    probe = {"exec": {"command": ["test", "-e", "/v/up"]}, **QUICK, "timeoutSeconds": 30}
    bye = "rm /v/up; while ! test -e /v/seen; do sleep 0.2; done; exit 0"
    script = f"touch /v/up; trap '{bye}' TERM; while true; do sleep 0.2; done"
    one = shell("c", script, readinessProbe=probe, **SHARE)
    agent.put(pod("bye", one, volumes=VOLUME, terminationGracePeriodSeconds=600))
    wait_flags(agent, "bye", ready=True)
    agent.take("bye")
    found = wait_flags(agent, "bye", ready=False)
    assert state(found, "c")["state"].get("running"), found
    (shared(agent, found) / "seen").touch()
    agent.wait_gone("bye")


def test_killed_agent_comes_back_without_unready_pods(member: ClusterAgent) -> None:
    """A new agent knows from the API server who was ready, and believes it until the probe has spoken. The startup
    probe would never again be well."""
    ready = {"exec": {"command": ["true"]}, "periodSeconds": 3, "timeoutSeconds": 30}
    started = {"exec": {"command": ["mkdir", "/tmp/once"]}, "periodSeconds": 1, "timeoutSeconds": 30}
    manifest = pod("stays", shell("c", "sleep 1000", readinessProbe=ready, startupProbe=started))
    with member.watch(PODS) as pods:
        member.plane.kubectl("create", "-f-", manifests=manifest)
        pods.wait(lambda now: is_ready(now.get("stays", {})), "it is ready", story=member.story)
        began = time.time()
        # What started less than 10 s before the agent is not believed.
        await_that(lambda: time.time() > began + 12, 60, member.story)
        member.kill()
        before = len(pods.changes)
        member.start()
        await_that(lambda: _answers(member) >= 3, 60, member.story)
        assert all(is_ready(change.object) for change in pods.changes[before:])
        assert is_ready(pods.now["stays"])
        assert 0 == state(pods.now["stays"], "c")["restartCount"]


def _answers(agent: Agent) -> float:
    """How often probes were answered well."""
    return sum(count for name, count in agent.measured("/metrics/probes").items() if 'result="successful"' in name)
