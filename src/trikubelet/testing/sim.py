"""The simulation's driver: many lives on every processor, and a failing one told to the last call.

    python -m trikubelet.testing.sim --seeds 10000          that many seeds, from 0
    python -m trikubelet.testing.sim --seeds 500 --random   from a seed nobody has chosen; it is printed
    python -m trikubelet.testing.sim --seed 7               one seed, with its trace

The last line says how many seeds held; the exit code is 1 unless all did. The first seed that failed is lived once more
for its trace.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
from typing import TYPE_CHECKING, NamedTuple

from trikubelet.testing.simulation import run_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SEEDS_TOLD_MAX = 20
SEEDS_RANDOM_MAX = 2**31
SEEDS_PER_TASK = 16


class _Result(NamedTuple):
    seed: int
    violations: tuple[str, ...]
    lived_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; the exit code."""
    asked = _parse(arguments)
    if asked.seed is not None:
        return _tell(asked.seed)
    first = random.SystemRandom().randrange(SEEDS_RANDOM_MAX) if asked.random else asked.first
    if asked.random:
        print(f"seeds {first} to {first + asked.seeds - 1}", flush=True)
    failed: list[int] = []
    lived_seconds = 0.0
    for result in _live_all(range(first, first + asked.seeds), asked.processes):
        lived_seconds += result.lived_seconds
        if result.violations:
            failed.append(result.seed)
            if len(failed) <= SEEDS_TOLD_MAX:
                print(f"seed {result.seed}: {result.violations[0]}", flush=True)
    if failed:
        print(f"\nthe trace of seed {min(failed)}; it replays with --seed {min(failed)}:\n")
        _tell(min(failed))
    held = asked.seeds - len(failed)
    print(f"{held} of {asked.seeds} seeds held ({lived_seconds / 3600:.1f} simulated hours)")
    return 1 if failed else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sim", description="Simulate whole nodes from seeds.")
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many seeds (1000)")
    parser.add_argument("--first", type=int, default=0, metavar="F", help="the first seed (0)")
    parser.add_argument("--random", action="store_true", help="begin with a random seed instead")
    parser.add_argument("--seed", type=int, metavar="S", help="live this seed alone and print its trace")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="P", help="processes to use")
    return parser.parse_args(arguments)


def _tell(seed: int) -> int:
    outcome = run_node(seed, trace=True)
    for line in outcome.trace:
        print(line)
    for violation in outcome.violations:
        print(f"seed {seed} did not hold: {violation}")
    if outcome.held:
        print(f"seed {seed} held: {outcome.lived_seconds:.0f} s were lived in {outcome.steps} steps")
    return 0 if outcome.held else 1


def _live_all(seeds: range, processes: int) -> Iterable[_Result]:
    # Spawned, not forked: whatever this process runs besides stays out of the lives.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_live, seeds, chunksize=SEEDS_PER_TASK)


def _live(seed: int) -> _Result:
    outcome = run_node(seed)
    return _Result(seed, outcome.violations, outcome.lived_seconds)


if __name__ == "__main__":
    sys.exit(main())
