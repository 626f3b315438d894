"""The config mux: whole snapshots of the sources in, changes of single pods out.

Each source has a Slot of its own, so a fast one never blocks and a slow one never hides another. The channel to the
sync loop is the only blocking edge in the agent. It cannot deadlock, because nothing in the sync loop waits for a
source.

A UID belongs to one source at a time: to the first one that had it, until the changes that remove it were sent. Another
source that has it meanwhile gets an error, and its newest snapshot is compared once more afterwards.
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
    from collections.abc import Mapping, Sequence

    from trikubelet.kit.slot import Slot
    from trikubelet.model.k8s import Pod
    from trikubelet.ports import Events
    from trikubelet.sources.adoption import Adoption
    from trikubelet.sources.desired import DesiredPods
    from trikubelet.sources.objects import ManifestObjects
    from trikubelet.sources.snapshot import Snapshot

log = logging.getLogger(__name__)


class Mux:
    """Compares each snapshot with the one before and passes on the changes. A source's objects are known before the
    pods that came with them. Owns the source of each UID, and each source's newest snapshot with the pods of it that
    were left out."""

    def __init__(
        self,
        slots: Mapping[str, Slot[Snapshot]],
        desired: DesiredPods,
        objects: ManifestObjects,
        changes: trio.MemorySendChannel[PodUpdate],
        events: Events,
        adoption: Adoption,
    ) -> None:
        self._slots = slots
        self._desired = desired
        self._objects = objects
        self._changes = changes
        self._events = events
        self._adoption = adoption
        self._owners: dict[str, str] = {}  # UID → source
        self._newest: dict[str, Snapshot] = {}
        self._left_out: dict[str, tuple[Pod, ...]] = {}
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
            snapshot = await self._adoption.settle(await slot.take())
            changes = self._accept(source, snapshot)
            for change in changes:
                await self._changes.send(change)
            self._give_up(source, changes)

    def _accept(self, source: str, snapshot: Snapshot) -> tuple[PodUpdate, ...]:
        self._objects.replace(source, snapshot.objects)
        before, self._newest[source] = self._newest.get(source, snapshot), snapshot
        taken = {uid for uid, owner in self._owners.items() if owner != source}
        restarted = {
            uid
            for uid in snapshot.lives.keys() | before.lives.keys()
            if snapshot.lives.get(uid) != before.lives.get(uid)
        }
        merged = merge(source, self._desired.of(source), snapshot.pods, self._differs, taken, restarted)
        self._owners.update(dict.fromkeys(merged.pods, source))
        reported = self._desired.undecodable_of(source)
        self._desired.replace(source, merged.pods, snapshot.invalid_manifests, snapshot.undecodable)
        for ref, why in snapshot.undecodable.items():
            if reported.get(ref) != why:
                message = f"Error validating pod {ref} from {source}: {why}, ignoring this version of it"
                self._events.record(ref, "Warning", "FailedValidation", message)
        said = {object_ref(pod) for pod in self._left_out.get(source, ())}
        self._left_out[source] = merged.duplicates
        for pod in merged.duplicates:
            if object_ref(pod) not in said:
                self._say_left_out(source, pod)
        return merged.changes

    def _say_left_out(self, source: str, pod: Pod) -> None:
        ref, owner = object_ref(pod), self._owners.get(pod.metadata.uid, source)
        if owner == source:
            why = "duplicate pod name"
            log.warning("Source %s has two pods of the name or UID of %s; the first one counts", source, ref)
        else:
            why = f"duplicate pod UID, which a pod of source {owner} has"
            said = "Pod %s of source %s is left out for as long as a pod of source %s has its UID, %s"
            log.warning(said, ref, source, owner, pod.metadata.uid)
        message = f"Error validating pod {ref} from {source}: {why}, ignoring"
        self._events.record(ref, "Warning", "FailedValidation", message)

    def _give_up(self, source: str, changes: Sequence[PodUpdate]) -> None:
        """Release the UIDs of removed pods for other sources, because the changes were sent."""
        gone = {one.pod.metadata.uid for one in changes if one.op is Op.REMOVE} - self._desired.of(source).keys()
        for uid in gone:
            self._owners.pop(uid, None)
        for other, left_out in self._left_out.items():
            if other != source and any(pod.metadata.uid in gone for pod in left_out):
                self._slots[other].put_if_empty(self._newest[other])

    def _differs(self, known: Pod, pod: Pod) -> Op | None:
        ref = object_ref(pod)
        with self._barriers.of(f"Pod {ref}", partial(self._events.record, ref, "Warning", "FailedSync")):
            return difference(known, pod)
        return None
