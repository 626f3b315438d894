"""The results of one probe so far, for those who measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.kit.distribution import Distribution


@dataclass(frozen=True, slots=True)
class ProbeFigures:
    """One probe of one container. ``results`` counts them by upstream's words; ``durations`` are in seconds."""

    namespace: str
    pod: str
    uid: str
    container: str
    kind: str
    results: Mapping[str, int]
    durations: Distribution
