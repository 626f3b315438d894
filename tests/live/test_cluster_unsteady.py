"""A node whose surroundings are not steady: an API server that fails one request in twenty and does not answer one in
fifty, and a clock that jumps by hours. It stays Ready, pods come and go, and nothing is restarted.
``TRIKUBELET_LIVE_UNRELIABLE_SECONDS`` shortens the first.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.kit import images, shifted
from live.kit.cluster_agent import LEASES, NODES, PODS, ClusterAgent
from live.kit.manifests import container, pod
from live.kit.unreliable import UnreliableDoor
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane
    from live.kit.watched import Change, Objects

UNRELIABLE_SECONDS = float(os.environ.get("TRIKUBELET_LIVE_UNRELIABLE_SECONDS", "150"))
JUMP_SECONDS = 7200
NOTICED_SECONDS = 75.0
"""More than the 50 s after which a cluster gives a silent node up."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + UNRELIABLE_SECONDS)]


def all_ready(now: Objects, count: int) -> bool:
    return len(now) == count and all(map(is_ready, now.values()))


def restarts(changes: Iterable[Change]) -> int:
    """Of all containers of all pods there were."""
    return sum(
        one["restartCount"] for change in changes for one in change.object["status"].get("containerStatuses", ())
    )


def test_requests_that_fail_or_hang_cost_the_node_nothing_but_time(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    kubectl = control_plane.kubectl
    agent = ClusterAgent(containerd2, control_plane)
    with UnreliableDoor(control_plane, agent.name, fails=0.05, hangs=0.02, seed=5) as door:
        agent.words.append(f"--kubeconfig={door.kubeconfig}")
        with agent:
            agent.wait_ready(150)
            kubectl("create", "deployment", "web", f"--image={images.WEB}", "--replicas=3")
            until = time.monotonic() + UNRELIABLE_SECONDS
            with agent.watch(NODES) as nodes, agent.watch(PODS) as pods:
                while time.monotonic() < until:
                    for replicas in (8, 3):
                        kubectl("scale", "deployment", "web", f"--replicas={replicas}")
                        pods.wait(lambda now, n=replicas: all_ready(now, n), f"{replicas} run", 150, agent.story)
                kubectl("delete", "deployment", "web")
                pods.wait(lambda now: not now, "all are gone", 150, agent.story)
                assert {"True"} == {condition(change.object, "Ready") for change in nodes.changes}
                assert 0 == restarts(pods.changes)
        assert min(door.done["failed"], door.done["hung"]) >= 3, door.done


class ShiftedAgent(ClusterAgent):
    """The agent as a process whose clock a test moves."""

    def shift(self, seconds: float) -> None:
        """From now on its clock is so much ahead of the machine's."""
        beside = self.directory / "shift.new"
        beside.write_text(str(seconds))
        beside.rename(self.directory / "shift")

    def _command(self) -> list[str]:
        command = super()._command()
        assert [sys.executable, "-m", "trikubelet"] == command[:3]
        return [sys.executable, str(Path(shifted.__file__)), str(self.directory / "shift"), *command[3:]]


def test_a_clock_that_jumps_by_hours_and_back_costs_the_node_nothing(
    control_plane: ControlPlane, containerd2: Containerd
) -> None:
    kubectl = control_plane.kubectl
    agent = ShiftedAgent(containerd2, control_plane)
    agent.shift(0)
    with agent:
        agent.wait_ready()
        agent.put(pod("static", container("s", "serve", "8080")))
        kubectl("create", "deployment", "web", f"--image={images.WEB}", "--replicas=2")
        with agent.watch(NODES) as nodes, agent.watch(PODS) as pods, agent.watch(LEASES) as leases:
            pods.wait(lambda now: all_ready(now, 3), "three pods run", 60, agent.story)
            before = containerd2.tasks()
            for replicas, ahead in ((4, JUMP_SECONDS), (3, 0)):
                agent.shift(ahead)
                kubectl("scale", "deployment", "web", f"--replicas={replicas}")
                pods.wait(lambda now, n=replicas: all_ready(now, n + 1), f"{replicas} run", 90, agent.story)
                time.sleep(15 if ahead else NOTICED_SECONDS)  # the time is what is tested
            assert {"True"} == {condition(change.object, "Ready") for change in nodes.changes}
            assert 0 == restarts(pods.changes)
            assert len(before.items() & containerd2.tasks().items()) >= 2  # the static pod, at least, with its sandbox
            arrivals = [change.when for change in leases.changes]
            assert max(after - then for then, after in pairwise(arrivals)) < 20
