"""Loads the compiled half of this package, ``trikubelet._relist``, and reports which implementation is in use.

If no binary can be loaded for this platform, the plain-Python twins do the same, slower. A binary built from other
sources is worse than none, because it fails later, at work: it is refused at import.
"""

from __future__ import annotations

from typing import Literal

INTERFACE = 6  # as in rust/relist/src/python.rs; raise both when an exported name or its meaning changes

BACKEND: Literal["rust", "python"]
PROBLEM = ""
"""Why no compiled module is in use; the agent's start and the doctor report it."""
try:
    from trikubelet import _relist
except ImportError as error:  # pragma: no cover - where no binary exists for the platform
    BACKEND, PROBLEM = "python", str(error)
else:
    BACKEND = "rust"
    if (found := getattr(_relist, "INTERFACE", 0)) != INTERFACE:
        raise RuntimeError(
            f"{_relist.__file__} was built from other sources: its interface is {found}, here it is {INTERFACE}; "
            "remove it and build it again (with make, or by reinstalling the package)"
        )
