"""What running pods has measured: how long syncs and starts took, what was started and what failed.

Plain data, which the pod workers and those who work for them add up as they go; the metrics page spells it for
Prometheus, of which nothing here knows. (upstream-behaviour.md §1.22)
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.distribution import Distribution, Distributions

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Upper bounds of how many containers a pod has: upstream's."""
RESIZES: Final = (
    *(10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 30000.0, 60000.0, 120000.0, 300000.0),
    600000.0,
)
"""Upper bounds of how long a resize takes, in milliseconds: upstream's."""


@dataclass(slots=True)
class PodFigures:
    """Owns what was measured since the agent began; all durations in seconds.

    ``syncs``: of workers, by what they were for (create, update, sync, kill); ``worker_starts``: from a worker's
    making to its first sync; ``containers``: how many each pod had that was begun with. ``sandboxes``: making one,
    by runtime handler, and ``sandbox_failures``; of those, ``mapped`` were of pods with users of their own, and
    ``mapped_failures``. ``started``: containers that were to be started, by kind, and
    ``start_failures`` by kind and the reason users read. ``restarted``: pods that were started over under the same UID,
    by whether they are static; ``orphans``: pods that ran and that nobody had wanted. ``image_volumes``: how often one
    was asked for, was mounted, and was not, for want of its image or of a runtime that can. ``cgroups``: making and
    removing those of pods, by upstream's words. ``hook_fallbacks``: hooks that asked for HTTPS and got an
    answer without it; ``sleeps_cut``: hooks that were to sleep and did not end. ``resizes_asked``: amounts of
    containers that new specs change, by resource, requests or limits, and what becomes of it; ``resizes``: carrying one
    out, in milliseconds, by whether that came to its end (``true``, ``false``); ``resizes_infeasible`` by why, and
    ``resizes_accepted``: granted after they had waited, by what made it worth to ask again; all in upstream's words."""

    syncs: Distributions[str] = field(default_factory=Distributions)
    worker_starts: Distribution = field(default_factory=Distribution)
    containers: Distribution = field(default_factory=partial(Distribution, CONTAINERS))
    cgroups: Distributions[str] = field(default_factory=Distributions)
    sandboxes: Distributions[str] = field(default_factory=Distributions)
    sandbox_failures: Counter[str] = field(default_factory=Counter)
    mapped: int = 0
    mapped_failures: int = 0
    started: Counter[str] = field(default_factory=Counter)
    start_failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    restarted: Counter[bool] = field(default_factory=Counter)
    orphans: int = 0
    image_volumes: int = 0
    image_volumes_mounted: int = 0
    image_volume_failures: int = 0
    hook_fallbacks: int = 0
    sleeps_cut: int = 0
    resizes_asked: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    resizes: Distributions[str] = field(default_factory=partial(Distributions, RESIZES))
    resizes_infeasible: Counter[str] = field(default_factory=Counter)
    resizes_accepted: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def timed_cgroup(self, operation: str) -> Iterator[None]:
        """Take the time of what is done to a pod's cgroup: ``update``, which makes it where there is none, or
        ``destroy``."""
        began = trio.current_time()
        try:
            yield
        finally:
            self.cgroups[operation].add(trio.current_time() - began)
