"""What a pod's attempts see of it, and that they are seen to act: the PLEG's cache, and its side door (``Relister``).

Who acts on a pod asks for an on-demand relist of it, so the next attempt sees the result without waiting for the clock.
Containers of an earlier instance of the pod are left out, where they could not be removed before it started over: its
worker says so (``pods.workers``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.kit.instant import instant

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trikubelet.model.runtime import PodObservation
    from trikubelet.ports import PodCache, Relister


class Observations:
    """Owns when the last container of a pod's earlier instance was made, where the pod started over beside what is left
    of that instance."""

    def __init__(self, cache: PodCache, relister: Relister) -> None:
        self._earlier: dict[str, int] = {}  # by UID, in nanoseconds since the epoch
        self._cache = cache
        self._relister = relister

    async def newer_than(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """What the runtime has of the pod, seen after ``since`` (an instant); ``soon``: ask for it, unless it is known,
        rather than wait for the next list. Raises the RuntimeCallError or TooSlowError of the pod's inspection."""
        if soon and not self._cache.is_newer(uid, since):
            self._relister.look_at(uid)
        return self.of_this_life(await self._cache.newer_than(uid, since))

    async def with_remains(self, uid: str) -> PodObservation:
        """What the runtime has of the pod now, whichever instance it is of. Raises as ``newer_than`` does."""
        return await self._cache.newer_than(uid, instant())

    def of_this_life(self, observed: PodObservation) -> PodObservation:
        """Without what remains of an earlier instance of the pod: all that its status may speak of."""
        earlier = self._earlier.get(observed.uid)
        return observed if earlier is None else observed.without_earlier(earlier)

    def acting_on(self, uid: str) -> AbstractContextManager[None]:
        """Within it the caller changes the pod; at its end a relist of it is asked for."""
        return self._relister.acting_on(uid)

    def begin_despite_leftovers(self, uid: str) -> None:
        """From now on none of the pod's containers that are there counts: they are of an instance that is over."""
        self._earlier[uid] = self._cache.get(uid).newest_ns

    def forget(self, uid: str) -> None:
        """This instance of the pod is over."""
        self._earlier.pop(uid, None)
