"""The benchmarks of the whole agent, as `make bench` runs them: results/agent.json and results/agent.md.

    python bench/run.py [--idle-seconds 60] [--starts 5] [--pods-one-by-one 20]

Each figure stands beside what is wanted of it; none is a test. The agent is the real process on
`trikubelet fake-runtime`, which answers in a fraction of a millisecond, so what is measured is the agent: from exec to
the first complete relist, from a written manifest to a started container less the time its CRI calls took, and memory
and processor time while 0, 50 and 110 pods run and nothing changes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from processes import AgentProcess, FakeRuntimeProcess, wait_until

RESULTS = Path(__file__).parent / "results"
SETTLE_SECONDS = 5.0


def first_relist_seconds() -> float:
    """From exec of the agent's process to the end of its first ListContainers."""
    with tempfile.TemporaryDirectory() as place, FakeRuntimeProcess(Path(place)) as runtime:

        def listed() -> list[int]:
            return [call["ended"] for call in runtime.calls() if call["method"] == "ListContainers"]

        with AgentProcess(Path(place), runtime) as agent:
            wait_until(lambda: bool(listed()), "the first relist")
            return (listed()[0] - agent.began) / 1e9


def start_overheads(count: int) -> list[float]:
    """For pods put one after another: seconds from the manifest to the end of StartContainer, less those its own CRI
    calls took until then."""
    with (
        tempfile.TemporaryDirectory() as place,
        FakeRuntimeProcess(Path(place)) as runtime,
        AgentProcess(Path(place), runtime) as agent,
    ):
        wait_until(lambda: any(call["method"] == "ListContainers" for call in runtime.calls()), "the first relist")
        time.sleep(SETTLE_SECONDS)
        return [_overhead_of(agent, runtime, f"pod-{number}", number + 1) for number in range(count)]


def _overhead_of(agent: AgentProcess, runtime: FakeRuntimeProcess, name: str, count: int) -> float:
    known = {call["pod"] for call in runtime.calls()}
    written = agent.put(name)
    wait_until(lambda: agent.running() == count, f"{name} runs")
    mine = [call for call in runtime.calls() if call["pod"] and call["pod"] not in known]
    started = next(call["ended"] for call in mine if call["method"] == "StartContainer")
    in_calls = sum(call["ended"] - call["began"] for call in mine if call["ended"] <= started)
    return float(started - written - in_calls) / 1e9


def idle(pods: int, seconds: float) -> dict[str, float]:
    """Resident memory in MB and processor seconds per minute while that many pods run unchanged."""
    with (
        tempfile.TemporaryDirectory() as place,
        FakeRuntimeProcess(Path(place)) as runtime,
        AgentProcess(Path(place), runtime) as agent,
    ):
        for number in range(pods):
            agent.put(f"pod-{number}")
        wait_until(lambda: agent.running() == pods and bool(runtime.calls()), f"{pods} pods run", 0.5)
        time.sleep(SETTLE_SECONDS)
        before = agent.cpu_seconds()
        time.sleep(seconds)
        used = agent.cpu_seconds() - before
        return {"rss_mb": round(agent.rss_bytes() / 1e6, 1), "cpu_s_per_min": round(used * 60 / seconds, 2)}


def table(results: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    rows = [
        ("exec to the first relist, median", f"{results['first_relist_s']['median']:.2f} s", "< 1 s"),
        (
            "manifest to started container, over its CRI calls, p50",
            f"{results['start_overhead_s']['p50'] * 1e3:.0f} ms",
            "≤ 150 ms",
        ),
        ("the same, p90", f"{results['start_overhead_s']['p90'] * 1e3:.0f} ms", ""),
    ]
    wanted = {"0": ("≤ 70 MB", ""), "110": ("≤ 85 MB", "≤ 1 s")}
    for pods, one in results["idle"].items():
        memory, cpu = wanted.get(pods, ("", ""))
        rows.append((f"resident memory, {pods} pods", f"{one['rss_mb']} MB", memory))
        rows.append((f"processor time a minute, {pods} idle pods", f"{one['cpu_s_per_min']} s", cpu))
    lines = ["| What | Measured | Wanted |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c in rows)]
    machine = results["machine"]
    return "\n".join(
        [*lines, "", f"{machine['cpus']} processors, Python {machine['python']}, {machine['kernel']}.", ""]
    )


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--pods-one-by-one", type=int, default=20)
    words = parser.parse_args()
    first_relist_seconds()  # the first one pays for files the kernel has not read yet
    relists = [first_relist_seconds() for _ in range(words.starts)]
    overheads = start_overheads(words.pods_one_by_one)
    results = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "kernel": platform.release()},
        "first_relist_s": {"median": statistics.median(relists), "all": relists},
        "start_overhead_s": {
            "p50": statistics.median(overheads),
            "p90": statistics.quantiles(overheads, n=10)[-1],
            "all": overheads,
        },
        "idle": {str(pods): idle(pods, words.idle_seconds) for pods in (0, 50, 110)},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "agent.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "agent.md").write_text(table(results))
    sys.stdout.write(table(results))


if __name__ == "__main__":
    main()
