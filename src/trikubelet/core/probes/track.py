"""The verdict of one probe about one container: the fold of all its results.

    begin ──► liveness SUCCESS · readiness FAILURE · startup UNKNOWN
                 │ record_result: successThreshold or failureThreshold times the same, in a row
                 ▼
              SUCCESS ⇄ FAILURE            readiness alternates
              liveness FAILURE, startup FAILURE or SUCCESS: on hold, not probed again until there is a new container

An unknown result (the runtime did not answer, for example) is not recorded: it neither counts nor interrupts a row. A
failed container is not probed because it is being killed, and running commands in it then does harm; a started one
stays started.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trikubelet.core.actions import Verdict
from trikubelet.core.manifest.container_defaults import PROBE_FAILURES, PROBE_SUCCESSES
from trikubelet.core.probes.kind import ProbeKind
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from trikubelet.model.k8s import Probe

_AT_FIRST = {
    ProbeKind.LIVENESS: Verdict.SUCCESS,
    ProbeKind.READINESS: Verdict.FAILURE,
    ProbeKind.STARTUP: Verdict.UNKNOWN,
}


class Track(Frozen):
    """One probe of the container of that id. ``verdict`` is the one in force; the last ``row`` results in a row were
    ``last``."""

    container_id: str
    verdict: Verdict
    last: Verdict = Verdict.UNKNOWN
    row: int = 0
    on_hold: bool = False


def begin(kind: ProbeKind, container_id: str, kept: Verdict | None = None) -> Track:
    """Return the track of a new container; ``kept``: the verdict of an earlier agent."""
    verdict = _AT_FIRST[kind] if kept is None else kept
    return Track(container_id, verdict, on_hold=_is_final(kind, verdict))


def record_result(kind: ProbeKind, probe: Probe, track: Track, result: Verdict) -> Track:
    """Fold in a result, SUCCESS or FAILURE. Must not be called for a track that is on hold."""
    assert not track.on_hold
    assert result is not Verdict.UNKNOWN
    needed = _needed(probe, result)
    # Only the row's length up to the threshold counts, so nearly all results change nothing.
    row = min(needed, track.row + 1) if result is track.last else 1
    verdict = result if row == needed else track.verdict
    if (result, row, verdict) == (track.last, track.row, track.verdict):
        return track
    return Track(track.container_id, verdict, result, row, on_hold=_is_final(kind, verdict))


def is_concluded(probe: Probe, track: Track) -> bool:
    """True if the verdict follows from the container's own results, not from the initial assumption."""
    return track.verdict is track.last and track.row == _needed(probe, track.last)


def end(kind: ProbeKind, track: Track) -> Track:
    """Return the track while the pod is stopped: failures must no longer kill or hold back containers. Readiness goes
    on."""
    if kind is ProbeKind.READINESS:
        return track
    return replace(track, verdict=Verdict.SUCCESS, on_hold=True)


def _needed(probe: Probe, result: Verdict) -> int:
    """Return how many equal results in a row it takes to count."""
    if result is Verdict.SUCCESS:
        return probe.success_threshold or PROBE_SUCCESSES
    return probe.failure_threshold or PROBE_FAILURES


def _is_final(kind: ProbeKind, verdict: Verdict) -> bool:
    match kind:
        case ProbeKind.LIVENESS:
            return verdict is Verdict.FAILURE
        case ProbeKind.STARTUP:
            return verdict is not Verdict.UNKNOWN
        case ProbeKind.READINESS:
            return False
