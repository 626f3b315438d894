"""A container that ends while the agent's disk is full, on a real containerd: it is started again."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from live.kit.agent import Agent
from live.kit.manifests import pod, shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live.kit.containerd import Containerd

pytestmark = pytest.mark.slow

RUNS = "rm -f /v/end; while [ ! -e /v/end ]; do sleep 0.1; done; echo over >/dev/termination-log; exit 1"
NO_EVICTION = {"evictionHard": dict.fromkeys(("nodefs.available", "nodefs.inodesFree", "memory.available"), "0%")}
FILLED = {
    # By its size, and by the number of its files: the first is met by the notes, the second by every new file.
    "bytes": ("size=2m", "dd if=/dev/zero of={}/rest bs=4k"),
    "inodes": ("size=8m,nr_inodes=200", "i=0; while touch {}/rest-$i; do i=$((i+1)); done"),
}


@pytest.fixture(params=FILLED)
def filled(request: pytest.FixtureRequest, containerd2: Containerd) -> Iterator[tuple[Agent, str]]:
    """An agent whose pods' directories are on a small disk, and the command that fills it."""
    options, fills = FILLED[request.param]
    agent = Agent(containerd2, **NO_EVICTION)
    pods = agent.root / "pods"
    pods.mkdir(parents=True)
    subprocess.run(containerd2.inside(["mount", "-t", "tmpfs", "-o", options, "small", str(pods)]), check=True)
    try:
        with agent:
            yield agent, fills.format(pods)
    finally:
        subprocess.run(containerd2.inside(["umount", "--lazy", str(pods)]), check=True)


def test_a_container_that_ends_on_a_full_disk_comes_back(filled: tuple[Agent, str]) -> None:
    agent, fills = filled
    signals = agent.directory / "signals"
    signals.mkdir()
    volumes = [{"name": "v", "hostPath": {"path": str(signals)}}]
    runs = shell("c", RUNS, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    agent.put(pod("web", runs, volumes=volumes))
    agent.wait_phase("web", "Running")
    subprocess.run(agent.containerd.inside(["sh", "-c", fills]), check=False, capture_output=True)

    for restarts in (1, 2):
        (signals / "end").touch()
        agent.wait(
            lambda pods, wanted=restarts: (
                pods["web"]["status"]["containerStatuses"][0]["restartCount"] == wanted
                and "running" in pods["web"]["status"]["containerStatuses"][0]["state"]
            ),
            f"it runs for the {restarts + 1}th time",
            90,
        )
