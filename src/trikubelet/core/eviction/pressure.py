"""Which thresholds are met, for how long, and which conditions the node has for it.

    observations ─► met now, or acted on before and short of their minimum reclaim ─► since when
                        ├► acting: met for their grace ─► due: those measured again since
                        └► conditions, each until the transition period has passed without it

``Pressure`` is what is carried from one observation to the next; ``advance`` folds one into it. Times are in seconds of
one clock. (upstream: eviction_manager.go, helpers.go)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.eviction.thresholds import MEMORY_SIGNALS, Threshold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NEVER: Final = float("-inf")


class Observed(NamedTuple):
    """How much of a signal is ``available`` of how much there is (bytes, inodes or processes), and when that was
    measured (nanoseconds since the epoch)."""

    available: int
    capacity: int
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class Pressure:
    """What is known after an observation. ``met_since``: every threshold that is met or not resolved yet, with the time
    of the look that found it first; ``last_seen``: each condition with the time it was last observed; ``conditions``:
    those that hold, as they did within the transition period; ``acting``: the thresholds met for their grace, which are
    not resolved before their minimum reclaim; ``due``: those of them a pod is to be evicted for now, the most urgent
    first; ``observed``: the observation itself."""

    met_since: Mapping[Threshold, float] = field(default_factory=dict)
    last_seen: Mapping[str, float] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    acting: tuple[Threshold, ...] = ()
    due: tuple[Threshold, ...] = ()
    observed: Mapping[str, Observed] = field(default_factory=dict)


def advance(
    before: Pressure,
    thresholds: Sequence[Threshold],
    observed: Mapping[str, Observed],
    now: float,
    transition_seconds: float,
) -> Pressure:
    """The pressure after an observation at ``now``."""
    # Not of a soft one that is still within its grace: nothing was to be reclaimed for it yet.
    unresolved = met(before.acting, observed, with_reclaim=True)
    # Of a signal that this look could not measure what was known stays: it recovers by a measurement alone.
    unseen = [one for one in before.met_since if one.signal not in observed]
    found = tuple(dict.fromkeys((*met(thresholds, observed), *unresolved, *unseen)))
    since = {one: before.met_since.get(one, now) for one in found}
    last_seen = {**before.last_seen, **{one.condition: now for one in found if one.signal in observed}}
    last_seen = {name: at for name, at in last_seen.items() if now - at < transition_seconds or at == now}
    # A measurement that is no newer than the last one says nothing of what was reclaimed since: nobody ends for it.
    is_new = {signal: one.at_ns > _measured(before, signal) for signal, one in observed.items()}
    acting = tuple(sorted((one for one in found if now - since[one] >= one.grace_seconds), key=_urgency))
    due = tuple(one for one in acting if is_new.get(one.signal, False))
    return Pressure(since, last_seen, tuple(sorted(last_seen)), acting, due, observed)


def met(
    thresholds: Iterable[Threshold], observed: Mapping[str, Observed], *, with_reclaim: bool = False
) -> tuple[Threshold, ...]:
    """The thresholds that are crossed; ``with_reclaim``: or that less than their minimum reclaim is above. A signal
    that was not observed crosses none."""
    return tuple(
        one
        for one in thresholds
        if (seen := observed.get(one.signal)) is not None
        and seen.available < one.value.of(seen.capacity) + (one.reclaim.of(seen.capacity) if with_reclaim else 0)
    )


def _measured(before: Pressure, signal: str) -> float:
    seen = before.observed.get(signal)
    return _NEVER if seen is None else seen.at_ns


def _urgency(threshold: Threshold) -> bool:
    """Memory first: without it nothing else can be done. The sort keeps the order of the rest, hard ones first."""
    return threshold.signal not in MEMORY_SIGNALS
