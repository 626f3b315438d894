"""The merge of hints on every known machine: results/hints.json and results/hints.md.

    PYTHONPATH=tests python bench/hints.py [--repeats 20]

Four resources give hints, each with every set of NUMA nodes and none of them preferred in common, so that the search
ends at the last step (policy best-effort). Upstream tries each combination of hints: 255 to the power of four on eight
nodes. The time of making the hints of CPUs is measured, too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.machines import KNOWN
from trikubelet.core.cpus.hints import cpu_hints
from trikubelet.core.cpus.layout import layout
from trikubelet.core.cpus.state import CpuRules
from trikubelet.core.topology.hints import Hint, mask_of, node_sets
from trikubelet.core.topology.merge import closest_first, merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.core.topology.hints import Hints
    from trikubelet.model.machine import Machine

RESULTS = Path(__file__).parent / "results"
RESOURCES = 4


def milliseconds(measured: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        measured()
        times.append(time.perf_counter() - began)
    return round(statistics.median(times) * 1e3, 3)


def without_agreement(machine: Machine) -> list[Hints]:
    """Return the hints of four resources: every set of nodes, of which each resource prefers another size."""
    sets = list(node_sets(machine.numa_nodes))
    sizes = range(len(machine.numa_nodes), 0, -1)
    preferred = [sizes[place % len(sizes)] for place in range(RESOURCES)]
    return [tuple(Hint(mask_of(nodes), len(nodes) == size) for nodes in sets) for size in preferred]


def measured(machine: Machine, repeats: int) -> dict[str, float]:
    """Return the figures of one machine."""
    answers = without_agreement(machine)
    nodes = closest_first(machine.numa_nodes)
    rules = CpuRules(layout(machine), frozenset())
    return {
        "cpus": len(machine.cpus),
        "numa_nodes": len(machine.numa_nodes),
        "merge_ms": milliseconds(lambda: merge(answers, nodes), repeats),
        "cpu_hints_ms": milliseconds(lambda: cpu_hints(rules, rules.layout.cpus, 2), repeats),
    }


def table(machines: dict[str, dict[str, float]]) -> str:
    """The results as a Markdown table."""
    lines = ["| Machine | CPUs | NUMA nodes | merge | hints of CPUs |", "|---|---|---|---|---|"]
    for name, one in machines.items():
        cells = (name, one["cpus"], one["numa_nodes"], f"{one['merge_ms']} ms", f"{one['cpu_hints_ms']} ms")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    wanted = "Wanted: a merge in at most 5 ms on eight nodes."
    return "\n".join([*lines, "", f"{wanted} {os.cpu_count()} processors, Python {platform.python_version()}.", ""])


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    words = parser.parse_args()
    machines = {name: measured(machine, words.repeats) for name, machine in KNOWN.items()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "hints.json").write_text(json.dumps(machines, indent=1) + "\n")
    (RESULTS / "hints.md").write_text(table(machines))
    sys.stdout.write(table(machines))


if __name__ == "__main__":
    main()
