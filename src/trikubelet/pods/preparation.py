"""Prepares what a pod needs before anything of it runs, and removes it when nothing of it will run again.

    begin: the network is ready ─► directory     allocate: devices     set_up: cgroup ─► volumes
    clean_up: devices ─► volumes ─► cgroup ─► user ids

A pod's syncs (``pods.pod_syncer``) call this each time: all of it is idempotent, and updates what exists. Failures are
reported as events in upstream's words, and end the sync. The directory is not removed by a worker: an ended pod keeps
its notes there while it is desired, and afterwards its worker has no task (``node.orphaned_pods`` removes it).
"""

from __future__ import annotations

from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Final

from trikubelet.core.admission import without_devices
from trikubelet.core.devices.decision import AWAITS_PLUGIN, Awaited, Refused
from trikubelet.core.names import object_ref
from trikubelet.kit.disk import disk_in_time
from trikubelet.model.errors import CgroupFailed, DevicesRefused, NetworkNotReady, PodSyncError, RetryAt, VolumeFailed
from trikubelet.model.names import uid_problem

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.k8s import Pod
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.tear_down import TearDown
    from trikubelet.pods.user_ids import UserIds
    from trikubelet.ports import Events, PodCgroups, PodDevices, PodDirectories, RuntimeHealth, Volumes

NETWORK_NOT_READY: Final = "network is not ready"


class Preparation:
    """Prepares what pods need, and removes it. Owns no state."""

    def __init__(
        self,
        *,
        health: RuntimeHealth,
        directories: PodDirectories,
        devices: PodDevices,
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
        self._devices = devices
        self._cgroups = cgroups
        self._volumes = volumes
        self._tear_down = tear_down
        self._user_ids = user_ids
        self._events = events
        self._bounds = bounds
        self._figures = figures

    async def begin(self, pod: Pod) -> None:
        """Check that the runtime's network is ready, and create the pod's directory. Raises PodSyncError
        (NetworkNotReady, or for a disk that cannot be written)."""
        self._check_network(pod)
        await self._make_directory(pod)

    async def allocate(self, pod: Pod) -> None:
        """Give the pod its devices, before anything of it is made. Raises DevicesRefused if its plugins do not give
        them, RetryAt while it waits for one of them, and PodSyncError if the devices cannot be recorded."""
        self._tear_down.not_down(pod.metadata.uid)
        try:
            answer = await self._devices.ensure(pod)
        except (OSError, ValueError) as error:
            message = f"cannot allocate its devices: {error}"
            self._events.record(object_ref(pod), "Warning", "FailedSync", message)
            raise PodSyncError("FailedSync", message) from error
        if isinstance(answer, Awaited):
            self._events.record(object_ref(pod), "Warning", AWAITS_PLUGIN, answer.message)
            raise RetryAt(AWAITS_PLUGIN, answer.message, answer.until_seconds)
        if isinstance(answer, Refused):
            raise DevicesRefused(*astuple(without_devices(answer.message)))

    async def set_up(self, pod: Pod, *, beside: Pod | None = None) -> dict[str, str]:
        """Set up the pod's cgroup and then its volumes; return the volumes' host paths by name. ``pod`` has its
        allocated resources; ``beside``: as it was, during a resize. Raises CgroupFailed and VolumeFailed."""
        await self.ensure_cgroup(pod, beside=beside)
        return await self._set_up_volumes(pod)

    async def ensure_cgroup(self, pod: Pod, *, beside: Pod | None = None) -> None:
        """Create or update the pod's cgroup (see ``set_up``). Raises CgroupFailed."""
        self._tear_down.not_down(pod.metadata.uid)
        try:
            with self._figures.timed_cgroup("update"):
                await self._cgroups.ensure(pod, beside=beside)
        except CgroupFailed as error:
            self._events.record(object_ref(pod), "Warning", error.reason, error.message)
            raise

    async def clean_up(self, pod: Pod) -> None:
        """Remove the volumes and the cgroup, and release the pod's devices and user ids. Raises VolumeFailed and
        CgroupFailed."""
        uid = pod.metadata.uid
        if uid_problem(uid):
            return  # an orphan whose UID comes from another program's label: no path was ever made from it
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
        except OSError as error:  # an operator must fix a full or read-only disk
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
