"""Adopts the static pods that another kubelet began on this root directory, under that kubelet's UIDs.

    first snapshot of files ─► pods' directories: noted adoptions, and pods that this agent did not begin
                               └► the runtime's observation of these ─► table: UID of the manifest ─► running UID
    each snapshot ─► its pods with the UIDs of the table ─► mux

The table is made once, before the mux receives any file, because a pod running under another UID would be ended as an
earlier version. It waits for the runtime only if the root directory has pods that this agent did not begin. An adoption
is noted in the pod's directory, so that an edit made while no agent runs is noticed by the next one. ``core.adoption``
decides which pods may be adopted.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import trio

from trikubelet.core.adoption import is_computed_uid, why_not_same, with_uid
from trikubelet.core.names import namespaced_name, object_ref
from trikubelet.kit.failure_log import FailureLog
from trikubelet.kit.instant import instant
from trikubelet.model.pod_notes import Note
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Pod
    from trikubelet.model.runtime import PodObservation
    from trikubelet.ports import PodCache, PodDirectories, PodNotes
    from trikubelet.sources.snapshot import Snapshot

    class Files(PodDirectories, PodNotes, Protocol):
        """The pods' directories and the notes in them."""


log = logging.getLogger(__name__)

FAILED_INSPECTIONS_MAX: Final = 10
"""Attempts for one pod; PLEG inspects it again about once a second."""
LOOK_AGAIN_SECONDS: Final = 1.0


class Adoption:
    """Owns the mapping of UIDs that this agent computed from manifests to UIDs of another kubelet."""

    def __init__(self, files: Files, cache: PodCache) -> None:
        self._files = files
        self._cache = cache
        self._uids: dict[str, str] = {}
        self._is_decided = False
        self._failure_log = FailureLog()

    def uid_of(self, uid: str) -> str:
        """Return the UID under which the pod with the manifest's UID ``uid`` runs."""
        return self._uids.get(uid, uid)

    async def settle(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the UIDs under which its static pods run. The first one of files waits until they
        are known."""
        if not snapshot.changed_ns:
            return snapshot
        if not self._is_decided:
            await self._decide(snapshot)
            self._is_decided = True
        if not self._uids:
            return snapshot
        return replace(snapshot, pods=tuple(map(self._as_running, snapshot.pods)))

    def _as_running(self, pod: Pod) -> Pod:
        uid = self.uid_of(pod.metadata.uid)
        return pod if uid == pod.metadata.uid else with_uid(pod, uid)

    async def _decide(self, snapshot: Snapshot) -> None:
        noted, foreign = await self._read_directories()
        self._uids = noted
        pods = [pod for pod in snapshot.pods if is_computed_uid(pod.metadata.uid)]
        foreign = [uid for uid in foreign if all(uid != pod.metadata.uid for pod in pods)]
        if not (pods and foreign):
            return
        log.info("The root directory has %d static pods of another kubelet; waiting for the runtime", len(foreign))
        for uid in foreign:
            observed = await self._observe(uid)
            if observed is not None and observed.sandboxes:
                self._match(pods, snapshot, observed)

    async def _read_directories(self) -> tuple[dict[str, str], list[str]]:
        """Return the noted adoptions (UID of the manifest to running UID), and the UIDs of static pods that have
        neither such a note nor one of this agent's containers. Waits for a disk that does not answer: no pod can begin
        there."""
        while True:
            try:
                uids = sorted(filter(is_computed_uid, await self._files.pods_on_disk()))
                notes = {uid: self._files.noted(uid, Note.ADOPTED) for uid in uids}
                noted = {note.decode(): uid for uid, note in notes.items() if note}
                foreign = [uid for uid in uids if not (notes[uid] or self._files.noted(uid, Note.RESOURCES))]
            except (OSError, ValueError) as error:
                if self._failure_log.may_log("directories"):
                    log.warning("Cannot read which static pods another kubelet began, so static pods wait: %s", error)
                await trio.sleep(LOOK_AGAIN_SECONDS)
            else:
                return noted, foreign

    async def _observe(self, uid: str) -> PodObservation | None:
        """Return the runtime's state of the pod, once it was listed; None if it cannot tell."""
        since, problem = -math.inf, ""
        for _ in range(FAILED_INSPECTIONS_MAX):
            try:
                return await self._cache.newer_than(uid, since)
            except (RuntimeCallError, trio.TooSlowError) as error:
                since, problem = instant(), str(error) or "it did not answer in time"
        log.warning(
            "Pod of UID %s: another kubelet began it, and the runtime cannot report its state: %s", uid, problem
        )
        return None

    def _match(self, pods: Sequence[Pod], snapshot: Snapshot, observed: PodObservation) -> None:
        for pod in pods:
            if namespaced_name(pod) != (observed.namespace, observed.name):
                continue
            why_not = why_not_same(pod, snapshot.changed_ns.get(pod.metadata.uid), observed)
            if why_not:
                log.warning("Pod %s: the pod of another kubelet is not taken over: %s", object_ref(pod), why_not)
                continue
            log.info("Pod %s: taking over the pod of another kubelet, UID %s", object_ref(pod), observed.uid)
            self._uids[pod.metadata.uid] = observed.uid
            self._note(pod, observed.uid)

    def _note(self, pod: Pod, uid: str) -> None:
        try:
            self._files.note(uid, Note.ADOPTED, pod.metadata.uid.encode())
        except OSError as error:  # the next agent decides again
            log.warning("Pod %s: cannot note that it was taken over: %s", object_ref(pod), error)

    def __repr__(self) -> str:
        return f"<Adoption of {len(self._uids)} pods>"
