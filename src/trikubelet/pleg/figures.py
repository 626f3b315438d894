"""PLEG's measurements of itself, as plain data.

``Measured`` is what it adds up as it goes; ``Figures`` is how everything stands at one moment, for a scrape: the
metrics endpoint spells it for Prometheus, which PLEG knows nothing of.
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
"""Upper bounds of what the event loop is kept for by a list, in seconds."""


class Measured(msgspec.Struct):
    """Owns what PLEG has measured since it began. ``relists``: from a full list's first call until its changes were
    known; ``decodes``: of that, reading and comparing the lists, while nothing else goes on; ``intervals``: from the
    beginning of one list to that of the next; successful ones only, in seconds. ``pod_relists``: on-demand relists.
    ``list_bytes``: the size of the last of everything."""

    relists: Distribution = field(default_factory=Distribution)
    decodes: Distribution = field(default_factory=partial(Distribution, DECODES))
    intervals: Distribution = field(default_factory=Distribution)
    pod_relists: Distribution = field(default_factory=Distribution)
    list_bytes: int = 0


class Figures(Frozen):
    """How PLEG stands at one moment.

    ``listed_ago_seconds`` is the age of what the last successful list said, None before the first. Requests are for
    on-demand relists: those that wait, those a newer full list answered, and those that found no room to wait.
    ``hung_pods`` counts the pods that are reported to operators. Streams of events are counted when they bring their
    first, and when they break or cannot be had.
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
