"""Upstream's own end-to-end suite, as upstream has it, on a cluster whose one node is the agent under test.

    control plane ─► containerd ─► loopback registry ─► agent Ready ─► ginkgo e2e.test ─► report.json

Called by ``conformance.py``. The programs are built by ``packaging/control-plane/build.sh --conformance``, and nothing
of them is changed. The cluster has neither kube-proxy nor a DNS server, and one node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from . import instance, places, suite_images
from .cluster_agent import ClusterAgent
from .containerd import Containerd, newer
from .control_plane import ControlPlane
from .registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

HOURS_MAX = 2


def run(focus: str, skip: str, processes: int, kept: Path) -> list[dict[str, Any]]:
    """What became of every spec, as ginkgo's report has it; also of those that ``focus`` does not name, or ``skip``
    does. ``processes`` run side by side. In ``kept`` remain the report and the agent's log. Raises NotInstalled, and
    RuntimeError where the suite made no report."""
    programs = places.conformance()
    kept.mkdir(parents=True, exist_ok=True)
    report = kept / "ginkgo" / "report.json"
    report.unlink(missing_ok=True)
    instance.sweep_abandoned()
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        containerd = stack.enter_context(closing(Containerd(*newer())))
        registry = stack.enter_context(Registry(suite_images.archive(programs)))
        containerd.trust(registry.address, suite_images.REGISTRY)
        agent = ClusterAgent(containerd, plane)
        stack.callback(lambda: shutil.copy(agent.log_path, kept / "agent.log"))
        stack.enter_context(agent)
        agent.wait_ready()
        ginkgo = [
            programs / "ginkgo",
            f"--procs={processes}",
            f"--timeout={HOURS_MAX}h",
            f"--focus={focus}",
            f"--skip={skip}",
            "--no-color",
            programs / "e2e.test",
            "--",
            "--provider=skeleton",
            f"--kubeconfig={plane.kubeconfig}",
            f"--kubectl-path={plane.programs / 'kubectl'}",
            f"--kubelet-root-dir={agent.root}",
            f"--report-dir={kept}",
            "--report-complete-ginkgo",
            "--disable-log-dump",
        ]
        subprocess.run(ginkgo, check=False, cwd=kept, env={**os.environ, "HOME": str(kept)})
    if not report.exists():
        raise RuntimeError("the suite made no report; what it said is above")
    [suite] = json.loads(report.read_text())
    return [spec for spec in suite["SpecReports"] if spec["LeafNodeType"] == "It"]
