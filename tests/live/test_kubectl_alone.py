"""kubectl, upstream's own, on a node that has no cluster: everything it may read, and what it is told when it writes.

The node runs once on a real containerd and once on the embedded runtime.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from live.kit import places
from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.kubectl import Kubectl, KubectlFailed
from live.kit.manifests import container, pod, shell
from live.kit.network import free_port
from trikubelet.model.upstream import KUBERNETES_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

TALKS = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done"


class Node:
    """An agent with two pods, and kubectl as its kubeconfig lets it ask. ``port``: where the pod web serves."""

    def __init__(self, agent: Agent, embedded: bool) -> None:
        self.agent = agent
        self.port = free_port() if embedded else 8080
        serve = [sys.executable, "-m", "http.server", str(self.port), "--bind", "127.0.0.1"]
        server = {"name": "server", "command": serve} if embedded else container("server", "serve", str(self.port))
        pods = [pod("web", shell("talker", TALKS), server), pod("job", shell("c", "exit 3"), restartPolicy="Never")]
        for made in pods:
            made["metadata"]["labels"] = {"app": made["metadata"]["name"]}
            for one in made["spec"]["containers"]:
                one.update({"image": "host"} if embedded else {})
            agent.put(made)
        kubeconfig = agent.directory / "kubeconfig"
        done = agent.command("kubeconfig", str(kubeconfig))
        assert 0 == done.returncode, (done.stderr, agent.story())
        self.kubectl = Kubectl(places.control_plane() / "kubectl", kubeconfig)

    def refused(self, *words: str, manifests: dict[str, Any] | str = "") -> str:
        """What kubectl says when it is told no."""
        with pytest.raises(KubectlFailed) as failed:
            self.kubectl(*words, manifests=manifests)
        return str(failed.value)


@pytest.fixture(params=["containerd", "embedded"])
def node(request: pytest.FixtureRequest, containerd2: Containerd) -> Iterator[Node]:
    embedded = request.param == "embedded"
    own = {"containerRuntimeEndpoint": "embedded:"} if embedded else {}
    agent = Agent(containerd2, **own)
    agent.words += [f"--kubectl-port={free_port()}"]
    with agent:
        node = Node(agent, embedded)
        # It answers before it has read its manifests, and kubectl waits for no pod that is not there yet.
        agent.wait(lambda pods: {"web", "job"} <= pods.keys(), "its manifests are read")
        yield node


def test_kubectl_reads_and_talks_and_is_told_which_file_to_change(node: Node, tmp_path: Path) -> None:
    with watching(node, "get", "pods", "-w", "--no-headers") as seen:
        node.kubectl("wait", "pod", "-l", "app=web", "--for=condition=Ready", "--timeout=60s", seconds=90)
        node.kubectl("wait", "pod/job-live", "--for=jsonpath={.status.phase}=Failed", "--timeout=60s", seconds=90)
        lists(node)
        describes(node)
        shows_logs(node)
        executes_and_copies(node, tmp_path)
        forwards_a_port(node)
        writes_nothing(node)
        node.agent.take("job")
        node.kubectl("wait", "pod/job-live", "--for=delete", "--timeout=60s", seconds=90)
        await_that(lambda: "job-live   0/1   Error" in " ".join(seen()), 60, lambda: "\n".join(seen()))
    rows = [line.split()[:3] for line in seen()]
    assert [["web-live", "2/2", "Running"]] == [row for row in rows if row[0] == "web-live"][-1:]


def lists(node: Node) -> None:
    rows = [line.split() for line in node.kubectl("get", "pods").splitlines()]
    assert [["NAME", "READY", "STATUS", "RESTARTS", "AGE"], ["job-live", "0/1", "Error"], ["web-live", "2/2"]] == [
        rows[0],
        rows[1][:3],
        rows[2][:2],
    ]
    assert "NOMINATED NODE" in node.kubectl("get", "po", "-o", "wide")
    assert node.kubectl("get", "all", "-A").splitlines()[1].startswith("default     job-live")
    assert "pod/web-live\n" == node.kubectl("get", "pods", "-l", "app=web", "-o", "name")
    assert "pod/job-live\n" == node.kubectl("get", "pods", "--field-selector=status.phase=Failed", "-o", "name")
    assert "app=web" in node.kubectl("get", "pods", "--show-labels", "--sort-by=.metadata.name")
    assert "10250" not in (said := node.kubectl("get", "nodes", "-o", "wide"))
    assert ("live", "Ready") == tuple(said.splitlines()[1].split()[:2])
    assert "default" in node.kubectl("get", "ns")
    assert "Started" in node.kubectl("get", "events")
    assert "Started" in node.kubectl("events", "--for=pod/web-live")
    assert KUBERNETES_VERSION in node.kubectl("version")
    assert "pods/exec" not in node.kubectl("api-resources")
    assert 'pods "none" not found' in node.refused("get", "pod", "none")
    assert "Running" == node.kubectl("get", "pod", "web-live", "-o", "jsonpath={.status.phase}")


def describes(node: Node) -> None:
    said = node.kubectl("describe", "pod", "web-live")
    assert ("talker:" in said, "Started" in said) == (True, True)
    said = node.kubectl("describe", "node", "live")
    assert ("web-live" in said, "job-live" in said, "Ready" in said) == (True, False, True)
    assert "default" in node.kubectl("describe", "ns", "default")


def shows_logs(node: Node) -> None:
    whole = partial(node.kubectl, "logs", "web-live", "-c", "talker")
    await_that(lambda: len(whole().splitlines()) > 1, 60, node.agent.story)
    assert "line 1\n" == node.kubectl("logs", "web-live", "-c", "talker", "--limit-bytes=7")
    assert 2 == len(node.kubectl("logs", "web-live", "-c", "talker", "--tail=2").splitlines())
    with watching(node, "logs", "-f", "web-live", "-c", "talker", "--tail=1") as seen:
        await_that(lambda: len(seen()) > 3, 60, lambda: f"{seen()}")
    assert "previous terminated container" in node.refused("logs", "job-live", "-p")


def executes_and_copies(node: Node, directory: Path) -> None:
    assert "6\n" == node.kubectl("exec", "web-live", "-c", "talker", "--", "sh", "-c", "echo $((2*3))")
    with watching(node, "attach", "web-live", "-c", "talker") as seen:
        await_that(lambda: len([line for line in seen() if line.startswith("line ")]) > 1, 60, lambda: f"{seen()}")
    assert "told\n" == node.kubectl("exec", "-i", "web-live", "-c", "talker", "--", "cat", manifests="told\n")
    done = subprocess.run(
        node.kubectl.command("exec", "web-live", "-c", "talker", "--", "sh", "-c", "exit 5"),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert 5 == done.returncode
    (directory / "there").write_text("and back")
    inside = f"web-live:{directory if node.port != 8080 else '/tmp'}/inside"
    node.kubectl("cp", "-c", "talker", str(directory / "there"), inside)
    node.kubectl("cp", "-c", "talker", inside, str(directory / "back"))
    assert "and back" == (directory / "back").read_text()


def forwards_a_port(node: Node) -> None:
    with watching(node, "port-forward", "web-live", f":{node.port}") as seen:
        await_that(lambda: bool(seen()), 60, lambda: "nothing is forwarded")
        local = seen()[0].split("127.0.0.1:")[1].split()[0]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{local}/", timeout=60) as answer:
            assert 200 == answer.status


def writes_nothing(node: Node) -> None:
    says = f'{node.agent.manifests}/web.yaml defines pod "web-live", so change or remove that'
    assert says in node.refused("delete", "pod", "web-live")
    assert says in node.refused("label", "pod", "web-live", "a=b")
    manifest = yaml.safe_dump(pod("new", shell("c", "exit 0")))
    for verb in ("apply", "create"):
        assert f"the manifests in {node.agent.manifests} define the pods" in node.refused(
            verb, "-f-", manifests=manifest
        )


@contextmanager
def watching(node: Node, *words: str) -> Iterator[Any]:
    """A kubectl that goes on for as long as the block does; what it has printed so far, line by line."""
    path = node.agent.directory / f"kubectl-{words[0]}"
    with path.open("w") as out, subprocess.Popen(node.kubectl.command(*words), stdout=out, stderr=out) as process:
        try:
            yield lambda: path.read_text().splitlines()
        finally:
            process.terminate()
