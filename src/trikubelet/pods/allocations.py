"""What each pod of this node is allocated, and what its containers were made with: kept, and found again.

    admitted as its spec is ──► a resize is granted: allocated again ──► its containers are made, or changed: noted

It stands in a note of the pod's directory from before the first container is made, so a killed agent's successor knows
what a pod had and can recognise a resize requested meanwhile. A pod without a note (an older agent's, or one of
which nothing was made) is allocated what its spec says. Nothing is held of a pod before it is admitted: until then it
is judged by its note or by the spec it has now. ``core.resize.allocation`` has the rules.
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
    """Owns what each pod is allocated and what its containers were made with: the file ``resources`` of the pod's
    directory, and a copy in memory of what this agent asked for. Says once an hour which of it cannot be written."""

    def __init__(self, notes: PodNotes) -> None:
        self._notes = notes
        self._failure_log = FailureLog()
        self._held: dict[str, Allocation] = {}
        self._upstreams: dict[str, Allocation] = {}
        self.version = 0
        """The number of changes of the allocations so far."""
        self._noted: set[str] = set()
        self._unwritten: set[str] = set()
        # Of those held: a pod, its allocation, and what came of both, since each admission asks it of all the others.
        self._joined: dict[str, tuple[Pod, Allocation, Pod]] = {}
        self._infos: dict[str, PodInfo] = {}

    def take_over(self, found: Mapping[str, PodResources], *, counts_before_notes: bool) -> None:
        """Upstream's kubelet has allocated these, by UID. They count for pods of which this agent noted nothing, and
        for all of them where it ran last. Never raises."""
        for uid, resources in found.items():
            try:
                before = self._noted_of(uid)
                if before is None:
                    self._upstreams[uid] = allocation_of_upstream(resources)
                elif counts_before_notes:
                    self._notes.note(uid, Note.RESOURCES, written(allocation_of_upstream(resources, before)))
            except (OSError, ValueError) as error:
                log.warning("Pod %s: what upstream's kubelet allocated it cannot be taken over: %s", uid, error)

    def all(self) -> dict[str, Allocation]:
        """Return the allocation of every pod, by UID, with those that are not admitted yet."""
        return {**self._upstreams, **self._held}

    def admit(self, pod: Pod) -> None:
        """The node admits the pod: it is allocated what an earlier agent noted, otherwise what its spec says now, until
        it is forgotten. Never raises: what cannot be read is taken from the spec, and logged."""
        uid = pod.metadata.uid
        if uid in self._held:
            return
        try:
            found = self._found(pod)
        except (OSError, ValueError) as error:
            log.warning("Pod %s: what it was allocated cannot be read, its spec counts: %s", object_ref(pod), error)
            found = None
        if found is not None:
            self._noted.add(uid)
        self._held[uid] = found or allocation_of(pod)
        self.version += 1

    def of(self, pod: Pod) -> Allocation:
        """What the pod is allocated, or would be if it were admitted now. Only reads. Never raises."""
        held = self._held.get(pod.metadata.uid)
        if held is not None:
            return held
        try:
            return self._found(pod) or allocation_of(pod)
        except (OSError, ValueError):
            return allocation_of(pod)  # ``admit`` logs it: a pod that waits is asked about every two seconds

    def as_allocated(self, pod: Pod) -> Pod:
        """The pod with what it is allocated in place of what its spec says; the same one where both say the same."""
        uid = pod.metadata.uid
        held, joined = self.of(pod), self._joined.get(uid)
        if joined is not None and joined[0] is pod and joined[1] is held:
            return joined[2]
        allocated = as_allocated(pod, held)
        if uid in self._held:
            self._joined[uid] = (pod, held, allocated)
        return allocated

    def info(self, pod: Pod) -> PodInfo:
        """What counts of the pod, as it is allocated, when another is admitted."""
        uid = pod.metadata.uid
        allocated, info = self.as_allocated(pod), self._infos.get(uid)
        if info is not None and info.pod is allocated:
            return info
        info = pod_info(allocated)
        if uid in self._held:
            self._infos[uid] = info
        return info

    def allocate(self, pod: Pod) -> None:
        """The node has granted what the pod's spec asks for. Raises OSError, and nothing is granted."""
        self._keep(pod.metadata.uid, allocation_of(pod, self.of(pod)))

    def creating(self, pod: Pod, container: Container, attempt: int) -> None:
        """The container of that attempt is about to be made, or was changed, as the pod, which is as it is allocated,
        has it. Raises OSError, but not if the disk is full and the container is made again: a restart does not wait
        for room. ``learned`` writes it down then."""
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
        """The container of that attempt has these amounts from now on. Raises OSError."""
        held = self.of(pod)
        made = Made(attempt, amounts)
        if held.made.get(name) != made:
            self._noted.add(pod.metadata.uid)
            self._keep(pod.metadata.uid, replace(held, made={**held.made, name: made}))

    def learned(self, pod: Pod, observed: PodObservation) -> Allocation:
        """What the pod is allocated, with what its containers seem to have been made with that nobody noted it of (an
        older agent's): as far as the runtime reports, with what the pod, which is as it is allocated, gives them."""
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
        """The pod's cgroup has what the pod, which is as it is allocated, has of its own. Raises OSError."""
        held = self.of(pod)
        if not same(held.pod_made, pod.spec.resources):
            self._keep(pod.metadata.uid, replace(held, pod_made=pod.spec.resources))

    def forget(self, uid: str) -> None:
        """This instance of the pod is over, and a new one is allocated again."""
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
            log.warning("Pod %s: what it was allocated is still noted: %s", uid, error)

    def _keep(self, uid: str, allocation: Allocation) -> None:
        # Before its first container there may be no directory, and there is nothing to be found again.
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
            log.warning("Pod %s: what its containers have cannot be written down: %s", object_ref(pod), error)

    def _found(self, pod: Pod) -> Allocation | None:
        """Return the allocation that an earlier agent noted, or else the one that upstream's kubelet did, which does
        not say of which generation of the spec that is. Raises OSError and ValueError."""
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
