"""The allocations of pods in upstream's files, to hand them over to and from upstream's kubelet.

    start ─► allocated_pods_state, actuated_pods_state ─► Allocations
    each second in which an allocation changed ─► both files, and once more at the end

This agent uses the notes in the pods' directories (``pods.allocations``). The files count for pods without a note, and
for all pods if upstream's kubelet wrote them last. Without the files upstream's kubelet would assume that each
container was created without resources, and restart those whose resize policy requires that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.core.resize.checkpoint import actuated, allocated, read, written
from trikubelet.kit.every import Every
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.names import uid_problem
from trikubelet.model.pod_notes import NodeNote

if TYPE_CHECKING:
    from trikubelet.core.resize.checkpoint import Checkpoint, PodResources
    from trikubelet.pods.allocations import Allocations
    from trikubelet.ports import PodDirectories, PodNotes

    class Files(PodDirectories, PodNotes, Protocol):
        """The root directory's files about all pods, and which pods have a directory there."""


log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 1.0
"""The least time between two writes. The files have all pods, and their checksum is computed in Python: 10 ms at 110
pods."""
LAST_WRITE_SECONDS_MAX: Final = 5.0


class AllocationCheckpoints:
    """Owns upstream's two files while this agent runs, and the version of the allocations in them."""

    def __init__(self, files: Files, allocations: Allocations) -> None:
        self._files = files
        self._allocations = allocations
        self._actuated_before: dict[str, PodResources] = {}
        self._written_version = 0
        self._failure_log = FailureLog()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the files up to date until cancelled. Started once they were read."""
        await self._load()
        task_status.started()
        try:
            async for _ in Every(WRITE_SECONDS):
                await self._write()
        finally:
            with trio.move_on_after(LAST_WRITE_SECONDS_MAX, shield=True):
                await self._write()

    async def _load(self) -> None:
        try:
            on_disk = await self._files.pods_on_disk()
        except OSError as error:
            log.warning("Cannot read which pods upstream's kubelet had: %s", error)
            return
        found = self._read(NodeNote.ALLOCATED)
        if found is not None:
            there = {uid: one for uid, one in found.pods.items() if uid in on_disk and not uid_problem(uid)}
            self._allocations.take_over(there, counts_before_notes=not found.is_own)
        made = self._read(NodeNote.ACTUATED)
        if made is not None:
            self._actuated_before = {uid: one for uid, one in made.pods.items() if uid in on_disk}

    def _read(self, note: NodeNote) -> Checkpoint | None:
        try:
            content = self._files.node_note(note)
            return read(content) if content else None
        except (OSError, ValueError) as error:
            log.warning("Cannot read %s, so pods are allocated the resources of their specs: %s", note.value, error)
            return None

    async def _write(self) -> None:
        version, held = self._allocations.version, self._allocations.all()
        if version == self._written_version:
            return
        self._actuated_before = {uid: one for uid, one in self._actuated_before.items() if uid in held}
        made = {uid: actuated(one, self._actuated_before.get(uid)) for uid, one in held.items()}
        granted = {uid: allocated(one) for uid, one in held.items()}
        try:
            await self._files.keep_node_note(NodeNote.ALLOCATED, written(granted))
            await self._files.keep_node_note(NodeNote.ACTUATED, written(made))
        except OSError as error:
            if self._failure_log.may_log("write"):
                log.warning("Cannot write the allocations of pods for a later kubelet: %s", error)
        else:
            self._failure_log.works_again("write")
            self._written_version = version

    def __repr__(self) -> str:
        return f"<AllocationCheckpoints of version {self._written_version}>"
