"""Devices of a device plugin on a real containerd: a container has them, and keeps them over restarts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import pod, shell, state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

RESOURCE = "example.com/device"
LOOKS = "echo has $DEVICES $(ls /shared); for d in a b c; do test -c /dev/$d && echo node $d; done; "


@contextmanager
def plugin(agent: Agent, *ids: str) -> Iterator[Path]:
    """A device plugin with these devices, for the length of the block, and its directory."""
    directory = agent.directory / "plugin"
    sockets = agent.root / "device-plugins"
    command = [sys.executable, "-m", "live.kit.device_plugin", RESOURCE, str(directory), str(sockets), *ids]
    paths = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    with (agent.directory / "plugin.log").open("ab") as log:
        process = subprocess.Popen(
            agent.containerd.inside(command),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONPATH": paths},
        )
    try:
        yield directory
    finally:
        process.communicate(timeout=60)


def needing(name: str, script: str, count: int = 1) -> dict[str, Any]:
    """A pod whose container shows its devices and then runs the script."""
    return pod(name, shell("c", LOOKS + script, resources={"limits": {RESOURCE: str(count)}}))


def lines(agent: Agent, name: str) -> list[str]:
    return agent.command("logs", f"{name}-live").stdout.splitlines()


def node(agent: Agent) -> str:
    """The description of the node, with single spaces."""
    return " ".join(agent.command("describe", "node").stdout.split())


def calls(directory: Path) -> list[str]:
    noted = directory / "calls"
    return noted.read_text().splitlines() if noted.exists() else []


def listed(agent: Agent) -> dict[str, list[str]]:
    """The devices of each pod, as clients of the pod resources API read them with grpc's own library."""
    script = """
import grpc, json, sys
from trikubelet.cri.plugin_v1 import pod_resources_pb2 as pb
with grpc.insecure_channel("unix://" + sys.argv[1]) as channel:
    encode, decode = pb.ListPodResourcesRequest.SerializeToString, pb.ListPodResourcesResponse.FromString
    listing = channel.unary_unary("/v1.PodResourcesLister/List", encode, decode)
    found = listing(pb.ListPodResourcesRequest(), timeout=60).pod_resources
ids = lambda pod: [name for one in pod.containers for group in one.devices for name in group.device_ids]
print(json.dumps({pod.name: ids(pod) for pod in found}))
"""
    command = [sys.executable, "-c", script, str(agent.root / "pod-resources" / "kubelet.sock")]
    asked = subprocess.run(agent.containerd.inside(command), capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, list[str]] = json.loads(asked.stdout)
    return found


def test_container_has_its_devices_and_keeps_them_over_restarts(containerd2: Containerd) -> None:
    with Agent(containerd2) as agent:
        with plugin(agent, "a", "b") as directory:
            agent.put(needing("web", "sleep 1000"))
            found = agent.wait_phase("web", "Running", 120)  # it is rejected until the plugin has registered
            await_that(lambda: "node a" in lines(agent, "web"), 60, agent.story)
            assert ["has a there", "node a"] == lines(agent, "web")
            assert ["allocate a", "start a"] == calls(directory)
            shown = state(found, "c")["allocatedResourcesStatus"]
            assert [{"name": RESOURCE, "resources": [{"resourceID": "a", "health": "Healthy"}]}] == shown
            assert {"web-live": ["a"]} == listed(agent)

            agent.kill()
            agent.start()
            before = state(agent.wait_phase("web", "Running"), "c")["containerID"]
            assert state(found, "c")["containerID"] == before
            await_that(lambda: f"{RESOURCE}: 2" in node(agent), 60, agent.story)  # the plugin has registered again
            agent.put(needing("both", "sleep 1000", 2))
            told = agent.wait_phase("both", "Failed")["status"]
            assert "UnexpectedAdmissionError" == told["reason"]
            assert "Requested: 2, Available: 1" in told["message"]
            agent.put(needing("next", "sleep 1000"))
            agent.wait_phase("next", "Running")
            await_that(lambda: ["has b there", "node b"] == lines(agent, "next"), 60, agent.story)
            (directory / "unhealthy").write_text("a")
            agent.wait(lambda pods: "Unhealthy" == health(pods["web"]), "the device's health is shown")

        assert 0 == agent.stop()
        agent.start()  # without the plugin
        assert 0 == agent.command("restart", "web-live", "--wait").returncode, agent.story()
        agent.wait_phase("web", "Running")
        await_that(lambda: "node a" in lines(agent, "web"), 60, agent.story)
        assert "has a there" in lines(agent, "web")
        for name in ("web", "next"):
            agent.take(name)
        with plugin(agent, "a", "b"):
            (directory / "unhealthy").unlink()
            agent.wait_phase("both", "Running", 120)
            await_that(lambda: "has a,b there" in lines(agent, "both"), 60, agent.story)


def health(one: dict[str, Any]) -> str:
    """The health of the first device of the pod's container, as its status shows it."""
    shown = state(one, "c").get("allocatedResourcesStatus", [{}])
    return str(shown[0].get("resources", [{}])[0].get("health"))
