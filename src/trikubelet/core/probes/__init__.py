"""Folds the results of probes into verdicts (upstream: pkg/kubelet/prober).

``Track`` is the verdict of one probe about one container, ``record_result`` folds its next result into it;
``first_delay`` schedules its first run, and ``kept`` is the verdict that survives a restart of the agent.
"""

from __future__ import annotations

from trikubelet.core.probes.kind import ProbeKind, probes_of
from trikubelet.core.probes.timing import SavedProbeResults, failures_count_after, first_delay, kept
from trikubelet.core.probes.track import Track, begin, end, is_concluded, record_result

__all__ = [
    "ProbeKind",
    "SavedProbeResults",
    "Track",
    "begin",
    "end",
    "failures_count_after",
    "first_delay",
    "is_concluded",
    "kept",
    "probes_of",
    "record_result",
]
