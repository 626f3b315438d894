"""The pods for which PLEG has pending work, and their order.

Each has one record, ``core.pleg_pod``; a pod without a record is idle. In addition there are two queues: the pods with
a requested relist, oldest first, and those whose inspection is due. Each queued pod has a record.

A request for an on-demand relist is dropped if the queue is full: the next full list covers it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from trikubelet.core import pleg_pod
from trikubelet.core.pleg_pod import DUE, IDLE, Inspecting, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from trikubelet.core.pleg_pod import Job, PlegPod, UninspectedPod
    from trikubelet.core.relist import PodChange


class PlegPods:
    """Owns PLEG's record of each pod, and the numbers of requests answered by full lists or dropped."""

    def __init__(self, requests_max: int) -> None:
        self._pods: dict[str, PlegPod] = {}
        self._requested: dict[str, None] = {}
        self._due: OrderedDict[str, None] = OrderedDict()
        self._inspecting: dict[str, None] = {}
        self._hung = 0
        self._requests_max = requests_max
        self._answered = 0
        self._dropped = 0

    @property
    def answered(self) -> int:
        """The number of requests that a newer full list made unnecessary."""
        return self._answered

    @property
    def dropped(self) -> int:
        """The number of requests dropped because the queue was full."""
        return self._dropped

    def note_superseded(self) -> None:
        """Count an on-demand relist whose result came after a newer full list."""
        self._answered += 1

    def get(self, uid: str) -> PlegPod:
        """Return a pod's record; ``IDLE`` if there is nothing to do."""
        return self._pods.get(uid, IDLE)

    def put(self, uid: str, pod: PlegPod) -> None:
        """Store a pod's new record, and update the queues."""
        if pod.requested_at is None:
            self._requested.pop(uid, None)
        elif uid not in self._requested:
            if len(self._requested) >= self._requests_max:
                self._dropped += 1
                pod = pleg_pod.request_dropped(pod)
            else:
                self._requested[uid] = None
        before = self.get(uid).inspection
        self._hung += _is_hung(pod.inspection) - _is_hung(before)
        if isinstance(pod.inspection, Waiting):
            self._due.setdefault(uid)
        else:
            self._due.pop(uid, None)
        if isinstance(pod.inspection, Inspecting):
            self._inspecting[uid] = None
        else:
            self._inspecting.pop(uid, None)
        if pod == IDLE:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod

    # ---- requests ----

    @property
    def requested(self) -> Collection[str]:
        """The pods with a requested relist that has not begun, oldest first."""
        return self._requested.keys()

    def begin_list(self, after: float) -> str | None:
        """Return the pod whose on-demand relist begins now; None if none may. Requests made up to ``after`` wait."""
        for uid in self._requested:
            if self._pods[uid].may_be_listed(after):
                self.put(uid, pleg_pod.list_began(self._pods[uid]))
                return uid
        return None

    # ---- full lists ----

    def full_list_began(self) -> None:
        """Record that a full list begins, which is newer than all earlier on-demand relists."""
        for uid, pod in [(uid, pod) for uid, pod in self._pods.items() if pod.is_newer_than_full_list]:
            self.put(uid, pleg_pod.full_list_began(pod))

    def full_list_ended(
        self, began: float, at: float, due: Collection[str], as_listed: Callable[[str], PodChange]
    ) -> set[str]:
        """Record at ``at`` the result of the full list begun at ``began``; the pods in ``due`` have changed,
        ``as_listed`` returns the change of one. Return the pods that the list does not confirm, or only after their
        inspection."""
        pending = set()
        differs = frozenset(due)
        for uid, pod in list(self._pods.items()):
            if pod is DUE:
                pending.add(uid)  # a fast path: after the start of a large node there are thousands of these
                continue
            is_other = pod.supersedes_full_list and _is_other(pod.inspection, uid, as_listed)
            after = pleg_pod.full_list_ended(pod, began, at, is_due=uid in differs, is_other=is_other)
            self._answered += pod.requested_at is not None and after.requested_at is None
            self.put(uid, after)
            if pod.is_newer_than_full_list or after.inspection is not None:
                pending.add(uid)
        # The pods that were idle. After the start there are thousands, so ``put`` is avoided (docs/decisions/0012).
        idle = [uid for uid in due if uid not in self._pods]
        self._pods.update(dict.fromkeys(idle, DUE))
        self._due.update(dict.fromkeys(idle))
        pending.update(idle)
        return pending

    # ---- inspections ----

    @property
    def due(self) -> Collection[str]:
        """The pods whose inspection is due, in their order."""
        return self._due.keys()

    @property
    def inspecting(self) -> Collection[str]:
        """The pods that are being inspected."""
        return self._inspecting.keys()

    @property
    def in_places(self) -> int:
        """The number of running inspections that count against the bound: those that do not hang."""
        return len(self._inspecting) - self._hung

    @property
    def has_uninspected(self) -> bool:
        """True if a pod is being inspected, or its observation is stale."""
        return bool(self._inspecting) or any(pod.stale_since is not None for pod in self._pods.values())

    def found(self, uid: str, job: Job) -> None:
        """Record that an on-demand relist found a change."""
        self.put(uid, pleg_pod.found(self.get(uid), job))
        # First in the queue, because a worker waits for it; changes found by full lists can wait.
        self._due.move_to_end(uid, last=False)

    def begin_inspection(self, now: float, as_listed: Callable[[str], Job]) -> Job | None:
        """Return the inspection that begins now; None if none is due. ``as_listed`` returns a pod as it is in the
        newest full list."""
        for uid in self._due:
            pod = self._pods[uid]
            assert isinstance(pod.inspection, Waiting)
            job = pod.inspection.job or as_listed(uid)
            self.put(uid, pleg_pod.inspection_began(pod, job, now))
            return job
        return None

    def look_for_hung(self, before: float) -> None:
        """Mark the inspections that began before this time (Trio's clock) as hung."""
        for uid in list(self._inspecting):
            pod = self._pods[uid]
            if isinstance(pod.inspection, Inspecting) and not pod.inspection.is_hung and pod.inspection.since < before:
                self.put(uid, pleg_pod.inspection_hangs(pod))

    def began_first(self) -> float | None:
        """Return the beginning of the oldest running inspection (Trio's clock); None without one."""
        running = (self._pods[uid].inspection for uid in self._inspecting)
        return min((one.since for one in running if isinstance(one, Inspecting)), default=None)

    def uninspected_pods(self, *, also_running: bool = True) -> list[UninspectedPod]:
        """Return the pods whose last inspection failed, or hangs, or (``also_running``) runs; longest first."""
        found = [
            late
            for pod in self._pods.values()
            if also_running or pod.failing or _is_hung(pod.inspection)
            if (late := pleg_pod.uninspected(pod))
        ]
        return sorted(found, key=lambda one: (one.since, one.uid))

    def __len__(self) -> int:
        """The number of pods that are not idle."""
        return len(self._pods)

    def __repr__(self) -> str:
        requested = f"{len(self._requested)} requested, {self.answered} answered by full lists, {self.dropped} dropped"
        running = f"{self.in_places} being inspected, {self._hung} hang, {len(self._due)} wait"
        return f"<PlegPods: {len(self)} not idle; {requested}; {running}>"


def _is_hung(inspection: Waiting | Inspecting | None) -> bool:
    return isinstance(inspection, Inspecting) and inspection.is_hung


def _is_other(inspection: Waiting | Inspecting | None, uid: str, as_listed: Callable[[str], PodChange]) -> bool:
    """True if the inspection began, or will begin, from a state of the pod that differs from the newest full list."""
    return inspection is not None and inspection.job is not None and inspection.job.change != as_listed(uid)
