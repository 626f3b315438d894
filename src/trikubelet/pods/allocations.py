"""The allocated resources of each pod, and those its containers were created with; kept over restarts.

    admitted as its spec is ──► a resize is granted: allocated again ──► its containers are made, or changed: noted

They are in a note in the pod's directory from before the first container is created, so the next agent after a crash
knows a pod's amounts and recognises a resize requested meanwhile. A pod without a note (an older agent's, or one
without containers) is allocated its spec's resources. Nothing is held in memory for a pod before it is admitted: until
then its note or its present spec counts. ``core.resize.allocation`` has the rules.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trikubelet.core.admission.pod_info import pod_info
from trikubelet.core.names import object_ref
from trikubelet.core.resize.allocation import Made, allocation_of, as_allocated, read, same, written
from trikubelet.core.resize.amounts import wanted
from trikubelet.core.resize.checkpoint import allocation_of_upstream
from trikubelet.core.resize.progress import unnoted
from trikubelet.kit.disk import takes_no_writes
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.pod_notes import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.core.resize.allocation import Allocation
    from trikubelet.core.resize.amounts import Amounts
    from trikubelet.core.resize.checkpoint import PodResources
    from trikubelet.model.k8s import Container, Pod
    from trikubelet.model.runtime import PodObservation
    from trikubelet.ports import PodNotes

log = logging.getLogger(__name__)


class Allocations:
    """Owns the allocations of pods and the amounts of their containers: the file ``resources`` of the pod's directory,
    and a copy in memory for the pods of this agent. Logs failed writes once an hour."""

    def __init__(self, notes: PodNotes) -> None:
        self._notes = notes
        self._failure_log = FailureLog()
        self._held: dict[str, Allocation] = {}
        self._upstreams: dict[str, Allocation] = {}
        self.version = 0
        """The number of changes of the allocations so far."""
        self._noted: set[str] = set()
        self._unwritten: set[str] = set()
        # For admitted pods: a pod, its allocation, and the pod with both combined, because each admission reads all of
        # them.
        self._joined: dict[str, tuple[Pod, Allocation, Pod]] = {}
        self._infos: dict[str, PodInfo] = {}

    def take_over(self, found: Mapping[str, PodResources], *, counts_before_notes: bool) -> None:
        """Take over allocations of upstream's kubelet, by UID. They count for pods without a note of this agent, and
        for all of them if upstream's kubelet ran last. Never raises."""
        for uid, resources in found.items():
            try:
                before = self._noted_of(uid)
                if before is None:
                    self._upstreams[uid] = allocation_of_upstream(resources)
                elif counts_before_notes:
                    self._notes.note(uid, Note.RESOURCES, written(allocation_of_upstream(resources, before)))
            except (OSError, ValueError) as error:
                log.warning("Pod %s: cannot take over its allocation by upstream's kubelet: %s", uid, error)

    def all(self) -> dict[str, Allocation]:
        """Return the allocation of every pod, by UID, including those that are not admitted yet."""
        return {**self._upstreams, **self._held}

    def admit(self, pod: Pod) -> None:
        """Allocate resources to a pod that the node admits: those that an earlier agent noted, otherwise the spec's,
        until it is forgotten. Never raises: if the note is unreadable the spec counts, which is logged."""
        uid = pod.metadata.uid
        if uid in self._held:
            return
        try:
            found = self._found(pod)
        except (OSError, ValueError) as error:
            log.warning("Pod %s: cannot read its allocation, its spec counts: %s", object_ref(pod), error)
            found = None
        if found is not None:
            self._noted.add(uid)
        self._held[uid] = found or allocation_of(pod)
        self.version += 1

    def of(self, pod: Pod) -> Allocation:
        """Return the pod's allocation, or the one it would get if it were admitted now. Only reads. Never raises."""
        held = self._held.get(pod.metadata.uid)
        if held is not None:
            return held
        try:
            return self._found(pod) or allocation_of(pod)
        except (OSError, ValueError):
            return allocation_of(pod)  # ``admit`` logs it: this is called every two seconds for a pod that waits

    def as_allocated(self, pod: Pod) -> Pod:
        """Return the pod with its allocated resources in place of the spec's; the same object if both are equal."""
        uid = pod.metadata.uid
        held, joined = self.of(pod), self._joined.get(uid)
        if joined is not None and joined[0] is pod and joined[1] is held:
            return joined[2]
        allocated = as_allocated(pod, held)
        if uid in self._held:
            self._joined[uid] = (pod, held, allocated)
        return allocated

    def info(self, pod: Pod) -> PodInfo:
        """Return the facts about the allocated pod for the admission of others."""
        uid = pod.metadata.uid
        allocated, info = self.as_allocated(pod), self._infos.get(uid)
        if info is not None and info.pod is allocated:
            return info
        info = pod_info(allocated)
        if uid in self._held:
            self._infos[uid] = info
        return info

    def allocate(self, pod: Pod) -> None:
        """Record that the node granted the resources of the pod's spec. Raises OSError, and then nothing is granted."""
        self._keep(pod.metadata.uid, allocation_of(pod, self.of(pod)))

    def creating(self, pod: Pod, container: Container, attempt: int) -> None:
        """Record that the container of that attempt is about to be created, or was changed, with the resources of
        ``pod``, as it is allocated. Raises OSError, except if the disk is full and the container is recreated: a
        restart does not wait for free space. ``learned`` writes the record later then."""
        uid, name, amounts = pod.metadata.uid, container.name, wanted(pod, container)
        try:
            self.changed(pod, name, attempt, amounts)
        except OSError as error:
            held = self.of(pod)
            if name not in held.made or not takes_no_writes(error):
                raise
            self._log_unwritten(pod, error)
            self._unwritten.add(uid)
            self._hold(uid, replace(held, made={**held.made, name: Made(attempt, amounts)}))

    def changed(self, pod: Pod, name: str, attempt: int, amounts: Amounts) -> None:
        """Record that the container of that attempt has these amounts from now on. Raises OSError."""
        held = self.of(pod)
        made = Made(attempt, amounts)
        if held.made.get(name) != made:
            self._noted.add(pod.metadata.uid)
            self._keep(pod.metadata.uid, replace(held, made={**held.made, name: made}))

    def learned(self, pod: Pod, observed: PodObservation) -> Allocation:
        """Return the pod's allocation. Containers without a record (of an older agent) are recorded first, as far as
        the runtime reports amounts that agree with the pod, as it is allocated."""
        held = self.of(pod)
        try:
            if pod.metadata.uid in self._unwritten:
                self._keep(pod.metadata.uid, held)
            for status, amounts in unnoted(pod, observed, held):
                self.changed(pod, status.name, status.attempt, amounts)
        except OSError as error:
            self._log_unwritten(pod, error)
        return self.of(pod)

    def pods_own_changed(self, pod: Pod) -> None:
        """Record that the pod's cgroup has the pod's own resources, as they are allocated. Raises OSError."""
        held = self.of(pod)
        if not same(held.pod_made, pod.spec.resources):
            self._keep(pod.metadata.uid, replace(held, pod_made=pod.spec.resources))

    def forget(self, uid: str) -> None:
        """Forget this instance of the pod; a new one is allocated anew."""
        self._held.pop(uid, None)
        self._upstreams.pop(uid, None)
        self.version += 1
        self._joined.pop(uid, None)
        self._infos.pop(uid, None)
        self._noted.discard(uid)
        self._unwritten.discard(uid)
        self._failure_log.works_again(uid)
        try:
            self._notes.forget_note(uid, Note.RESOURCES)
        except OSError as error:
            log.warning("Pod %s: cannot remove the note of its allocation: %s", uid, error)

    def _keep(self, uid: str, allocation: Allocation) -> None:
        # Before its first container there may be no directory, and no next agent needs the note.
        if uid in self._noted:
            self._notes.note(uid, Note.RESOURCES, written(allocation))
            self._failure_log.works_again(uid)
            self._unwritten.discard(uid)
        self._hold(uid, allocation)

    def _hold(self, uid: str, allocation: Allocation) -> None:
        self._held[uid] = allocation
        self.version += 1

    def _log_unwritten(self, pod: Pod, error: OSError) -> None:
        if self._failure_log.may_log(pod.metadata.uid):
            log.warning("Pod %s: cannot write the resources of its containers: %s", object_ref(pod), error)

    def _found(self, pod: Pod) -> Allocation | None:
        """Return the allocation that an earlier agent noted, or else that of upstream's kubelet, which lacks the
        generation of the spec. Raises OSError and ValueError."""
        found = self._noted_of(pod.metadata.uid)
        if found is not None:
            return found
        found = self._upstreams.get(pod.metadata.uid)
        if found is not None and as_allocated(pod, found) is pod:
            return replace(found, generation=pod.metadata.generation or 0)
        return found

    def _noted_of(self, uid: str) -> Allocation | None:
        content = self._notes.noted(uid, Note.RESOURCES)
        return read(content) if content else None

    def __repr__(self) -> str:
        return f"<Allocations of {len(self._held)} pods>"
