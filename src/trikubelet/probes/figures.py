"""The results of one probe so far, for those who measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.kit.distribution import Distribution


class ProbeFigures(Frozen):
    """One probe of one container. ``results`` counts them by upstream's words; ``durations`` are in seconds."""

    namespace: str
    pod: str
    uid: str
    container: str
    kind: str
    results: Mapping[str, int]
    durations: Distribution
