"""What a pod needs before anything of it runs, and what is taken down when nothing of it will run again.

    begin: the network is ready ─► directory     set_up: cgroup ─► volumes     clean_up: volumes ─► cgroup ─► user ids

Called by a pod's syncs (``pods.pod_syncer``), at each of them: all of it is idempotent, and brings up to date what is
there. Whatever is not ready is reported as an event in upstream's words, and ends the sync. The directory is not a
worker's to remove: a pod that has ended keeps its notes there as long as it is desired, and when it is no longer, its
worker has no task (``node.orphaned_pods``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trikubelet.core.names import object_ref
from trikubelet.kit.disk import disk_in_time
from trikubelet.model.errors import CgroupFailed, NetworkNotReady, PodSyncError, VolumeFailed
from trikubelet.model.names import uid_problem

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.tear_down import TearDown
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.ports import Events, PodCgroups, PodDirectories, RuntimeHealth, Volumes

NETWORK_NOT_READY: Final = "network is not ready"


class Preparation:
    """Makes ready what pods need, and takes it down. Owns no state."""

    def __init__(
        self,
        *,
        health: RuntimeHealth,
        directories: PodDirectories,
        cgroups: PodCgroups,
        volumes: Volumes,
        tear_down: TearDown,
        user_ids: UserIds,
        events: Events,
        bounds: Bounds,
        figures: PodFigures,
    ) -> None:
        self._health = health
        self._directories = directories
        self._cgroups = cgroups
        self._volumes = volumes
        self._tear_down = tear_down
        self._user_ids = user_ids
        self._events = events
        self._bounds = bounds
        self._figures = figures

    async def begin(self, pod: Pod) -> None:
        """The pod has a network to come, and a directory to note things in. Raises PodSyncError (NetworkNotReady), also
        for a disk that takes nothing."""
        self._check_network(pod)
        await self._make_directory(pod)

    async def set_up(self, pod: Pod, *, beside: Pod | None = None) -> dict[str, str]:
        """The pod's cgroup and then its volumes, by their names: the host paths. ``pod`` is as it is allocated;
        ``beside``: as it was, while it is resized. Raises CgroupFailed and VolumeFailed."""
        await self.ensure_cgroup(pod, beside=beside)
        return await self._set_up_volumes(pod)

    async def ensure_cgroup(self, pod: Pod, *, beside: Pod | None = None) -> None:
        """The pod's cgroup, with what it needs now (see ``set_up``). Raises CgroupFailed."""
        self._tear_down.not_down(pod.metadata.uid)
        try:
            with self._figures.timed_cgroup("update"):
                await self._cgroups.ensure(pod, beside=beside)
        except CgroupFailed as error:
            self._events.record(object_ref(pod), "Warning", error.reason, error.message)
            raise

    async def clean_up(self, pod: Pod) -> None:
        """Take the volumes and the cgroup down, and give the pod's users back. Raises VolumeFailed and CgroupFailed."""
        uid = pod.metadata.uid
        if uid_problem(uid):
            return  # an orphan's, by somebody else's label: no path was ever made of it, and none is now
        await self._tear_down.take_down(uid)
        self._user_ids.release(uid)

    def _check_network(self, pod: Pod) -> None:
        problem = self._health.network_problem()
        if problem and not pod.spec.host_network:
            self._events.record(object_ref(pod), "Warning", "NetworkNotReady", f"{NETWORK_NOT_READY}: {problem}")
            raise NetworkNotReady("NetworkNotReady", f"{NETWORK_NOT_READY}: {problem}")

    async def _make_directory(self, pod: Pod) -> None:
        try:
            make = partial(self._directories.make_pod, pod.metadata.uid)
            await disk_in_time(self._bounds.runtime_call_seconds_max, make)
        except OSError as error:  # a disk that is full or read-only is the operator's to mend
            message = f"error making pod data directories: {error}"
            self._events.record(object_ref(pod), "Warning", "FailedToMakePodDataDirectories", message)
            raise PodSyncError("FailedToMakePodDataDirectories", message) from error

    async def _set_up_volumes(self, pod: Pod) -> dict[str, str]:
        try:
            return dict(await self._volumes.set_up(pod))
        except VolumeFailed as error:
            for message in error.messages:
                self._events.record(object_ref(pod), "Warning", error.reason, message)
            raise
