"""The simulation's driver: many simulations on every processor, and the full trace of a failing one.

    python -m trikubelet.testing.sim --seeds 10000              that many seeds, from 0
    python -m trikubelet.testing.sim --seeds 500 --random       from a random seed; it is printed
    python -m trikubelet.testing.sim --seed 7 --life member     one seed, with its trace

Of each seed there are two simulations ("lives"): of a node by itself, and of a member of a cluster. Both are run unless
``--life`` names one. The last line has how many held; the exit code is 1 unless all did. The first that failed is run
once more for its trace.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.testing.member_simulation import run_member_life
from trikubelet.testing.simulation import run_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trikubelet.testing.simulation import LiveIt

LIVES: Final[Mapping[str, LiveIt]] = {"node": run_node, "member": run_member_life}

SEEDS_SHOWN_MAX = 20
SEEDS_RANDOM_MAX = 2**31
LIVES_PER_TASK = 16


class _Life(NamedTuple):
    seed: int
    kind: str


class _Result(NamedTuple):
    life: _Life
    violations: tuple[str, ...]
    lived_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    asked = _parse(arguments)
    kinds = [asked.life] if asked.life else list(LIVES)
    if asked.seed is not None:
        return max([_print_trace(_Life(asked.seed, kind)) for kind in kinds])
    first = random.SystemRandom().randrange(SEEDS_RANDOM_MAX) if asked.random else asked.first
    if asked.random:
        print(f"seeds {first} to {first + asked.seeds - 1}", flush=True)
    lives = [_Life(seed, kind) for seed in range(first, first + asked.seeds) for kind in kinds]
    failed: list[_Life] = []
    lived_seconds = 0.0
    for result in _live_all(lives, asked.processes):
        lived_seconds += result.lived_seconds
        if result.violations:
            failed.append(result.life)
            if len(failed) <= SEEDS_SHOWN_MAX:
                print(f"seed {result.life.seed} ({result.life.kind}): {result.violations[0]}", flush=True)
    if failed:
        seed, kind = min(failed)
        print(f"\nthe trace of seed {seed}; it replays with --seed {seed} --life {kind}:\n")
        _print_trace(min(failed))
    held = len(lives) - len(failed)
    print(f"{held} of {len(lives)} lives of {asked.seeds} seeds held ({lived_seconds / 3600:.1f} simulated hours)")
    return 1 if failed else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sim", description="Simulate whole nodes from seeds.")
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many seeds (1000)")
    parser.add_argument("--first", type=int, default=0, metavar="F", help="the first seed (0)")
    parser.add_argument("--random", action="store_true", help="begin with a random seed instead")
    parser.add_argument("--seed", type=int, metavar="S", help="live this seed alone and print its trace")
    parser.add_argument("--life", choices=sorted(LIVES), help="which of a seed's lives (both)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="P", help="processes to use")
    return parser.parse_args(arguments)


def _print_trace(life: _Life) -> int:
    seed, kind = life
    outcome = LIVES[kind](seed, trace=True)
    for line in outcome.trace:
        print(line)
    for violation in outcome.violations:
        print(f"seed {seed} ({kind}) did not hold: {violation}")
    if outcome.held:
        print(f"seed {seed} ({kind}) held: {outcome.lived_seconds:.0f} s were lived in {outcome.steps} steps")
    return 0 if outcome.held else 1


def _live_all(lives: Sequence[_Life], processes: int) -> Iterable[_Result]:
    # Spawned, not forked: other threads of this process stay out of the simulations.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_live, lives, chunksize=LIVES_PER_TASK)


def _live(life: _Life) -> _Result:
    outcome = LIVES[life.kind](life.seed)
    return _Result(life, outcome.violations, outcome.lived_seconds)


if __name__ == "__main__":
    sys.exit(main())
