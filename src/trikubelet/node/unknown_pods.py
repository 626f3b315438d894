"""Reports pods that another node agent began on the same runtime, and leaves them alone.

    start ─► the root directory's pods are read ─► an orphan among them is ended by housekeeping
                                                └► another one runs on: a log line, an event of the node

``pods.known_uids`` defines which pods are this node's. An operator ends the others with ``--end-unknown-pods`` or
``trikubelet reset`` (docs/decisions/0041).
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from trikubelet.core.names import uid_of_log_directory
from trikubelet.core.unknown_pods import MEANS, UNKNOWN_PODS, UnknownOnRuntime, unknown_pods_message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from trikubelet.core.relist import PodRecord
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.objects import ObjectRef
    from trikubelet.pods.known_uids import KnownUids
    from trikubelet.pods.workers import PodWorkers
    from trikubelet.ports import Events, PodFiles, RuntimePods

log = logging.getLogger(__name__)


class UnknownPods:
    """Owns the last reported unknown pods, so that each set of them is reported once, which pods of this node have no
    directory any more but perhaps containers or logs, and which pods have one that another agent made."""

    def __init__(
        self,
        *,
        workers: PodWorkers,
        runtime_pods: RuntimePods,
        files: PodFiles,
        events: Events,
        node: ObjectRef,
        bounds: Bounds,
        means: str = MEANS,
    ) -> None:
        """``means``: how an operator ends unknown pods."""
        self._known: KnownUids = workers.known
        self._workers = workers
        self._runtime_pods = runtime_pods
        self._files = files
        self._bounds = bounds
        self._events = events
        self._node = node
        self._means = means
        self._reported: frozenset[str] = frozenset()
        self._disk_problem = ""
        self._has_read = False
        self._removed: set[str] = set()
        self._foreign: frozenset[str] = frozenset()
        self._prune_at = 0.0

    async def look(self) -> None:
        """Read once which pods the root directory has; later forget pods without leftovers. A disk that does not answer
        is retried at the next call; until it answers no pod is an orphan."""
        try:
            if not self._has_read:
                await self._read()
        except OSError as error:
            problem = error.strerror or str(error)
            if problem != self._disk_problem:
                log.warning("Cannot read which pods this node has, so orphaned pods may stay: %s", problem)
            self._disk_problem = problem
            return
        # A pod that is wanted here, too, was adopted: from now on its directory identifies it for the next agent.
        await self._note_foreign({uid for uid in self._foreign if uid not in self._known})
        if trio.current_time() >= self._prune_at:
            with suppress(OSError):  # garbage collection reports a disk that does not answer
                await self._prune()

    async def _read(self) -> None:
        on_disk = await self._files.pods_on_disk()
        self._removed |= self._files.removed_pods()
        self._foreign = self._files.unknown_pods()
        self._known.learn((on_disk - self._foreign) | self._removed)
        self._has_read = True

    async def _prune(self) -> None:
        """Forget pods without leftovers in the runtime, the logs and the disk: removed ones, those of another agent,
        and then, once there are many, the known ones."""
        self._prune_at = trio.current_time() + self._bounds.garbage_period_seconds
        if self._removed:
            logs = set(map(uid_of_log_directory, await self._files.log_directories()))
            left = {uid for uid in self._removed if uid in logs or self._runtime_pods.may_have(uid)}
            if left != self._removed:
                self._removed = left
                self._files.note_removed(left)
        if self._foreign or self._known.are_many:
            on_disk = await self._files.pods_on_disk()
            known = self._runtime_pods.may_have
            await self._note_foreign({uid for uid in self._foreign if uid in on_disk or known(uid)})
            if self._known.are_many:
                self._known.forget_all_but({*on_disk, *self._removed, *self._runtime_pods.uids(), *self._workers.uids})

    async def _note_foreign(self, left: AbstractSet[str]) -> None:
        if left != self._foreign:
            with suppress(OSError):  # on a full disk the next call tries again
                await self._files.note_unknown(left)
                self._foreign = frozenset(left)

    def note_removal(self, uid: str) -> None:
        """Note that the pod's directory is about to be removed, which was the evidence that the pod is this node's. The
        note replaces it until its ended containers and its logs are gone too."""
        self._removed.add(uid)
        with suppress(OSError):  # on a full disk the directory must go all the same
            self._files.note_removed(self._removed)

    def left_out(self, orphans: Sequence[PodRecord]) -> list[PodRecord]:
        """Return the orphans that are this node's; the others are reported if they differ from the last time."""
        if not self._known.has_looked:
            return []
        unknown = [one for one in orphans if one.uid not in self._known]
        uids = frozenset(one.uid for one in unknown)
        if unknown and not uids <= self._reported:
            running = [(one.namespace, one.name) for one in unknown]
            message = unknown_pods_message(UnknownOnRuntime(running), self._means)
            log.warning("%s", message)
            self._events.record(self._node, "Warning", UNKNOWN_PODS, message)
        self._reported = uids
        return [one for one in orphans if one.uid in self._known]
