"""An agent in one file is replaced by a later version as the packages do it, while its node is busy.

The unit's way: the file is renamed into place, the agent gets SIGTERM, the new file is started. The witnesses are
containerd, by its processes, and watches kept from before the upgrade until after it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from live.kit import images, packages
from live.kit.cluster_agent import LEASES, NODES, PODS, ClusterAgent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod
from live.kit.watched import condition, is_ready

if TYPE_CHECKING:
    from pathlib import Path

    from live.kit.containerd import Containerd
    from live.kit.control_plane import ControlPlane
    from live.kit.watched import Objects

pytestmark = pytest.mark.slow

STEADY, COMING = 15, 5


def test_an_upgrade_under_load_keeps_every_container_and_the_node_ready(
    control_plane: ControlPlane, containerd2: Containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIV_ROOT", str(tmp_path / "unpacked"))
    monkeypatch.setenv("SHIV_COMPILE_PYC", "1")
    installed, later = tmp_path / "trikubelet", tmp_path / "later"
    for file in (installed, later):
        shutil.copy(packages.single_file(), file)
    packages.make_later(later)
    kubectl = control_plane.kubectl

    class Installed(ClusterAgent):
        # Isolated, so that what this test run has imported is not what is tested.
        program = (sys._base_executable, "-I", str(installed))  # type: ignore[attr-defined]

    subprocess.run([*Installed.program, "--version"], check=True)  # unpacks it: no start is to wait for that

    def version(now: Objects) -> str:
        return str(now[agent.name]["status"]["nodeInfo"]["kubeletVersion"])

    with Installed(containerd2, control_plane) as agent:
        agent.wait_ready()
        with agent.watch(NODES) as nodes, agent.watch(LEASES) as leases, agent.watch(PODS) as pods:
            kubectl("create", "deployment", "steady", f"--image={images.WEB}", f"--replicas={STEADY}")
            agent.put(pod("static", container("s", "serve", "8080")))
            before = pods.wait(lambda now: _ready(now, STEADY + 1), "all run", 150, agent.story)
            running = containerd2.tasks()
            first = version(nodes.now)

            kubectl("create", "deployment", "coming", f"--image={images.WEB}", f"--replicas={COMING}")
            await_that(lambda: len(pods.now) > STEADY + 1, 60, agent.story)  # their start is under way
            later.rename(installed)
            subprocess.run([*Installed.program, "--version"], check=True)  # as an installation does
            told = datetime.now(UTC)
            assert 0 == agent.stop(), agent.story()
            agent.start()
            away = datetime.now(UTC) - told

            now = pods.wait(lambda now: _ready(now, STEADY + 1 + COMING), "the others run", 150, agent.story)
            nodes.wait(lambda now: packages.LATER in version(now), "the node tells its version", 60, agent.story)
            heartbeats = len(leases.changes)
            await_that(lambda: len(leases.changes) > heartbeats, 60, agent.story)

            assert packages.LATER not in first
            assert running.items() <= containerd2.tasks().items()
            assert {name: _started(before[name]) for name in before} == {name: _started(now[name]) for name in before}
            assert {0} == {
                one["restartCount"] for found in now.values() for one in found["status"]["containerStatuses"]
            }
            assert {"True"} == {
                condition(change.object, "Ready") for change in nodes.changes if _has_spoken(change.object)
            }
            renewed = [datetime.fromisoformat(change.object["spec"]["renewTime"]) for change in leases.changes]
            gap = max(later - earlier for earlier, later in pairwise(renewed)).total_seconds()
            print(f"SIGTERM to an answer: {away.total_seconds():.1f} s; heartbeats {gap:.1f} s apart at most")


def _ready(now: Objects, count: int) -> bool:
    return len(now) == count and all(map(is_ready, now.values()))


def _started(found: dict[str, object]) -> list[object]:
    return [(one["containerID"], one["state"]["running"]["startedAt"]) for one in found["status"]["containerStatuses"]]


def _has_spoken(node: dict[str, object]) -> bool:
    return bool(condition(node, "Ready"))
