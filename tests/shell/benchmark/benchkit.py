"""Made-up results, and a peer that answers at once, for the tests of the benchmark."""

from __future__ import annotations

import sys

from trikubelet.benchmark.grid import Cell, Crowd, Mode
from trikubelet.benchmark.lineup import Peer
from trikubelet.benchmark.machine import Machine
from trikubelet.benchmark.results import CellResult, Memory, Round, Run, Showing

MACHINE = Machine(2, "a processor", 4 << 30, "6.1", "3.11")

ANSWERING = """
import json, sys
relists = 0
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "memory":
        answer = {"heap_bytes": 10, "rss_bytes": 20, "peak_rss_bytes": 30 + relists}
    elif asked["do"] == "forget":
        answer = 0
    else:
        relists += 1
        answer = {"wall_ns": relists, "cpu_ns": relists, "events": 0, "error": None, "of_no_interest": 1}
        if asked.get("count"):
            answer |= {"allocs": 7, "alloc_bytes": 9}
    print(json.dumps(answer), flush=True)
"""

ENDING = """
import sys
sys.stdin.readline()
sys.exit("I have had enough")
"""

SILENT = "import sys; sys.stdin.read()"


def program(name: str, source: str) -> Peer:
    """A peer that is this Python program."""
    return Peer(name, (sys.executable, "-c", source))


def cell(pods: int = 110, mode: Mode = Mode.BYTES, churn: float = 0.01, **more: object) -> Cell:
    """A cell with two containers a pod."""
    return Cell(Crowd(pods, 2, mode), churn, **more)  # type: ignore[arg-type]  # a table of words


def showing(*milliseconds: int, **more: object) -> Showing:
    """A peer that took so long, in wall and processor time."""
    rounds = [Round(wall_ns=ms * 10**6, cpu_ns=ms * 10**6, events=0) for ms in milliseconds]
    return Showing(rounds=rounds, memory=Memory(10**6, 2 * 10**6, 3 * 10**6), **more)  # type: ignore[arg-type]


def run_of(*results: CellResult, commit: str = "abc", version: str = "", trees: dict[str, str] | None = None) -> Run:
    """A run with these results."""
    began = "2026-01-01 00:00 UTC"
    return Run(
        commit=commit,
        trees=trees or {},
        version=version,
        began=began,
        seconds=1.0,
        machine=MACHINE,
        results=list(results),
    )
