"""A file system that never answers, made with FUSE: its pod waits, says so and can go; the node does not notice."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow


CROWD = 5


@pytest.fixture
def agent(containerd2: Containerd) -> Iterator[Agent]:
    with Agent(containerd2) as agent:
        yield agent


@pytest.fixture
def dead(agent: Agent) -> Iterator[Path]:
    """A directory in the agent's mount namespace whose file system does not answer: nobody reads what it is asked."""
    dead = agent.directory / "dead"
    dead.mkdir()
    channel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={channel},rootmode=40000,user_id=0,group_id=0"
    mount = ["mount", "--internal-only", "-t", "fuse", "-o", options, "dead", str(dead)]
    subprocess.run(agent.containerd.inside(mount), check=True, pass_fds=[channel])
    yield dead
    os.close(channel)  # whoever waits is told that it is over
    subprocess.run(agent.containerd.inside(["umount", "--lazy", str(dead)]), check=True)


def test_pod_on_a_dead_file_system_is_reported_and_can_be_deleted(agent: Agent, dead: Path) -> None:
    serve = container("c", "serve", "8080")
    volumes = [
        {"name": "dead", "hostPath": {"path": f"{dead}/data", "type": "Directory"}},
        {"name": "absent", "hostPath": {"path": "/no/such/directory", "type": "Directory"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    scratch = [{"name": "scratch", "emptyDir": {"medium": "Memory"}}]
    agent.put(pod("goes", serve, volumes=scratch))
    agent.wait_phase("goes", "Running")
    agent.put(pod("stuck", serve, volumes=volumes))
    for number in range(CROWD):  # as many as all threads for volumes that are made here
        many = [{"name": f"dead-{one}", "hostPath": {"path": f"{dead}/{one}", "type": "Directory"}} for one in range(4)]
        agent.put(pod(f"crowd-{number}", serve, volumes=many))

    def described() -> str:
        return agent.command("describe", "pod", "stuck-live").stdout

    await_that(lambda: "earlier work has not ended yet" in described(), 60, agent.story)
    agent.put(pod("fine", serve, volumes=scratch))
    agent.wait_phase("fine", "Running")
    agent.take("goes")
    agent.wait_gone("goes")
    await_that(lambda: "FailedMount" in described() and '"dead" : not ready within' in described(), 90, agent.story)
    said = described()
    assert 'MountVolume.SetUp failed for volume "absent" : hostPath type check failed' in said
    assert "ready at " in said

    uid = agent.pods()["stuck"]["metadata"]["uid"]
    agent.take("stuck")
    agent.wait_gone("stuck")
    await_that(lambda: not (agent.root / "pods" / uid).exists(), 60, agent.story)
    assert "Running" == agent.pods()["fine"]["status"]["phase"]
