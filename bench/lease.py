"""Whether a node's heartbeats stay on time while it is flooded with pods: results/lease.json and results/lease.md.

    PYTHONPATH=tests python bench/lease.py [--pods 500] [--quiet-seconds 45]

The agent, one process on the fake runtime, is a node of the live tests' control plane on the same machine. It rests,
then gets all pods at once until they run, then all are deleted until they are gone. Gaps between renewals of its lease
are those between their arrivals at a watch of the API server's; 10 s is the pace, 10.4 s with its jitter, 40 s the
end. Beside it stands the longest that its health endpoint, asked ten times a second, took to answer: the event loop
was never kept longer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live.kit.cluster_agent import LEASES, PODS
from live.kit.control_plane import ControlPlane
from live.kit.network import free_port
from live.kit.watched import Watched
from processes import cpu_seconds, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RESULTS = Path(__file__).parent / "results"
NODE = "flooded"
FLOOD_SECONDS_MAX = 600.0
BEATS_AFTER = 2
"""Renewals waited for after each phase, so that the one it delayed is seen."""


@dataclass
class Health:
    """Owns a thread that asks the agent how it is, and how long the answers took: when asked, seconds."""

    port: int
    answers: list[tuple[float, float]] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask until `end`."""
        while not self._ending.wait(0.1):
            began = time.time()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            except OSError:
                continue  # not there yet
            finally:
                connection.close()
            self.answers.append((began, time.time() - began))

    def end(self) -> None:
        """Ask no more."""
        self._ending.set()


@contextmanager
def running_agent(plane: ControlPlane, pods: int, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The agent as a node of its own certificate."""
    with tempfile.TemporaryDirectory() as root:
        command = [sys.executable, "-m", "trikubelet", f"--hostname-override={NODE}", f"--root-dir={root}"]
        command += [f"--kubeconfig={plane.node_kubeconfig(NODE)}", "--container-runtime-endpoint=fake:"]
        command += [f"--max-pods={pods + 10}", f"--healthz-port={port}"]
        with (Path(root) / "agent.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)


def measure(plane: ControlPlane, pods: int, quiet_seconds: float) -> dict[str, Any]:
    """All three phases."""
    health = Health(free_port())
    asking = threading.Thread(target=health.run, daemon=True)
    lease = f"{LEASES}?watch=1&fieldSelector=metadata.name={NODE}"
    with ExitStack() as ending:
        process = ending.enter_context(running_agent(plane, pods, health.port))
        leases = ending.enter_context(Watched(plane.kubectl.command("get", "--raw", lease)))
        asking.start()
        ending.callback(health.end)
        wait_until(
            lambda: " Ready " in plane.kubectl("get", "nodes", "--no-headers", "--ignore-not-found"), "Ready", 0.5
        )
        phases = {}

        def phase(name: str, work: Any) -> None:
            beats(leases, 1)
            began, used = time.time(), cpu_seconds(process.pid)
            work()
            took, used = time.time() - began, cpu_seconds(process.pid) - used
            beats(leases, BEATS_AFTER)
            phases[name] = {"took_s": took, "cores": used / took, **found(leases, health, began)}

        phase("rest", lambda: time.sleep(quiet_seconds))
        with Watched(plane.kubectl.command("get", "--raw", f"{PODS}?watch=1")) as watched:
            phase(f"{pods} pods start", lambda: start(plane, watched, pods))
            phase(f"{pods} pods end", lambda: end(plane, watched))
        assert process.poll() is None, "the agent ended"
    return phases


def beats(leases: Watched, count: int) -> None:
    """Wait for so many renewals more."""
    wanted = len(leases.changes) + count
    leases.wait(lambda _: len(leases.changes) >= wanted, f"{count} heartbeats", 120)


def start(plane: ControlPlane, watched: Watched, pods: int) -> None:
    """All at once, until all run."""
    spec = {
        "nodeName": NODE,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "registry.example/app:1"}],
    }
    items = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec}
        for number in range(pods)
    ]
    plane.kubectl("create", "-f-", manifests={"apiVersion": "v1", "kind": "List", "items": items}, seconds=300)
    watched.wait(
        lambda now: len(now) == pods and all(one["status"].get("phase") == "Running" for one in now.values()),
        "all pods run",
        FLOOD_SECONDS_MAX,
    )


def end(plane: ControlPlane, watched: Watched) -> None:
    """All at once, until all are gone."""
    plane.kubectl("delete", "pods", "--all", "--wait=false", seconds=300)
    watched.wait(lambda now: not now, "all pods are gone", FLOOD_SECONDS_MAX)


def found(leases: Watched, health: Health, since: float) -> Mapping[str, Any]:
    """Of one phase: the gaps between renewals that end in it, and the slowest answer about health, in seconds."""
    times = [change.when for change in leases.changes]
    gaps = [after - before for before, after in pairwise(times) if after >= since]
    return {"gaps_s": gaps, "slowest_answer_s": max(took for began, took in health.answers if began >= since)}


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["| | took | renewals | longest gap | wanted | slowest answer | cores |", "|---|---|---|---|---|---|---|"]
    for name, one in results["phases"].items():
        cells = [name, f"{one['took_s']:.0f} s", len(one["gaps_s"]), f"{max(one['gaps_s']):.2f} s", "≤ 15 s"]
        cells += [f"{one['slowest_answer_s']:.2f} s", f"{one['cores']:.2f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    machine = results["machine"]
    lines += [
        "",
        f"{machine['cpus']} processors, Python {machine['python']}, {machine['kernel']}; the control plane ran",
    ]
    return "\n".join([*lines[:-1], lines[-1] + f" beside it, and the load at the end was {machine['load']}.", ""])


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=500, help="(default: %(default)s)")
    parser.add_argument("--quiet-seconds", type=float, default=45.0, help="of rest (default: %(default)s)")
    words = parser.parse_args()
    with ControlPlane() as plane:
        phases = measure(plane, words.pods, words.quiet_seconds)
    load = round(os.getloadavg()[0], 1)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "kernel": platform.release(), "load": load}
    results = {"machine": machine, "pods": words.pods, "phases": phases}
    (RESULTS / "lease.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "lease.md").write_text(table(results))
    sys.stdout.write(table(results))


if __name__ == "__main__":
    main()
