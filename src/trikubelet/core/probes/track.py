"""What one probe concluded about one container: the fold of all its results.

    begin ──► liveness SUCCESS · readiness FAILURE · startup UNKNOWN
                 │ record_result: successThreshold or failureThreshold times the same, in a row
                 ▼
              SUCCESS ⇄ FAILURE            readiness goes to and fro
              liveness FAILURE, startup FAILURE or SUCCESS: on hold, not probed again before there is a new container

An unknown result (the runtime could not be asked, say) is not recorded: it neither counts nor interrupts a row.
A failed container is left alone because it is being killed, and to run commands in it then does harm; a started one
has started, once and for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trikubelet.core.actions import Verdict
from trikubelet.core.manifest.container_defaults import PROBE_FAILURES, PROBE_SUCCESSES
from trikubelet.core.probes.kind import ProbeKind

if TYPE_CHECKING:
    from trikubelet.model.k8s import Probe

_AT_FIRST = {
    ProbeKind.LIVENESS: Verdict.SUCCESS,
    ProbeKind.READINESS: Verdict.FAILURE,
    ProbeKind.STARTUP: Verdict.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Track:
    """One probe of the container of that id. ``verdict`` is what counts; ``last`` was the result ``row`` times in a
    row."""

    container_id: str
    verdict: Verdict
    last: Verdict = Verdict.UNKNOWN
    row: int = 0
    on_hold: bool = False


def begin(kind: ProbeKind, container_id: str, kept: Verdict | None = None) -> Track:
    """A container that was not known before; ``kept``: what an earlier agent had concluded."""
    verdict = _AT_FIRST[kind] if kept is None else kept
    return Track(container_id, verdict, on_hold=_is_final(kind, verdict))


def record_result(kind: ProbeKind, probe: Probe, track: Track, result: Verdict) -> Track:
    """The probe's result was SUCCESS or FAILURE. Not to be called for a track that is on hold."""
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
    """Whether the container's own results say what the verdict says, and not just what was assumed at first."""
    return track.verdict is track.last and track.row == _needed(probe, track.last)


def end(kind: ProbeKind, track: Track) -> Track:
    """The pod is being stopped: who answers no more must not be killed, or held back, for that. Readiness goes on."""
    if kind is ProbeKind.READINESS:
        return track
    return replace(track, verdict=Verdict.SUCCESS, on_hold=True)


def _needed(probe: Probe, result: Verdict) -> int:
    """How often in a row it must be the result to count."""
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
