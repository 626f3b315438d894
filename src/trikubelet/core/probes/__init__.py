"""What follows from what probes say (upstream: pkg/kubelet/prober).

``Track`` is what one probe concluded about one container, ``hear`` folds what it says next into it; ``first_delay``
says when it is asked first, ``kept`` what an agent that was restarted goes on believing.
"""

from __future__ import annotations

from trikubelet.core.probes.kind import ProbeKind, probes_of
from trikubelet.core.probes.timing import Standing, failures_count_after, first_delay, kept
from trikubelet.core.probes.track import Track, begin, end, hear, is_concluded

__all__ = [
    "ProbeKind",
    "Standing",
    "Track",
    "begin",
    "end",
    "failures_count_after",
    "first_delay",
    "hear",
    "is_concluded",
    "kept",
    "probes_of",
]
