"""A real agent on its embedded runtime, stopped, killed and started again: how its pods end, and which run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from shell.embedded.embeddedkit import POLL_SECONDS, WAIT_SECONDS_MAX, processes_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # more than the deadlines within


class Place:
    """Where an agent and its pods have their files; agents come and go."""

    def __init__(self, place: Path) -> None:
        self.path = place
        self.manifests = place / "manifests"
        self.manifests.mkdir()
        self.trace = place / "trace"
        self.trace.touch()

    def write(self, name: str, script: str, **fields: Any) -> None:
        """A manifest of a pod with one container that runs a shell script."""
        lifecycle = {"lifecycle": fields.pop("lifecycle")} if "lifecycle" in fields else {}
        command = ["sh", "-c", script.replace("TRACE", str(self.trace))]
        spec = {"containers": [{"name": "main", "image": "host", "command": command, **lifecycle}]} | fields
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        (self.manifests / f"{name}.yaml").write_text(json.dumps(pod))

    @contextmanager
    def agent(self, *flags: str) -> Iterator[subprocess.Popen[str]]:
        """An agent for the length of the block, killed at its end unless it has ended."""
        words = ["--standalone", "--container-runtime-endpoint=embedded:", "--healthz-port=0", "--hostname-override=n"]
        places = [f"--root-dir={self.path}/root", f"--pod-manifest-path={self.manifests}"]
        with subprocess.Popen(
            [sys.executable, "-m", "trikubelet", *words, *places, *flags], stderr=subprocess.PIPE, text=True
        ) as agent:
            try:
                yield agent
            finally:
                agent.kill()
                agent.wait()
        until(lambda: not processes_with(str(self.path)))

    def _get(self, *words: str) -> dict[str, Any]:
        """Return the agent's answer; empty while it does not answer, or has none of that."""
        line = [sys.executable, "-m", "trikubelet", "get", *words, "-o", "json", f"--root-dir={self.path}/root"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return found

    def pod(self, name: str) -> dict[str, Any]:
        """The pod as ``get`` shows it."""
        return self._get("pods", f"{name}-n")

    def events(self) -> dict[str, list[tuple[str, str]]]:
        """Reasons and messages of the pods' events, by the pods' names."""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in self._get("events").get("items", []):
            name = one["involvedObject"]["name"].removesuffix("-n")
            found.setdefault(name, []).append((one["reason"], one["message"]))
        return found

    def phase(self, name: str) -> str:
        return self.pod(name).get("status", {}).get("phase", "")

    def container(self, name: str) -> dict[str, Any]:
        return (self.pod(name).get("status", {}).get("containerStatuses") or [{}])[0]


@pytest.fixture
def here(place: Path) -> Place:
    return Place(place)


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < ends_at, "it did not become true in time"
        time.sleep(POLL_SECONDS)


def stopped(agent: subprocess.Popen[str], number: int = signal.SIGTERM) -> list[str]:
    """Stop an agent; its log."""
    agent.send_signal(number)
    _, said = agent.communicate(timeout=120)
    return said.splitlines()


LOOP = "while :; do sleep 0.05; done"


def test_pods_end_with_their_hooks_and_grace_and_only_those_that_may_run_again(here: Place) -> None:
    trap = "trap 'echo TERM >> TRACE; sleep 0.5; echo flushed >> TRACE; exit 0' TERM"
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo hook >> {here.trace}"]}}}
    here.write("web", f"{trap}; echo up; {LOOP}", lifecycle=hook, terminationGracePeriodSeconds=100)
    here.write("once", "echo once >> TRACE", restartPolicy="Never")
    here.write("twice", "[ -e TRACE.2 ] && exit 0; touch TRACE.2; exit 1", restartPolicy="OnFailure")
    here.write("work", f"trap 'exit 0' TERM; {LOOP}", restartPolicy="OnFailure")
    here.write("cut", f"trap 'exit 0' TERM; echo cut >> TRACE; {LOOP}", restartPolicy="Never")
    drain = {"preStop": {"exec": {"command": ["touch", f"{here.trace}.drained"]}}}
    work = "echo drained >> TRACE; while [ ! -e TRACE.drained ]; do sleep 0.05; done"
    here.write("drained", work, restartPolicy="OnFailure", lifecycle=drain)
    here.write("late", f"trap 'exit 0' TERM; echo late >> TRACE; {LOOP}", activeDeadlineSeconds=1)
    with here.agent() as agent:
        until(lambda: here.phase("once") == here.phase("twice") == "Succeeded")
        until(lambda: here.phase("late") == "Failed")
        until(lambda: here.container("web").get("ready", False))
        until(lambda: here.phase("cut") == here.phase("work") == here.phase("drained") == "Running")
        said = stopped(agent)
        assert 0 == agent.returncode
    assert ["hook", "TERM", "flushed"] == here.trace.read_text().splitlines()[-3:]
    assert any("Waiting for " in line and "default/web-n (grace 30 s)" in line for line in said)

    with here.agent() as agent:
        until(lambda: here.container("web").get("ready", False))
        until(lambda: here.phase("cut") == "Failed")
        until(lambda: here.container("work").get("restartCount") == 1)
        until(lambda: here.phase("drained") == "Succeeded")
        assert (1, "Running") == (here.container("web")["restartCount"], here.phase("web"))
        for name in ("web", "work"):
            assert 143 == here.container(name)["lastState"]["terminated"]["exitCode"], "it did not complete: it was cut"
        assert (0, 1) == (here.container("once")["restartCount"], here.container("twice")["restartCount"])
        assert ("Succeeded", "Succeeded", "Failed") == tuple(map(here.phase, ("once", "twice", "late")))
        assert "DeadlineExceeded" == here.pod("late")["status"]["reason"]
        stopped(agent)
    said_once = here.trace.read_text().splitlines()
    assert [1, 1, 2] == [said_once.count(word) for word in ("once", "cut", "drained")]
    assert said_once.count("late") <= 1  # its deadline may pass before its container has started


def test_containers_of_a_killed_agent_count_as_killed_and_a_new_pod_begins_anew(here: Place) -> None:
    here.write("web", f"echo web >> TRACE; {LOOP}", terminationGracePeriodSeconds=1)
    here.write("once", f"echo once >> TRACE; {LOOP}", restartPolicy="Never", terminationGracePeriodSeconds=1)
    with here.agent() as agent:
        until(lambda: here.phase("once") == here.phase("web") == "Running")
        agent.kill()
    with here.agent() as agent:
        until(lambda: here.phase("once") == "Failed" and here.phase("web") == "Running")
        ended = here.container("once")["state"]["terminated"]
        before = here.container("web")["lastState"]["terminated"]
        for end in (ended, before):
            assert (137, "ContainerStatusUnknown") == (end["exitCode"], end["reason"])

        manifest = (here.manifests / "once.yaml").rename(here.path / "once.yaml")
        until(lambda: not here.pod("once"))
        manifest.rename(here.manifests / "once.yaml")
        until(lambda: here.phase("once") == "Running")
        assert 0 == here.container("once")["restartCount"]
        stopped(agent, signal.SIGINT)
    assert 2 == here.trace.read_text().splitlines().count("once")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_agent_and_its_pods_at_once(here: Place, first: int) -> None:
    here.write("web", f"trap 'echo TERM >> TRACE' TERM; {LOOP}", terminationGracePeriodSeconds=3600)
    with here.agent("--embedded-stop-grace-period=1h") as agent:
        until(lambda: here.phase("web") == "Running")
        agent.send_signal(first)
        until(lambda: here.trace.read_text() == "TERM\n")

        def has_ended() -> bool:
            agent.send_signal(signal.SIGINT)  # again: one right after the first counts as that
            return agent.poll() is not None

        until(has_ended)
        assert 1 == agent.returncode


def test_pods_have_no_more_time_than_the_flag_gives_them(here: Place) -> None:
    here.write("web", f"trap 'echo TERM >> TRACE' TERM; {LOOP}", terminationGracePeriodSeconds=3600)
    with here.agent("--embedded-stop-grace-period=1s") as agent:
        until(lambda: here.phase("web") == "Running")
        said = stopped(agent)
        assert 0 == agent.returncode
    assert any("default/web-n (grace 1 s)" in line for line in said)
    with here.agent() as agent:
        until(lambda: here.container("web").get("restartCount") == 1)
        assert 137 == here.container("web")["lastState"]["terminated"]["exitCode"]
        assert "AgentStopped" == here.container("web")["lastState"]["terminated"]["reason"]
        os.kill(agent.pid, signal.SIGKILL)


SECCOMP = {"seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"}}
CONTAINER = {"name": "main", "image": "host", "command": ["sh", "-c", "exit 0"]}
BACK = {"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "image": ("spec.containers[0].image", {"containers": [{**CONTAINER, "image": "nginx"}]}),
    "command": ("spec.containers[0].command", {"containers": [{"name": "main", "image": "host"}]}),
    "tty": ("spec.containers[0].tty", {"containers": [{**CONTAINER, "tty": True}]}),
    "seccomp": ("spec.securityContext.seccompProfile.type", {"securityContext": SECCOMP}),
    "pid": ("spec.hostPID", {"hostPID": True}),
    "shared": ("spec.shareProcessNamespace", {"shareProcessNamespace": True}),
    "users": ("spec.hostUsers", {"hostUsers": False}),
    "sysctls": (
        "spec.securityContext.sysctls",
        {"securityContext": {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "1"}]}},
    ),
    "volume": (
        "spec.volumes[0].image",
        {
            "volumes": [{"name": "v", "image": {"reference": "busybox"}}],
            "containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        },
    ),
    "back": (
        "spec.containers[0].volumeMounts[0].mountPropagation",
        {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{**CONTAINER, "volumeMounts": [BACK], "securityContext": {"privileged": True}}],
        },
    ),
}


def test_what_validate_says_is_refused_is_refused_and_reported_when_the_pod_is_accepted(here: Place) -> None:
    for name, (_, spec) in REFUSED.items():
        here.write(name, "exit 0", **spec)
    words = ["validate", "--for=embedded", str(here.manifests)]
    validated = subprocess.run(
        [sys.executable, "-m", "trikubelet", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert 1 == validated.returncode
    with here.agent() as agent:
        until(lambda: REFUSED.keys() == {n for n, said in here.events().items() if any("Fail" in r for r, _ in said)})
        events = here.events()
        for name, (path, _) in REFUSED.items():
            what = f"uses fields that the embedded runtime rejects (use containerd for this pod): {path}: "
            assert any(what in message for reason, message in events[name] if reason == "UnsupportedFields"), name
            assert f"{path}: rejected by the embedded runtime: " in validated.stdout, name
            assert "Pending" == here.phase(name)
        stopped(agent)
