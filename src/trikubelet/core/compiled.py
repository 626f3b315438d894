"""Whether the compiled half of this package, ``trikubelet._relist``, is there: asked once, by whoever has a use for it.

Where no binary can be loaded for this platform the plain-Python twins do the same, slower. A binary of other sources
than these is worse than none, since it fails in the midst of work: it is refused at import.
"""

from __future__ import annotations

from typing import Literal

INTERFACE = 6  # as in rust/relist/src/python.rs; count both up when what is exported, or what it means, changes

BACKEND: Literal["rust", "python"]
PROBLEM = ""
"""Why nothing compiled is in use; the doctor reports it, also when the agent starts."""
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
