"""Which seeds find a rule broken on purpose: to choose ``plantkit.LIKELY`` anew, and to see what a change did to it.

    PYTHONPATH=tests python -m simulation.found_by                        all breaks, the first 60 seeds
    PYTHONPATH=tests python -m simulation.found_by --seeds 200 no_back_off a_kept_ghost

One line for each break: how many of the seeds find it, and which; then how many fail for something else.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
from collections import defaultdict
from typing import NamedTuple

import pytest

from simulation import test_member_seeds, test_seeds
from trikubelet.testing.member_simulation import run_member_life
from trikubelet.testing.simulation import run_node

BREAKS = {
    plant.__name__.removeprefix("plant_"): (plant, found, run)
    for breaks, run in ((test_seeds.BREAKS, run_node), (test_member_seeds.BREAKS, run_member_life))
    for plant, found in breaks
}
SEEDS_SHOWN_MAX = 12


class _Life(NamedTuple):
    name: str
    seed: int


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="found_by", description="Which seeds find a rule broken on purpose.")
    parser.add_argument("--seeds", type=int, default=60, metavar="N", help="how many seeds, from 0 (60)")
    parser.add_argument("breaks", nargs="*", metavar="BREAK", help=f"of {', '.join(BREAKS)}; all of them")
    asked = parser.parse_args()
    if unknown := set(asked.breaks) - set(BREAKS):
        parser.error(f"no such break: {', '.join(sorted(unknown))}")
    names = asked.breaks or list(BREAKS)
    lives = [_Life(name, seed) for name in names for seed in range(asked.seeds)]
    found, others = defaultdict[str, list[int]](list), defaultdict[str, int](int)
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for life, violations in pool.imap_unordered(_live, lives, chunksize=8):
            if any(BREAKS[life.name][1] in violation for violation in violations):
                found[life.name].append(life.seed)
            elif violations:
                others[life.name] += 1
    for name in names:
        seeds = sorted(found[name])
        more = " …" if len(seeds) > SEEDS_SHOWN_MAX else ""
        print(f"{name}: {len(seeds)} of {asked.seeds}: {seeds[:SEEDS_SHOWN_MAX]}{more}, others: {others[name]}")


def _live(life: _Life) -> tuple[_Life, tuple[str, ...]]:
    plant, _, run = BREAKS[life.name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        logging.getLogger("trikubelet").disabled = False
        return life, run(life.seed).violations


if __name__ == "__main__":
    main()
