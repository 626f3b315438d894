"""Measurements of image pulls, as plain data. (upstream-behaviour.md §1.22)"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec import field

from trikubelet.kit.distribution import Distributions

SECONDS: Final = (
    *(1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0),
    *(600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0),
)
"""Upper bounds of the histogram of pull durations, like upstream's."""
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_SIZES: Final = (
    (100 * _GIB, "GT100GB"),
    (60 * _GIB, "60GB-100GB"),
    (40 * _GIB, "40GB-60GB"),
    (30 * _GIB, "30GB-40GB"),
    (20 * _GIB, "20GB-30GB"),
    (10 * _GIB, "10GB-20GB"),
    (5 * _GIB, "5GB-10GB"),
    (_GIB, "1GB-5GB"),
    (500 * _MIB, "500MB-1GB"),
    (100 * _MIB, "100MB-500MB"),
    (10 * _MIB, "10MB-100MB"),
    (0, "0-10MB"),
)
"""Upstream's labels for image sizes, each with its lower bound, which an image must exceed."""


class Ensured(NamedTuple):
    """The outcome of a request for an image: whether it was on the node (``present_locally``), the policy in lower
    case, and whether it had to be pulled; ``unknown`` if the policy forbids pulls and so that was not determined."""

    present: str
    policy: str
    pulled: str


class PullFigures(msgspec.Struct):
    """Owns the measurements. ``durations``: of successful pulls including queueing, by the image's size; ``ensured``:
    the number of requests for an image, by outcome."""

    durations: Distributions[str] = field(default_factory=partial(Distributions, SECONDS))
    ensured: Counter[Ensured] = field(default_factory=Counter)


def size_word(size_bytes: int) -> str:
    """Return upstream's label for an image's size."""
    return next((word for more_than, word in _SIZES if size_bytes > more_than), "N/A")
