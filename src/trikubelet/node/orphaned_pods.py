"""Removing what pods that are gone left on the disk and in the kernel: every pod's directory, and of some more.

    pass ─► who left something that nobody needs ─► one of a few places ─┬─► is down ────────┬─► directory ─► removed
                                                                         └─► volumes, cgroup ┘       │
                                                                                └────────────────────┴► logged; the next
                                                                                                  pass meets it again

Volumes and cgroup are taken down by the pod's worker, as the last it does. They are met here only where no worker of
this agent did so (the pod ended under an earlier one, or never began under this), or where something came back. The
directory goes here for all, when nobody desires the pod any more: by then its worker may have been done for long, and
has no task (docs/decisions/0038).

Whoever is met here has no worker that still has something to do. So nobody else takes it down beside us, and it gets
the time that its worker would have given it: a driver that needs three seconds to give a volume back has them. Passes
come with housekeeping's comparisons, which do not wait for the disk that says what is there: while it does not answer
there is no pass. Nor does a pass wait for what it begins. A removal under way is given up when a pass
finds that the pod has come back, as a static one may: what is there then is the new instance's. A thread that unmounts
or removes by then goes on, and the new instance gets no directory and no volumes until it has ended.
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
    from trikubelet.ports import PodCgroups, PodDirectories, RuntimePods

log = logging.getLogger(__name__)

_LOOKING: Final = "look for what pods left behind"
_KINDS: Final = (VolumeFailed, CgroupFailed, StillMounted, OSError, trio.TooSlowError, Exception)
"""What stands in the way of a removal; the last is a bug."""


class OrphanedPodCleanup:
    """Owns which orphaned pods are being cleaned up and which could not be when that was last tried, the complaints
    about them, and how many were ``removed`` between the last two passes."""

    def __init__(
        self,
        workers: PodWorkers,
        runtime_pods: RuntimePods,
        directories: PodDirectories,
        cgroups: PodCgroups,
        tear_down: TearDown,
        unknown: UnknownPods,
        bounds: Bounds,
    ) -> None:
        self._workers = workers
        self._runtime_pods = runtime_pods
        self._directories = directories
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
        """Remove what passes find, until cancelled. Started: ``clean_up`` may be called."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._keyed_tasks.run)
            task_status.started()
            while True:
                await self._due.take()
                await self._pass()

    def clean_up(self) -> None:
        """Have what is there and nobody needs removed, as soon as it is known what is there. Only once it is known what
        is wanted and what runs. Never blocks: what is asked for during a pass is one more."""
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
        self._tear_down.keep(directories - cgroups)  # a cgroup that was removed is here again
        gone = {uid for uid in directories | cgroups if self._may_go(uid)}
        self._stuck &= gone
        for uid, removal in self._under_way.items():
            if not self._may_go(uid):
                removal.cancel()
        for uid in sorted(gone):
            if uid not in self._keyed_tasks:
                self._keyed_tasks.begin(uid, partial(self._remove, uid))

    @property
    def stuck(self) -> int:
        """How many orphaned pods were there at the last pass and could not be cleaned up when that was last tried."""
        return len(self._stuck)

    def _may_go(self, uid: str) -> bool:
        """Whether nobody needs what is left of the pod. To be asked after each checkpoint: a static pod may come back
        under its UID meanwhile, and its directory and cgroup are the new instance's."""
        if self._workers.is_at_work(uid):
            return False  # what the pod held is its worker's to take down: two at once would ask its drivers twice
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
        log.debug("Removed what was left of pod %s", uid)

    def _failed(self, uid: str, error: Exception) -> None:
        self._stuck.add(uid)
        self._tear_down.not_down(uid)  # a volume may be mounted there again
        kind = next(kind for kind in _KINDS if isinstance(error, kind))
        if not self._failure_log.may_log(_what(uid, kind)):
            return
        late = f"its directory was not removed within {self._bounds.runtime_call_seconds_max:g} s"
        why = late if kind is trio.TooSlowError else message_of(error)
        bug = error if kind is Exception else None
        log.warning("Cannot remove what is left of pod %s, will try again: %s", uid, why, exc_info=bug)

    def __repr__(self) -> str:
        return f"<OrphanedPodCleanup: {self._keyed_tasks}, {self.stuck} stuck>"


def _what(uid: str, kind: type[Exception]) -> str:
    """The name of a complaint: what stands in the way is worth another, how it says so is not."""
    return f"{uid} {kind.__name__}"
