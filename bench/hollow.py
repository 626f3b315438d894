"""What a hollow node costs, on a real control plane: results/hollow.json and results/hollow.md.

    PYTHONPATH=tests python bench/hollow.py [--nodes 1,100] [--pods 10] [--seconds 60]

Each number of nodes is one `trikubelet hollow` process, beside the control plane of the live tests on the same machine.
It is measured when all nodes are Ready and nothing happens, and again when each has pods that run and nothing happens:
resident memory and processor time of the process, all of it, over the number of nodes. Upstream asks 0.1 cores and 220
MB for each hollow node (kubemark); those are its published figures, and were not measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from live.kit.control_plane import ControlPlane
from processes import cpu_seconds, rss_bytes, wait_until

RESULTS = Path(__file__).parent / "results"
SETTLE_SECONDS = 20.0
TOGETHER = 50
"""So many pods are made at once, as a scheduler's pace would be."""
UPSTREAM = {"cores": 0.1, "mb": 220}


def measure(plane: ControlPlane, nodes: int, pods: int, seconds: float) -> dict[str, Any]:
    """Both states of one process with that many nodes."""
    command = [sys.executable, "-m", "trikubelet", "hollow", f"--nodes={nodes}", f"--kubeconfig={plane.kubeconfig}"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _count(plane, "nodes", " Ready ") == nodes, f"{nodes} nodes are Ready", 0.5)
            ready = time.monotonic() - began
            idle = _cost(process.pid, nodes, seconds)
            began = time.monotonic()
            for first in range(0, nodes * pods, TOGETHER):
                numbers = range(first, min(first + TOGETHER, nodes * pods))
                plane.kubectl("create", "-f-", manifests=_pods(nodes, numbers), seconds=120)
                wait_until(lambda: _count(plane, "pods", " Running ") >= numbers.stop, "all pods run", 0.5)  # noqa: B023
            running = time.monotonic() - began
            full = _cost(process.pid, nodes, seconds)
        finally:
            process.send_signal(signal.SIGTERM)
    plane.clear()
    times = {"all_ready_s": round(ready, 1), "all_running_s": round(running, 1)}
    return {"nodes": nodes, **times, "exit_code": process.returncode, "0": idle, str(pods): full}


def _cost(pid: int, nodes: int, seconds: float) -> dict[str, float]:
    time.sleep(SETTLE_SECONDS)
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    cores = (cpu_seconds(pid) - before) / (time.monotonic() - began)
    memory = rss_bytes(pid) / 1e6
    return {
        "process_mb": round(memory, 1),
        "process_cores": round(cores, 3),
        "node_mb": round(memory / nodes, 2),
        "node_cores": round(cores / nodes, 5),
    }


def _count(plane: ControlPlane, what: str, state: str) -> int:
    """How many there are in a state, as kubectl writes it."""
    return plane.kubectl("get", what, "--no-headers", "--ignore-not-found").count(state)


def _pods(nodes: int, numbers: range) -> dict[str, Any]:
    items = []
    for number in numbers:
        spec = {
            "nodeName": f"hollow-{number % nodes}",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
        }
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def table(results: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    lines = ["| Nodes in one process | Pods on each | Memory a node | Cores a node | Memory in all | Cores in all |"]
    lines.append("|---|---|---|---|---|---|")
    for run in results["runs"]:
        for pods in ("0", str(results["pods"])):
            one = run[pods]
            cells = [run["nodes"], pods, f"{one['node_mb']:.1f} MB", f"{one['node_cores']:.4f}"]
            cells += [f"{one['process_mb']:.0f} MB", f"{one['process_cores']:.2f}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines.append(f"| upstream, published | | {UPSTREAM['mb']} MB | {UPSTREAM['cores']} | | |")
    machine = results["machine"]
    lines += [
        "",
        f"{machine['cpus']} processors, Python {machine['python']}, {machine['kernel']}; the control plane ran",
    ]
    lines[-1] += f" beside it, and the load at the end was {machine['load']}."
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1,100", help="of each run (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=10, help="on each node, at the end (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement (default: %(default)s)")
    words = parser.parse_args()
    with ControlPlane() as plane:
        runs = [measure(plane, int(nodes), words.pods, words.seconds) for nodes in words.nodes.split(",")]
    load = round(os.getloadavg()[1], 1)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "kernel": platform.release(), "load": load}
    results = {"machine": machine, "upstream_published": UPSTREAM, "pods": words.pods, "runs": runs}
    (RESULTS / "hollow.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "hollow.md").write_text(table(results))
    sys.stdout.write(table(results))


if __name__ == "__main__":
    main()
