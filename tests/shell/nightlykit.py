"""`packaging/nightly.py` and what it imports, for its tests: scripts, which look for each other in their own folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]


def _loaded(name: str) -> Any:
    sys.path.insert(0, str(TOP / "packaging"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


nightly, counted_tests = _loaded("nightly"), _loaded("counted_tests")
