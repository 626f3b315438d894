"""Writes docs/benchmarks.md out of the results of a run.

    python packaging/generate_benchmarks.py [--check]

The results are bench/results/relist.json, as `make bench-relist` measures them. ``--check`` compares and ends with 1
when the page is not what they say. Results by earlier rules make a page that says so.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trikubelet.benchmark.report import EARLIER_RULES, page
from trikubelet.benchmark.results import read_run

HERE = Path(__file__).resolve().parent.parent
RESULTS = HERE / "bench" / "results" / "relist.json"
PAGE = HERE / "docs" / "benchmarks.md"


def main() -> int:
    """Write, or compare; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    asked = parser.parse_args()
    wanted = page(read_run(RESULTS, oldest=min(EARLIER_RULES)))
    if not asked.check:
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    sys.stderr.write("docs/benchmarks.md is not what its results say: run packaging/generate_benchmarks.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
