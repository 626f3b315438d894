"""Logs the faults of manifests: each fault once when it appears, and once more when a manifest has none any more.

Both manifest sources report all current faults after each look; most looks change nothing and log nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.faults import Fault

log = logging.getLogger(__name__)


class FaultLog:
    """Owns the faults that were logged."""

    def __init__(self) -> None:
        self._said: frozenset[Fault] = frozenset()

    def tell(self, faults: Iterable[Fault]) -> None:
        """Take all current faults, in order."""
        now = dict.fromkeys(faults)
        for fault in now:
            if fault not in self._said:
                log.warning("Manifest fault: %s", fault)
        for source in sorted({fault.source for fault in self._said} - {fault.source for fault in now}):
            log.info("Manifest %s has no fault any more", source)
        self._said = frozenset(now)
