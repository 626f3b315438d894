"""Housekeeping: every two seconds, is this node what it should be?

Nothing here is told; everything is compared. Wanted pods against workers, workers against sources, the runtime's pods
and the disk's pod directories against both. So whatever was missed, by us or by an earlier process that was killed at
any moment, is found again. Until every source has spoken and the runtime was listed once, nothing is touched. Nor is
what runs and nobody wants, while there is a manifest that was faulty when the agent began: it may be that manifest's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import orphan_pod
from trikubelet.kit.every import Every
from trikubelet.model.errors import CgroupFailed, StillMounted, VolumeFailed
from trikubelet.model.runtime import ContainerState, SandboxState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.relist import PodRecord
    from trikubelet.model.bounds import Bounds
    from trikubelet.pods.desired import DesiredPods
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import PodCgroups, PodFiles, RuntimePods, Volumes

log = logging.getLogger(__name__)


class Housekeeping:
    """Owns nothing but the list of what it could not remove, so that each is complained about once."""

    def __init__(
        self,
        desired: DesiredPods,
        workers: PodWorkers,
        runtime_pods: RuntimePods,
        files: PodFiles,
        volumes: Volumes,
        cgroups: PodCgroups,
        bounds: Bounds,
    ) -> None:
        self._desired = desired
        self._workers = workers
        self._runtime_pods = runtime_pods
        self._files = files
        self._volumes = volumes
        self._cgroups = cgroups
        self._spared: tuple[str, ...] = ()
        self._bounds = bounds
        self._stuck: dict[str, str] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Compare and mend until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._remove_directories_again_and_again)
            task_status.started()
            async for _ in Every(self._bounds.housekeeping_period_seconds):
                if self._may_compare:
                    self.compare()

    async def _remove_directories_again_and_again(self) -> None:
        """Beside the comparisons: what hangs on a disk must not hold them up."""
        async for _ in Every(self._bounds.housekeeping_period_seconds):
            if self._may_compare:
                await self.remove_directories()

    @property
    def _may_compare(self) -> bool:
        return self._desired.all_ready and self._runtime_pods.has_listed

    def compare(self) -> None:
        """Bring workers in line with the wanted pods and with what runs."""
        desired = {pod.metadata.uid: pod for pod in self._desired}
        self._workers.compare_with(desired, all_known=not self._desired.doubtful)
        for uid, pod in desired.items():
            if uid not in self._workers:
                self._workers.sync(pod, create=True)
        orphans = [one for one in self._runtime_pods.pods() if one.uid not in self._workers and _is_alive(one)]
        if self._may_be_wanted(orphans):
            return
        for record in orphans:
            self._workers.kill_orphan(orphan_pod(record.uid, record.name, record.namespace))

    def _may_be_wanted(self, orphans: Sequence[PodRecord]) -> bool:
        """Whether a manifest nobody could read yet may be the one that brought these pods. Said once."""
        doubtful = self._desired.doubtful
        if doubtful and orphans and doubtful != self._spared:
            names = ", ".join(f"{one.namespace}/{one.name}" for one in orphans)
            log.warning("Leaving alone what runs and no manifest names (%s), until %s can be read", names, doubtful[0])
        self._spared = doubtful
        return bool(doubtful)

    async def remove_directories(self) -> None:
        """Take down what pods that are gone left on disk and in the kernel, one after another; a hanging one is its own
        trouble and tried again later."""
        in_runtime = {record.uid for record in self._runtime_pods.pods() if _is_alive(record)}
        try:
            found = sorted(self._files.pods_on_disk() | self._cgroups.leftovers())
        except OSError as error:
            self._complain("", f"Cannot look for what pods left behind, will try again: {error}")
            return
        self._stuck.pop("", None)
        for uid in found:
            if uid in in_runtime or not self._workers.should_content_be_removed(uid):
                continue
            with trio.move_on_after(self._bounds.housekeeping_period_seconds):
                await self._remove_directory(uid)

    async def _remove_directory(self, uid: str) -> None:
        try:
            await self._volumes.tear_down(uid)
            self._cgroups.remove(uid)
            self._files.remove_pod(uid)
        except (CgroupFailed, StillMounted, VolumeFailed, OSError) as error:
            self._complain(uid, f"Cannot remove what is left of pod {uid}, will try again: {error}")
        else:
            self._stuck.pop(uid, None)
            log.debug("Removed what was left of pod %s", uid)

    def _complain(self, uid: str, told: str) -> None:
        if self._stuck.get(uid) != told:
            log.warning("%s", told)
        self._stuck[uid] = told


def _is_alive(record: PodRecord) -> bool:
    return any(sandbox.state == SandboxState.READY for sandbox in record.sandboxes) or any(
        container.state == ContainerState.RUNNING for container in record.containers
    )
