"""The config mux: whole snapshots of the sources in, changes of single pods out.

Each source writes into a Slot of its own, so a fast one never blocks and a slow one never hides another. The channel to
the sync loop is the one blocking edge in the agent; it is not on the task ring, since nothing the sync loop does waits
for a source.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio

from trikubelet.core.merge import Op, PodUpdate, difference, merge
from trikubelet.core.names import object_ref
from trikubelet.kit.fault_barriers import FaultBarriers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.kit.slot import Slot
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Events
    from trikubelet.sources.desired import DesiredPods
    from trikubelet.sources.objects import ManifestObjects
    from trikubelet.sources.snapshot import Snapshot

log = logging.getLogger(__name__)


class Mux:
    """Compares each snapshot with the one before and passes on what changed. A source's objects are known before the
    pods that came with them."""

    def __init__(
        self,
        slots: Mapping[str, Slot[Snapshot]],
        desired: DesiredPods,
        objects: ManifestObjects,
        changes: trio.MemorySendChannel[PodUpdate],
        events: Events,
    ) -> None:
        self._slots = slots
        self._desired = desired
        self._objects = objects
        self._changes = changes
        self._events = events
        self._barriers = FaultBarriers(
            log, "%s: a bug in comparing it with what it was; it is left until its next change"
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow every source until cancelled."""
        async with trio.open_nursery() as nursery:
            for source, slot in self._slots.items():
                nursery.start_soon(self._follow, source, slot)
            task_status.started()

    async def _follow(self, source: str, slot: Slot[Snapshot]) -> None:
        while True:
            snapshot = await slot.take()
            for change in self._accept(source, snapshot):
                await self._changes.send(change)

    def _accept(self, source: str, snapshot: Snapshot) -> tuple[PodUpdate, ...]:
        self._objects.replace(source, snapshot.objects)
        merged = merge(source, self._desired.of(source), snapshot.pods, self._differs)
        reported = self._desired.undecodable_of(source)
        self._desired.replace(source, merged.pods, snapshot.invalid_manifests, snapshot.undecodable)
        for ref, why in snapshot.undecodable.items():
            if reported.get(ref) != why:
                message = f"Error validating pod {ref} from {source}: {why}, ignoring this version of it"
                self._events.record(ref, "Warning", "FailedValidation", message)
        for pod in merged.duplicates:
            ref = object_ref(pod)
            log.warning("Source %s has two pods of the name or UID of %s; the first one counts", source, ref)
            message = f"Error validating pod {ref} from {source}: duplicate pod name, ignoring"
            self._events.record(ref, "Warning", "FailedValidation", message)
        return merged.changes

    def _differs(self, known: Pod, pod: Pod) -> Op | None:
        ref = object_ref(pod)
        with self._barriers.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync")):
            return difference(known, pod)
        return None
