"""Tracks which thresholds are met, for how long, and the node's resulting conditions.

    observations ─► met now, or acted on before and short of their minimum reclaim ─► since when
                        ├► acting: met for their grace ─► due: those measured again since
                        └► conditions, each until the transition period has passed without it

``Pressure`` is the state between observations; ``advance`` folds one into it. Times are in seconds of one clock.
(upstream: eviction_manager.go, helpers.go)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import field

from trikubelet.core.eviction.thresholds import MEMORY_SIGNALS, Threshold
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NEVER: Final = float("-inf")


class Observed(NamedTuple):
    """How much of a signal is ``available``, and its capacity (bytes, inodes or processes), and when that was measured
    (nanoseconds since the epoch)."""

    available: int
    capacity: int
    at_ns: int = 0


class Pressure(Frozen):
    """The state after an observation. ``met_since``: every threshold that is met or not resolved yet, with the time of
    the first observation; ``last_seen``: when each condition was last observed; ``conditions``: those in force, because
    they were observed within the transition period; ``acting``: the thresholds that were met for their grace, and are
    not resolved before their minimum reclaim; ``due``: those of them for which a pod must be evicted now, the most
    urgent first; ``observed``: the observation itself."""

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
    """Return the pressure after an observation at ``now``."""
    # Not for soft thresholds within their grace: nothing had to be reclaimed for them yet.
    unresolved = met(before.acting, observed, with_reclaim=True)
    # A signal that was not measured this time keeps its state: only a measurement resolves it.
    unseen = [one for one in before.met_since if one.signal not in observed]
    found = tuple(dict.fromkeys((*met(thresholds, observed), *unresolved, *unseen)))
    since = {one: before.met_since.get(one, now) for one in found}
    last_seen = {**before.last_seen, **{one.condition: now for one in found if one.signal in observed}}
    last_seen = {name: at for name, at in last_seen.items() if now - at < transition_seconds or at == now}
    # A measurement that is no newer than the last one does not show the effect of evictions, so no pod is evicted for
    # it.
    is_new = {signal: one.at_ns > _measured(before, signal) for signal, one in observed.items()}
    acting = tuple(sorted((one for one in found if now - since[one] >= one.grace_seconds), key=_urgency))
    due = tuple(one for one in acting if is_new.get(one.signal, False))
    return Pressure(since, last_seen, tuple(sorted(last_seen)), acting, due, observed)


def met(
    thresholds: Iterable[Threshold], observed: Mapping[str, Observed], *, with_reclaim: bool = False
) -> tuple[Threshold, ...]:
    """Return the thresholds that are crossed; ``with_reclaim``: or exceeded by less than their minimum reclaim. A
    signal that was not observed crosses none."""
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
    """Return the sort key. Memory comes first, because without it nothing else works; the sort keeps the order of the
    rest, hard ones first."""
    return threshold.signal not in MEMORY_SIGNALS
