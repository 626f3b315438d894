"""`packaging/nightly.py` and other scripts there, for their tests: they look for each other in their own folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]


def loaded(name: str) -> Any:
    """Return the module of a script in ``packaging``."""
    sys.path.insert(0, str(TOP / "packaging"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


nightly, counted_tests = loaded("nightly"), loaded("counted_tests")
