"""The command line against an agent on a real containerd: one walk through the verbs, as an operator would take it.

What is printed is compared in full by the tests in tests/shell; here counts that each verb does what it says to pods
that really run.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod, shell, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(containerd: Containerd) -> Iterator[Agent]:
    with Agent(containerd) as agent:
        yield agent


def said(agent: Agent, *words: str, code: int = 0) -> str:
    """What a command printed, which ended as it should."""
    done = agent.command(*words)
    assert code == done.returncode, (words, done.stdout, done.stderr, agent.story())
    return done.stdout if code == 0 else done.stderr


def said_once(agent: Agent, satisfied: Callable[[str], object], *words: str) -> str:
    """What a command printed once that satisfies: a container that runs need not have written anything, and need not
    have been measured twice."""
    printed = ""

    def there() -> bool:
        nonlocal printed
        printed = said(agent, *words)
        return bool(satisfied(printed))

    await_that(there, 60, lambda: f"{words} printed {printed!r}\n{agent.story()}")
    return printed


@pytest.mark.core
def test_an_operator_without_a_cluster_has_kubectls_verbs(agent: Agent, tmp_path: Path) -> None:
    web = pod("web", container("server", "serve", "8080"), shell("beside", "echo began; sleep 1000"))
    manifest = tmp_path / "mine.yaml"
    manifest.write_text(yaml.safe_dump(web | {"metadata": {"name": "web", "labels": {"app": "web"}}}))

    assert "pod/web-live created\n" == said(agent, "apply", "-f", str(manifest))
    assert "pod/web-live condition met\n" == said(agent, "wait", "web-live", "--for=condition=Ready", "--timeout=60s")
    assert "pod/web-live\n" == said(agent, "get", "pods", "-l", "app=web", "-o", "name")
    assert said(agent, "get", "nodes", "-o", "wide").splitlines()[1].startswith("live   Ready")
    runtime = said(agent, "get", "node", "live", "-o", "jsonpath={.status.nodeInfo.containerRuntimeVersion}")
    assert runtime.startswith("containerd://")
    images = json.loads(said(agent, "get", "images", "-o", "json"))["items"]
    assert any("testprog" in tag for image in images for tag in image.get("tags", ()))
    assert "began\n" == said_once(agent, bool, "logs", "web-live", "beside")
    assert "[pod/web-live/beside] began" in said(agent, "logs", "web-live", "--all-containers", "--prefix")
    said_once(agent, lambda events: "Started" in events, "get", "events")
    assert "staticPodPath" in said(agent, "config", "view", "--given")
    found = json.loads(agent.command("doctor", "-o", "json").stdout)
    assert ["ok"] == [one["severity"] for one in found if one["check"] == "runtime"]

    assert "6\n" == said(agent, "exec", "web-live", "-c", "beside", "--", "sh", "-c", "echo $((2*3))")
    assert 5 == agent.command("exec", "web-live", "-c", "beside", "--", "sh", "-c", "exit 5").returncode
    assert "200\n" == _through_a_port(agent)

    said_once(agent, re.compile(r"web-live +\d+m +\d+Mi\n").fullmatch, "top", "pods", "--no-headers")

    assert "pod/web-live container beside is being restarted\n" == said(agent, "restart", "web-live", "-c", "beside")
    counts = 'jsonpath={.status.containerStatuses[?(@.name=="beside")].restartCount}'
    assert "pod/web-live condition met\n" == said(agent, "wait", "web-live", f"--for={counts}=1", "--timeout=60s")
    assert said(agent, "delete", "pod", "web").startswith('pod "web-live" deleted (removed ')
    assert "pod/web-live deleted\n" == said(agent, "wait", "web-live", "--for=delete", "--timeout=60s")
    assert "not found" in said(agent, "get", "pod", "web-live", code=1)


def test_a_single_pod_runs_beside_others_and_leaves_them_alone(agent: Agent, tmp_path: Path) -> None:
    agent.put(pod("web", shell("main", "sleep 1000")))
    before = state(agent.wait_phase("web", "Running"), "main")["containerID"]
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(pod("job", shell("main", "echo hello; exit 3"), restartPolicy="Never")))

    words = [*agent.program, "run", str(job), f"--container-runtime-endpoint={agent.containerd.endpoint}"]
    line = agent.containerd.inside(words)
    refused = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (1, "") == (refused.returncode, refused.stdout)
    assert "would take this pod for a leftover" in refused.stderr
    agent.kill()
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    assert (3, "hello\n", "") == (done.returncode, done.stdout, done.stderr)
    agent.start()
    assert before == state(agent.wait_phase("web", "Running"), "main")["containerID"]
    assert {"web"} == set(agent.pods())


def _through_a_port(agent: Agent) -> str:
    """The code that the pod's server, once it listens, answers with to somebody who asks a port of this machine."""
    words = [*agent.program, "port-forward", "web-live", ":8080", f"--root-dir={agent.root}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            place = forwarding.stdout.readline().split()[2]
            asked = ["curl", "-sS", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}\n", f"http://{place}/"]
            asked += ["--retry", "60", "--retry-delay", "1", "--retry-max-time", "60", "--retry-all-errors"]
            return subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        finally:
            forwarding.send_signal(signal.SIGINT)
