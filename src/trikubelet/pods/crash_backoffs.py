"""The back-offs of crashing containers; ``pods.start`` consults them before it starts one.

``core.restarts`` decides the delays; this module keeps the last ones until the pod is gone. An edited container starts
anew, so a pod may leave any number of entries behind: the least recently used are dropped first. For containers that an
earlier agent started the back-off is derived from their ends (``core.backoff_history``).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from trikubelet.core.backoff_history import derived_backoff
from trikubelet.core.container_hash import is_made_from
from trikubelet.core.restarts import BackoffEntry, backoff_key, backoff_next, backoff_remaining
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.restarts import BackoffLimits
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import ContainerStatus
    from trikubelet.ports import Clock

KEPT_MAX: Final = 10_000


class Wait(Frozen):
    """A back-off under way: its length from the container's end, and the rest of it, in seconds."""

    seconds: float
    left_seconds: float


class CrashBackoffs:
    """Owns the crash back-offs, at most ``kept_max``, and which end of a container was removed so that its pod starts
    over: that end's back-off is over. They may be lost: the worst result is one early restart. ``booted_ns``: when the
    machine started, in nanoseconds since the epoch."""

    def __init__(self, limits: BackoffLimits, clock: Clock, booted_ns: int = 0, kept_max: int = KEPT_MAX) -> None:
        self._limits = limits
        self._clock = clock
        self._booted_ns = booted_ns
        self._began_ns = clock.now_ns()
        self._kept_max = kept_max
        self._entries: OrderedDict[tuple[str, str], BackoffEntry] = OrderedDict()
        self._let_go: dict[tuple[str, str], int] = {}

    def recall(self, pod: Pod, container: Container, ends: Sequence[ContainerStatus]) -> None:
        """Take over the back-off of an earlier agent, if one started the container. ``ends``: its ends, the newest
        first. A reboot resets all back-offs, and so does another image, like any other edit."""
        key, newest = _key(pod, container), ends[0]
        if key in self._entries or not self._booted_ns < newest.created_at < self._began_ns:
            return
        if not is_made_from(container, newest.hash):
            return
        if (entry := derived_backoff(ends, self._limits)) is not None:
            self._keep(key, entry)

    def left(self, pod: Pod, container: Container, finished_at: int) -> Wait | None:
        """Return how long the container that ended then (nanoseconds since the epoch) still waits; None if it may
        start."""
        entry = self._entries.get(_key(pod, container))
        if self._let_go.get(_key(pod, container)) == finished_at:
            return None
        left = backoff_remaining(entry, finished_at, self._clock.now_ns(), self._limits)
        return Wait(entry.seconds, left) if entry is not None and left > 0 else None

    def count(self, pod: Pod, container: Container, finished_at: int) -> None:
        """Record that the container that ended then is started now; the next time it waits longer."""
        key = _key(pod, container)
        self._keep(key, backoff_next(self._entries.get(key), finished_at, self._clock.now_ns(), self._limits))

    def _keep(self, key: tuple[str, str], entry: BackoffEntry) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._kept_max:
            gone, _ = self._entries.popitem(last=False)
            self._let_go.pop(gone, None)

    def let_go(self, pod: Pod, container: Container, finished_at: int) -> None:
        """Record that the container that ended then is removed so that its pod starts over. It is counted before the
        removal, because an interruption afterwards would lose the count, and only once, because a removal may fail.
        From now on that end's back-off is over.
        """
        key = _key(pod, container)
        if self._let_go.get(key) != finished_at:
            self.count(pod, container, finished_at)
            self._let_go[key] = finished_at

    def started_over(self, pod: Pod, container: Container) -> None:
        """Record that the removed container is started now, perhaps long after: how long it runs well counts from
        here."""
        key = _key(pod, container)
        if self._let_go.pop(key, None) is not None:
            self._entries[key] = BackoffEntry(self._entries[key].seconds, self._clock.now_ns())

    def forget(self, uid: str) -> None:
        """Forget the pod, which is gone."""
        for key in [key for key in self._entries if key[0] == uid]:
            del self._entries[key]
            self._let_go.pop(key, None)

    def __repr__(self) -> str:
        return f"<CrashBackoffs {len(self._entries)} of at most {self._kept_max}>"


def _key(pod: Pod, container: Container) -> tuple[str, str]:
    return pod.metadata.uid, backoff_key(pod, container)
