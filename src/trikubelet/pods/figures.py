"""Measurements of running pods: durations of syncs and starts, and counts of starts and failures.

Plain data, updated by the pod workers and their parts; the metrics page formats it for Prometheus, of which this module
knows nothing. (upstream-behaviour.md §1.22)
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import trio
from msgspec import field

from trikubelet.kit.distribution import Distribution, Distributions

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Upstream's upper bounds of buckets for the number of a pod's containers."""
RESIZES: Final = (
    *(10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 30000.0, 60000.0, 120000.0, 300000.0),
    600000.0,
)
"""Upstream's upper bounds of buckets for the duration of a resize, in milliseconds."""
DEFERRALS: Final = (
    *(5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 150.0, 180.0, 300.0, 600.0, 1200.0, 1800.0),
    3600.0,
)
"""Upstream's upper bounds of buckets for how long a resize was deferred, in seconds."""


class PodFigures(msgspec.Struct):
    """Owns the measurements since the agent began; all durations in seconds unless stated otherwise.

    ``syncs``: of workers, by purpose (create, update, sync, kill); ``worker_starts``: from a worker's creation to its
    first sync; ``containers``: the number per begun pod. ``sandboxes``: durations of creations, by runtime handler, and
    ``sandbox_failures``; ``mapped`` and ``mapped_failures``: those of pods with a user namespace. ``started``:
    attempted starts of containers, by kind, and ``start_failures`` by kind and the users' reason. ``restarted``: pods
    that were started over under the same UID, by being static; ``orphans``: running pods that were not wanted.
    ``image_volumes``: requests, mounts, and failures for lack of the image or of the runtime's support. ``cgroups``:
    durations of creating and removing those of pods, by upstream's words. ``hook_fallbacks``: hooks for HTTPS that were
    answered without it; ``sleeps_cut``: hooks whose sleep was interrupted. ``resizes_asked``: requested changes of
    containers' amounts, by resource, requests or limits, and operation; ``resizes``: durations in milliseconds, by
    success (``true``, ``false``); ``resizes_infeasible`` by reason, and ``resizes_accepted``: granted after a wait, by
    the trigger of the retry; ``resizes_deferred``: how long resizes were deferred, by the way that ended it and the
    bucket of the pod's priority. ``admitted``: pods by where they state their resources and by class, in small letters.
    All in upstream's words."""

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
    resizes_deferred: Distributions[tuple[str, str]] = field(default_factory=partial(Distributions, DEFERRALS))
    admitted: Counter[tuple[str, str]] = field(default_factory=Counter)

    @contextmanager
    def timed_cgroup(self, operation: str) -> Iterator[None]:
        """Measure the duration of an operation on a pod's cgroup: ``update``, which creates a missing one, or
        ``destroy``."""
        began = trio.current_time()
        try:
            yield
        finally:
            self.cgroups[operation].add(trio.current_time() - began)
