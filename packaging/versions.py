"""Checks that the version of the project is the same in every file that states it.

    python packaging/versions.py

Prints the version. Ends with 1 and names each place where they differ. The packages, the single file and the agent take
theirs from ``src/trikubelet/__init__.py``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).resolve().parent.parent
PLACES: Final = (
    ("src/trikubelet/__init__.py", r'^__version__ = "(.+)"$'),
    ("pyproject.toml", r'^version = "(.+)"$'),
    ("rust/relist/Cargo.toml", r'^version = "(.+)"$'),
    ("Cargo.lock", r'^name = "relist"\nversion = "(.+)"$'),
)


def stated(top: Path = TOP) -> dict[str, str]:
    """The version in each place, and an empty one where it is missing."""
    found = {}
    for name, pattern in PLACES:
        matched = re.search(pattern, (top / name).read_text(), re.MULTILINE)
        found[name] = matched[1] if matched else ""
    return found


def disagreement(found: dict[str, str]) -> str:
    """What differs, or nothing."""
    if len(set(found.values())) == 1 and all(found.values()):
        return ""
    return ", ".join(f"{place} has {version or 'none'}" for place, version in found.items())


def main() -> int:
    """Compare; the exit code."""
    found = stated()
    if different := disagreement(found):
        sys.stderr.write(f"versions: the version is not the same everywhere: {different}\n")
        return 1
    sys.stdout.write(f"{found[PLACES[0][0]]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
