"""Node-pressure eviction: decides when the node is short of memory, disk or process ids, and which pod to evict.

    thresholds ──┐
    observations ─┴─► pressure.advance ─► met thresholds, node conditions ─► ranking ─► one pod ─► messages
    usage of pods ──► limits ─► pods beyond their own ephemeral-storage limits

Pure functions of plain data; ``node/eviction.py`` takes the snapshots and evicts the pods. Signals, defaults and texts
are upstream's (pkg/kubelet/eviction; upstream-behaviour.md §1.15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from trikubelet.core.eviction.thresholds import Threshold


class EvictionRules(Frozen):
    """The configuration. ``transition_seconds``: how long a condition holds after it was last observed;
    ``grace_seconds_max``: for a pod that is evicted for a soft threshold; ``local_limits``: the limits of pods on local
    storage are enforced."""

    thresholds: tuple[Threshold, ...] = ()
    transition_seconds: float = 300.0
    grace_seconds_max: int = 0
    local_limits: bool = True
