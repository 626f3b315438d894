"""Measures how long pods take to start, from their creation until their cluster knows that they run.

    begun(pod) ─► pulled(…) ─► status_changed: every container runs ─► observed: the API server has it ─► measured
                                    └ a pod of this node alone: measured          └ ended before: forgotten

The parts that begin with a pod, pull its images, publish its status and receive it from the API server report that
here. ``core.startup`` decides what counts. A pod that an earlier agent began is not measured, because the time for its
images is unknown.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.core.names import is_static
from trikubelet.core.startup import counts_for_sli, has_started, init_seconds
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.kit.distribution import Distribution

if TYPE_CHECKING:
    from trikubelet.model import k8s
    from trikubelet.ports import Clock

SECONDS: Final = (
    *(0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0),
    *(480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0),
)
"""Upstream's upper bounds of buckets for the duration of starts."""


class _Start(msgspec.Struct):
    """One pod that is starting. ``since``: Trio's clock; ``pulling_seconds``: for its images so far; ``runs``: observed
    running."""

    since: float
    pulling_seconds: float = 0.0
    runs: bool = False


class Startups:
    """Owns the progress of each pod's start, and the measured durations.

    ``seconds``: from the agent's first sight of a pod until it ran. For pods of the API server also ``total_seconds``,
    from their creation until the server knew that they run, and ``sli_seconds``, the same without pulls and init
    containers. ``first_network_seconds``: that of the first pod with its own network, None before there is one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starting: dict[str, _Start] = {}
        self.seconds: Final = Distribution(SECONDS)
        self.total_seconds: Final = Distribution(SECONDS)
        self.sli_seconds: Final = Distribution(SECONDS)
        self.first_network_seconds: float | None = None

    def begun(self, pod: k8s.Pod) -> None:
        """Record that a pod of which nothing ran before has a worker now."""
        if pod.status is None or not pod.status.start_time:
            self._starting[pod.metadata.uid] = _Start(trio.current_time())

    def pulled(self, pod: k8s.Pod, seconds: float) -> None:
        """Record that the pod waited that long for an image."""
        start = self._starting.get(pod.metadata.uid)
        if start is not None:
            start.pulling_seconds += seconds

    def status_changed(self, uid: str, pod: k8s.Pod, status: k8s.PodStatus, _version: int) -> None:
        """Record a published status."""
        start = self._starting.get(uid)
        if start is None or start.runs or not has_started(status):
            return
        start.runs = True
        self.seconds.add(trio.current_time() - start.since)
        if is_static(pod):
            del self._starting[uid]

    def observed(self, pod: k8s.Pod) -> None:
        """Record the pod as the API server has it."""
        start = self._starting.get(pod.metadata.uid)
        if start is None or not start.runs or pod.status is None or not has_started(pod.status):
            return
        del self._starting[pod.metadata.uid]
        with suppress(ValueError):  # an invalid creation time is the server's fault
            born_ns = parse_rfc3339(pod.metadata.creation_timestamp)
            self._measure(pod, pod.status, (self._clock.now_ns() - born_ns) / SECOND_NS, start)

    def _measure(self, pod: k8s.Pod, status: k8s.PodStatus, seconds: float, start: _Start) -> None:
        self.total_seconds.add(seconds)
        if not counts_for_sli(pod):
            return
        own = max(0.0, seconds - start.pulling_seconds - init_seconds(status))
        self.sli_seconds.add(own)
        if self.first_network_seconds is None and not pod.spec.host_network:
            self.first_network_seconds = own

    def finished(self, pod: k8s.Pod) -> None:
        """Record that the pod's worker has ended."""
        self._starting.pop(pod.metadata.uid, None)

    def __repr__(self) -> str:
        return f"<Startups: {len(self._starting)} under way, {self.seconds.count} measured>"
