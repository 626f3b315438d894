"""PLEG's measurements of itself, as plain data.

``Measured`` accumulates; ``Figures`` is a snapshot for a scrape. The metrics endpoint formats it for Prometheus, which
PLEG does not depend on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import field

from trikubelet.kit.distribution import Distribution
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from trikubelet.core.relist import Counts


DECODES: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1)
"""Upper bounds of the time for which a list blocks the event loop, in seconds."""


class Measured(msgspec.Struct):
    """Owns PLEG's measurements since its start. ``relists``: from a full list's first call until its changes were
    known; ``decodes``: the part of it that decodes and compares the lists and blocks the event loop; ``intervals``:
    from the beginning of one list to that of the next. All of them count only successful lists, in seconds.
    ``pod_relists``: on-demand relists. ``list_bytes``: the size of the last full list."""

    relists: Distribution = field(default_factory=Distribution)
    decodes: Distribution = field(default_factory=partial(Distribution, DECODES))
    intervals: Distribution = field(default_factory=Distribution)
    pod_relists: Distribution = field(default_factory=Distribution)
    list_bytes: int = 0


class Figures(Frozen):
    """A snapshot of PLEG's state.

    ``listed_ago_seconds``: the age of the last successful list, None before the first. Requests are for on-demand
    relists: those that wait, those that a newer full list answered, and those dropped because the queue was full.
    ``hung_pods`` counts the pods that are reported to operators. ``event_streams`` counts streams that delivered an
    event; ``event_stream_failures`` counts streams that broke or could not be opened.
    """

    measured: Measured
    listed_ago_seconds: float | None
    counts: Counts
    requests_waiting: int
    requests_answered: int
    requests_dropped: int
    inspections: Distribution
    inspections_running: int
    inspections_waiting: int
    oldest_inspection_seconds: float
    hung_pods: int
    event_streams: int
    event_stream_failures: int
    events_received: int
    has_reliable_events: bool
