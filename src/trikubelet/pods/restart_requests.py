"""The containers that an operator wants restarted (``trikubelet restart``): a request is recorded here, and the pod's
next sync includes it in its plan.

So only the pod's own worker stops the container, with its hook and its grace. A request is about one run of a
container: it is fulfilled with the end of that run, whatever ended it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.runtime import PodObservation

REQUESTS_MAX: Final = 10_000


class RestartRequests:
    """Owns the ids of the containers to be restarted. Above the limit the oldest requests are dropped: those of pods
    that were gone before they could be fulfilled."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, container_ids: Iterable[str]) -> None:
        """Request the end of these runs. The caller must also wake the pod's worker."""
        self._ids.update(dict.fromkeys(container_ids))
        while len(self._ids) > REQUESTS_MAX:
            del self._ids[next(iter(self._ids))]

    def about(self, observed: PodObservation) -> frozenset[str]:
        """Return the ids of a pod's containers that run and must be restarted; requests for ended ones are dropped."""
        running = {status.id for status in observed.running}
        for status in observed.containers:
            if status.id not in running:
                self._ids.pop(status.id, None)
        return frozenset(running & self._ids.keys())
