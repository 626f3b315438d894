"""Says in the log what is wrong with manifests: each fault once when it appears, and once more when all is well.

Both manifest sources tell it everything that is wrong after each look; most looks change nothing and are silent.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.faults import Fault

log = logging.getLogger(__name__)


class FaultLog:
    """Owns which faults were said."""

    def __init__(self) -> None:
        self._said: frozenset[Fault] = frozenset()

    def tell(self, faults: Iterable[Fault]) -> None:
        """Everything that is wrong now, in order."""
        now = dict.fromkeys(faults)
        for fault in now:
            if fault not in self._said:
                log.warning("Manifest fault: %s", fault)
        for source in sorted({fault.source for fault in self._said} - {fault.source for fault in now}):
            log.info("Manifest %s has no fault any more", source)
        self._said = frozenset(now)
