"""Which containers an operator wants restarted (``trikubelet restart``): a request is noted here, and a pod's next
sync plans by it.

So a container is stopped by its own pod's worker, with its hook and its grace, and by nobody beside it. A request is
about one run of a container: with the end of that run, whatever ended it, it is fulfilled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.runtime import PodObservation

REQUESTS_MAX: Final = 10_000


class RestartRequests:
    """Owns the ids of the containers that are to be restarted. Of too many the oldest requests are forgotten: those of
    pods that went before they could be fulfilled."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, container_ids: Iterable[str]) -> None:
        """Request the end of these runs. The pod's worker has to be woken besides."""
        self._ids.update(dict.fromkeys(container_ids))
        while len(self._ids) > REQUESTS_MAX:
            del self._ids[next(iter(self._ids))]

    def about(self, observed: PodObservation) -> frozenset[str]:
        """The containers of a pod, by id, that run and should not; those that have ended are requested no more."""
        running = {status.id for status in observed.running}
        for status in observed.containers:
            if status.id not in running:
                self._ids.pop(status.id, None)
        return frozenset(running & self._ids.keys())
