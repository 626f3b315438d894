"""What stands where there is nothing to be said: kubectl's words."""

from __future__ import annotations

from typing import Final

NONE: Final = "<none>"
"""There is none."""
UNKNOWN: Final = "<unknown>"
"""There is one, and nobody told."""
