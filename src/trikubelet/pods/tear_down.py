"""Takes down a pod's resources outside its directory: devices, volumes, and then its cgroup; each once per life.

    the pod's worker, when nothing of it runs any more (``pods.preparation``) ──┐
                                                                       ├─► devices ─► volumes ─► cgroup ─► it is down
    ``node.orphaned_pods``, for a pod that no worker of this agent took down ─────────┘

It stays down until something is set up for the pod again, or leftovers are found: then the next call takes down
everything, because any part may be back. Volume drivers do the work, and the caller retries failures.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from trikubelet.model.errors import CgroupFailed, VolumeFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from trikubelet.model.bounds import Bounds
    from trikubelet.model.errors import PodSyncError
    from trikubelet.pods.figures import PodFigures
    from trikubelet.ports import PodCgroups, PodDevices, Volumes


class TearDown:
    """Owns which pods' devices, volumes and cgroups were taken down, with nothing set up for them since."""

    def __init__(
        self, devices: PodDevices, volumes: Volumes, cgroups: PodCgroups, bounds: Bounds, figures: PodFigures
    ) -> None:
        self._devices = devices
        self._volumes = volumes
        self._cgroups = cgroups
        self._bounds = bounds
        self._figures = figures
        self._down: set[str] = set()

    async def take_down(self, uid: str, may_go: Callable[[], bool] = lambda: True) -> bool:
        """Release the pod's devices, and take down its volumes and cgroup; True if they are down. False if ``may_go``,
        which is called after each step, reports that the pod has come back: then the rest belongs to the new instance.
        Each step may take as long as a call to the runtime. Raises VolumeFailed and CgroupFailed."""
        if uid in self._down:
            return True
        await self._devices.release(uid)  # first: a volume that hangs is no reason to keep them from other pods
        if not may_go():
            return False
        with self._in_time(VolumeFailed("FailedUnmount", "the volumes could not be unmounted in time")):
            await self._volumes.tear_down(uid)
        if not may_go():
            return False
        with (
            self._figures.timed_cgroup("destroy"),
            self._in_time(CgroupFailed("FailedKillPod", "the cgroup could not be removed in time")),
        ):
            await self._cgroups.remove(uid)
        if not may_go():
            return False
        self._down.add(uid)
        return True

    def not_down(self, uid: str) -> None:
        """Record that something is about to be set up for the pod, or that leftovers of it were found."""
        self._down.discard(uid)

    def keep(self, uids: Collection[str]) -> None:
        """Forget all other pods: nothing of them is left to take down."""
        self._down.intersection_update(uids)

    @contextmanager
    def _in_time(self, late: PodSyncError) -> Iterator[None]:
        try:
            with trio.fail_after(self._bounds.runtime_call_seconds_max):
                yield
        except trio.TooSlowError as error:
            raise late from error

    def __repr__(self) -> str:
        return f"<TearDown of {len(self._down)} pods>"
