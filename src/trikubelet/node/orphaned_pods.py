"""Removes the leftovers of gone pods on the disk and in the kernel: every pod's directory, and more for some pods.

    pass ─► pods whose leftovers may be removed ─► one of a few slots ─┬─► is down ────────┬─► directory ─► removed
                                                                       └─► volumes, cgroup ┘       │
                                                                              └────────────────────┴► logged; the next
                                                                                                      pass retries

The pod's worker takes down volumes and cgroup at its end. That is done here only if no worker of this agent did it (the
pod ended under an earlier one, or never began under this), or if something came back. The directory is always removed
here, when the pod is no longer desired: by then its worker may long have finished, and has no task
(docs/decisions/0038).

A pod that is cleaned up here has no worker with work left. So no other task takes it down concurrently, and it gets the
time that its worker would have: a driver that needs three seconds for a volume has them. Passes come with
housekeeping's comparisons, but listing the leftovers is asynchronous: while the disk does not answer there is no pass.
A pass does not wait for the removals it begins. A removal under way is cancelled when a pass finds that the pod has
come back, as a static one may: then the rest belongs to the new instance. A thread that is unmounting or removing goes
on, and the new instance gets no directory and no volumes until it has ended.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit.barrier import Barrier, message_of
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.keyed_tasks import KeyedTasks
from trikubelet.kit.slot import Slot
from trikubelet.model.errors import CgroupFailed, StillMounted, VolumeFailed

if TYPE_CHECKING:
    from trikubelet.model.bounds import Bounds
    from trikubelet.node.unknown_pods import UnknownPods
    from trikubelet.pods.tear_down import TearDown
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import PodCgroups, PodDevices, PodDirectories, RuntimePods

log = logging.getLogger(__name__)

_LOOKING: Final = "look for leftovers of pods"
_KINDS: Final = (VolumeFailed, CgroupFailed, StillMounted, OSError, trio.TooSlowError, Exception)
"""The expected obstacles to a removal; the last is a bug."""


class OrphanedPodCleanup:
    """Owns which orphaned pods are being cleaned up and which failed the last time, the reports about them, and how
    many were ``removed`` between the last two passes."""

    def __init__(
        self,
        workers: PodWorkers,
        runtime_pods: RuntimePods,
        directories: PodDirectories,
        devices: PodDevices,
        cgroups: PodCgroups,
        tear_down: TearDown,
        unknown: UnknownPods,
        bounds: Bounds,
    ) -> None:
        self._workers = workers
        self._runtime_pods = runtime_pods
        self._directories = directories
        self._devices = devices
        self._cgroups = cgroups
        self._tear_down = tear_down
        self._unknown = unknown
        self._bounds = bounds
        self._keyed_tasks = KeyedTasks(bounds.removals_max, bounds.removal_hung_seconds)
        self._failure_log = FailureLog()
        self._due: Slot[None] = Slot()
        self._under_way: dict[str, trio.CancelScope] = {}
        self._stuck: set[str] = set()
        self._removed_since = 0
        self.removed = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Remove what passes find, until cancelled. Started when ``clean_up`` may be called."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._keyed_tasks.run)
            task_status.started()
            while True:
                await self._due.take()
                await self._pass()

    def clean_up(self) -> None:
        """Request a pass that removes unneeded leftovers. Must only be called once the wanted and the running pods are
        known. Never blocks: a request during a pass adds one more."""
        self._due.put(None)

    async def _pass(self) -> None:
        try:
            directories = await self._directories.pods_on_disk()
            cgroups = self._cgroups.leftovers()
        except OSError as error:
            if self._failure_log.may_log(_LOOKING):
                log.warning("Cannot %s, will try again: %s", _LOOKING, error)
            return
        self._failure_log.works_again(_LOOKING)
        self.removed, self._removed_since = self._removed_since, 0
        self._tear_down.keep(directories - cgroups)  # a cgroup listed here means that it is back
        gone = {uid for uid in directories | cgroups if self._may_go(uid)}
        self._stuck &= gone
        for uid, removal in self._under_way.items():
            if not self._may_go(uid):
                removal.cancel()
        for uid in sorted(gone):
            if uid not in self._keyed_tasks:
                self._keyed_tasks.begin(uid, partial(self._remove, uid))
        for uid in sorted(self._devices.holders()):
            if not self._workers.could_have_running_containers(uid) and not self._runtime_pods.may_have(uid):
                await self._devices.release(uid)  # of a pod that left nothing else here

    @property
    def stuck(self) -> int:
        """The number of orphaned pods at the last pass whose last cleanup failed."""
        return len(self._stuck)

    def _may_go(self, uid: str) -> bool:
        """True if the pod's leftovers are not needed. Must be called after each checkpoint, because a static pod may
        come back under its UID meanwhile, and its directory and cgroup are the new instance's."""
        if self._workers.is_at_work(uid):
            return False  # its worker takes it down: two at once would call its drivers twice
        return not self._runtime_pods.is_running(uid) and self._workers.should_content_be_removed(uid)

    async def _remove(self, uid: str) -> None:
        self._under_way[uid] = removal = trio.CancelScope()
        try:
            with Barrier(partial(self._failed, uid)), removal:
                may_go = partial(self._may_go, uid)
                if may_go() and await self._tear_down.take_down(uid, may_go):
                    await self._remove_directory(uid)
        finally:
            del self._under_way[uid]

    async def _remove_directory(self, uid: str) -> None:
        self._unknown.note_removal(uid)
        with trio.fail_after(self._bounds.runtime_call_seconds_max):
            await self._directories.remove_pod(uid)
        self._removed_since += 1
        self._stuck.discard(uid)
        for kind in _KINDS:
            self._failure_log.works_again(_what(uid, kind))
        log.debug("Removed the leftovers of pod %s", uid)

    def _failed(self, uid: str, error: Exception) -> None:
        self._stuck.add(uid)
        self._tear_down.not_down(uid)  # a volume may be mounted there again
        kind = next(kind for kind in _KINDS if isinstance(error, kind))
        if not self._failure_log.may_log(_what(uid, kind)):
            return
        late = f"its directory was not removed within {self._bounds.runtime_call_seconds_max:g} s"
        why = late if kind is trio.TooSlowError else message_of(error)
        bug = error if kind is Exception else None
        log.warning("Cannot remove the leftovers of pod %s, will try again: %s", uid, why, exc_info=bug)

    def __repr__(self) -> str:
        return f"<OrphanedPodCleanup: {self._keyed_tasks}, {self.stuck} stuck>"


def _what(uid: str, kind: type[Exception]) -> str:
    """Return the key of a report: another kind of obstacle is reported again, another message is not."""
    return f"{uid} {kind.__name__}"
