"""What one probe was answered so far, for those who measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.kit.distribution import Distribution


@dataclass(frozen=True, slots=True)
class ProbeFigures:
    """One probe of one container. ``answers`` counts them by upstream's words for what they mean; ``durations`` are in
    seconds, from the question to the answer."""

    namespace: str
    pod: str
    uid: str
    container: str
    kind: str
    answers: Mapping[str, int]
    durations: Distribution
