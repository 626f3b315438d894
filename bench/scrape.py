"""What scrapes cost the agent, and how long they keep it from everything else: results/scrape.json and scrape.md.

    sudo python bench/scrape.py [--pods 110] [--times 20]

The agent is the real process on `trikubelet fake-runtime`, which runs nothing; so this makes the cgroups that the pods'
sandboxes and containers would have, in the machine's own trees, and removes them at the end. They are empty, but the
kernel writes as many figures into their files as into any others. Each endpoint is asked once a second on the
read-only port. Its cost is the processor time of the agent's process over the same time at rest. How long others wait
is the longest that a question about health took that was under way meanwhile; the median over all scrapes, for one that
the machine kept waiting says nothing of the agent.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import AgentProcess, FakeRuntimeProcess, wait_until
from trikubelet.core.stats.cgroup_files import CONTROLLERS
from trikubelet.host.cgroups import MOUNTINFO, read_hierarchies

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parent / "results"
ENDPOINTS = (
    "/metrics",
    "/metrics/resource",
    "/metrics/cadvisor",
    "/stats/summary",
    "/stats/summary?only_cpu_and_memory=true",
)
EVERY_SECONDS = 1.1
"""A look is believed for a second: each question gets one of its own."""
SETTLE_SECONDS = 10.0
REST_SECONDS = 0.1
"""As long as a scrape takes, about, for comparing with rest."""
ROOT = f"trikubelet-bench-{os.getpid()}"


class Health:
    """Owns how long questions about health took, asked one after another over one connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ending = threading.Event()
        self.answers: list[tuple[float, float]] = []
        """When each question was asked and how long its answer took, in seconds."""

    def run(self) -> None:
        """Ask until ended."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._ending.wait(0.005):
            began = time.perf_counter()
            connection.request("GET", "/healthz/ping")
            connection.getresponse().read()
            self.answers.append((began, time.perf_counter() - began))

    def longest(self, began: float, ended: float) -> float:
        """Of the questions under way at some time between."""
        return max((took for at, took in self.answers if at < ended and at + took > began), default=0.0)

    def end(self) -> None:
        """Ask no more."""
        self._ending.set()


@contextmanager
def cgroups() -> Iterator[list[Path]]:
    """The trees, in which everything below ``ROOT`` is removed at the end."""
    trees = list(dict.fromkeys(read_hierarchies(MOUNTINFO, CONTROLLERS).of.values()))
    try:
        yield trees
    finally:
        for tree in trees:
            for directory, _, _ in os.walk(tree / ROOT, topdown=False):
                os.rmdir(directory)


def make_cgroups(trees: list[Path], agent: AgentProcess) -> int:
    """Those of all containers; how many there are."""
    made = 0
    for pod in agent.pods():
        place = Path(ROOT, "kubepods", "besteffort", f"pod{pod['metadata']['uid']}")
        ids = [one["containerID"].partition("://")[2] for one in pod["status"]["containerStatuses"]]
        for tree in trees:
            for id_ in (*ids, "sandbox"):
                (tree / place / id_).mkdir(parents=True, exist_ok=True)
        made += len(ids)
    return made


def ask(port: int, path: str) -> tuple[float, int]:
    """How long an answer took, in seconds, and its size."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    took = time.perf_counter() - began
    connection.close()
    assert answer.status == 200, f"{path}: {answer.status} {body[:200]!r}"
    return took, len(body)


def scrapes(port: int, path: str | None, times: int) -> tuple[list[tuple[float, float]], int]:
    """Ask so many times, or rest for as long: when each scrape began and ended, and the size of the last."""
    asked: list[tuple[float, float]] = []
    size = 0
    began = time.perf_counter()
    for number in range(times):
        at = time.perf_counter()
        if path is not None:
            _, size = ask(port, path)
        asked.append((at, time.perf_counter() if path else at + REST_SECONDS))
        time.sleep(max(0.0, began + (number + 1) * EVERY_SECONDS - time.perf_counter()))
    return asked, size


def measure(agent: AgentProcess, port: int, path: str | None, times: int) -> dict[str, float]:
    """An endpoint, or rest: first its cost, then, while health is asked for all the time, how long that takes."""
    used = agent.cpu_seconds()
    alone, size = scrapes(port, path, times)
    used = agent.cpu_seconds() - used
    health = Health(port)
    asking = threading.Thread(target=health.run, daemon=True)
    asking.start()
    asked, _ = scrapes(port, path, times)
    health.end()
    asking.join()
    return {
        "cpu_ms_each": used / times * 1e3,
        "took_ms": statistics.median(ended - began for began, ended in alone) * 1e3,
        "bytes": size,
        "longest_ms": statistics.median(longest := [health.longest(*one) * 1e3 for one in asked]),
        "longest_ms_max": max(longest),
    }


def run(pods: int, times: int) -> dict[str, dict[str, float]]:
    """All endpoints, and the rest they are compared with."""
    port = 10255
    with (
        tempfile.TemporaryDirectory() as place,
        FakeRuntimeProcess(Path(place)) as runtime,
        cgroups() as trees,
        AgentProcess(Path(place), runtime, readOnlyPort=port, cgroupsPerQOS=True, cgroupRoot=f"/{ROOT}") as agent,
    ):
        for number in range(pods):
            agent.put(f"pod-{number}")
        wait_until(lambda: agent.running() == pods, f"{pods} pods run", 0.5)
        assert make_cgroups(trees, agent) == pods
        for path in ENDPOINTS:
            ask(port, path)  # the first one loads the code
        time.sleep(SETTLE_SECONDS)
        rest = measure(agent, port, None, times)
        found = {"rest": rest}
        for path in ENDPOINTS:
            one = measure(agent, port, path, times)
            one["cpu_ms"] = one["cpu_ms_each"] - rest["cpu_ms_each"]
            found[path] = one
            sys.stderr.write(f"{path}: {one}\n")
        return found


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["| Endpoint | Processor, ms | Wanted | Others wait, ms | Wanted | Answered in, ms | KiB |"]
    lines.append("|---|---|---|---|---|---|---|")
    rest = results["endpoints"]["rest"]
    for path, one in results["endpoints"].items():
        if path != "rest":
            cells = [f"`{path}`", f"{one['cpu_ms']:.1f}", "≤ 50", f"{one['longest_ms']:.1f}", "≤ 20"]
            lines.append("| " + " | ".join([*cells, f"{one['took_ms']:.1f}", f"{one['bytes'] / 1024:.0f}"]) + " |")
    machine = results["machine"]
    return "\n".join(
        [
            *lines,
            "",
            f"{results['pods']} pods of one container. At rest the longest wait in {REST_SECONDS:g} s is "
            f"{rest['longest_ms']:.1f} ms. {machine['cpus']} processors, Python {machine['python']}, "
            f"{machine['kernel']}, load {machine['load'][0]} to {machine['load'][1]}.",
            "",
        ]
    )


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--times", type=int, default=20)
    words = parser.parse_args()
    load = os.getloadavg()[0]
    endpoints = run(words.pods, words.times)
    machine = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
    }
    results = {"machine": machine, "pods": words.pods, "endpoints": endpoints}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scrape.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "scrape.md").write_text(table(results))
    sys.stdout.write(table(results))


if __name__ == "__main__":
    main()
