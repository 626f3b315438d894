"""Measurements of certificate rotation, as plain data. (upstream-behaviour.md §1.22)"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from trikubelet.kit.distribution import Distribution

_HOUR: Final = 3600.0
LIVED_SECONDS: Final = (
    *(60.0, _HOUR, 4 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR, 96 * _HOUR, 168 * _HOUR),
    *(720 * _HOUR, 2160 * _HOUR, 4320 * _HOUR, 8640 * _HOUR, 34560 * _HOUR),
)
"""Upstream's upper bounds of buckets for the lifetime of certificates, from a minute to four years."""


@dataclass(slots=True)
class RotationFigures:
    """Owns the measurements of one certificate. ``signer``: its signer's name; ``not_after_ns``: its end, 0 while there
    is none; ``failures``: failed tries to replace it; ``lived``: the ages of earlier ones when they were replaced, in
    seconds."""

    signer: str
    not_after_ns: int = 0
    failures: int = 0
    lived: Distribution = field(default_factory=partial(Distribution, LIVED_SECONDS))
