"""The pods about which PLEG has something to do, and whose turn it is.

Each has one record, ``core.pleg_pod``; a pod without one is idle. Beside the records stand two lines, in the order of
turns: the pods that were asked for, oldest first, and those whose inspection is due. Neither has more than the records
do.

A request for an on-demand relist that finds its line full is dropped: losing it is never worse than waiting for the
next full list.
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
    """Owns what PLEG has to do about each pod, and how many requests were answered or dropped without a list."""

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
        """Requests that a newer full list made unnecessary."""
        return self._answered

    @property
    def dropped(self) -> int:
        """Requests that found their line full."""
        return self._dropped

    def note_superseded(self) -> None:
        """The list of one pod that was asked for is in, and a newer full list was there before it."""
        self._answered += 1

    def get(self, uid: str) -> PlegPod:
        """A pod's record; ``IDLE`` where there is nothing to do."""
        return self._pods.get(uid, IDLE)

    def put(self, uid: str, pod: PlegPod) -> None:
        """Keep what became of a pod's record; the lines follow it."""
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
        """The pods that were asked for and are not yet listed, oldest first."""
        return self._requested.keys()

    def begin_list(self, after: float) -> str | None:
        """Return the pod whose on-demand relist begins now; None when none may. Requests made by ``after`` wait on."""
        for uid in self._requested:
            if self._pods[uid].may_be_listed(after):
                self.put(uid, pleg_pod.list_began(self._pods[uid]))
                return uid
        return None

    # ---- full lists ----

    def full_list_began(self) -> None:
        """No on-demand relist is newer than the full list that begins now."""
        for uid, pod in [(uid, pod) for uid, pod in self._pods.items() if pod.is_newer_than_full_list]:
            self.put(uid, pleg_pod.full_list_began(pod))

    def full_list_ended(
        self, began: float, at: float, due: Collection[str], as_listed: Callable[[str], PodChange]
    ) -> set[str]:
        """The full list that began at that instant is in, ``at`` now; ``due`` are not as recorded, ``as_listed`` says
        how a pod is. Returns the pods for which it does not speak, or not before they are inspected."""
        pending = set()
        differs = frozenset(due)
        for uid, pod in list(self._pods.items()):
            if pod is DUE:
                pending.add(uid)  # thousands, on the first look at a large node, and nothing to be said of them
                continue
            is_other = pod.supersedes_full_list and _is_other(pod.inspection, uid, as_listed)
            after = pleg_pod.full_list_ended(pod, began, at, is_due=uid in differs, is_other=is_other)
            self._answered += pod.requested_at is not None and after.requested_at is None
            self.put(uid, after)
            if pod.is_newer_than_full_list or after.inspection is not None:
                pending.add(uid)
        # Those that were idle: thousands on the first look, so not by ``put`` (docs/decisions/0012).
        idle = [uid for uid in due if uid not in self._pods]
        self._pods.update(dict.fromkeys(idle, DUE))
        self._due.update(dict.fromkeys(idle))
        pending.update(idle)
        return pending

    # ---- inspections ----

    @property
    def due(self) -> Collection[str]:
        """Whose inspection is due, in the order of their turns."""
        return self._due.keys()

    @property
    def inspecting(self) -> Collection[str]:
        """The pods under inspection."""
        return self._inspecting.keys()

    @property
    def in_places(self) -> int:
        """The number of inspections under way that count against the bound: those that do not hang."""
        return len(self._inspecting) - self._hung

    @property
    def has_uninspected(self) -> bool:
        """True if some pod is under inspection, or the observation of it stale."""
        return bool(self._inspecting) or any(pod.stale_since is not None for pod in self._pods.values())

    def found(self, uid: str, job: Job) -> None:
        """An on-demand relist found something to inspect. A worker waits for it: its turn comes before all others."""
        self.put(uid, pleg_pod.found(self.get(uid), job))
        self._due.move_to_end(uid, last=False)

    def begin_inspection(self, now: float, as_listed: Callable[[str], Job]) -> Job | None:
        """Whose inspection begins now; None when none is due. ``as_listed``: a pod as the newest full list has it."""
        for uid in self._due:
            pod = self._pods[uid]
            assert isinstance(pod.inspection, Waiting)
            job = pod.inspection.job or as_listed(uid)
            self.put(uid, pleg_pod.inspection_began(pod, job, now))
            return job
        return None

    def look_for_hung(self, before: float) -> None:
        """The inspections that began before that time (Trio's clock) count as hung."""
        for uid in list(self._inspecting):
            pod = self._pods[uid]
            if isinstance(pod.inspection, Inspecting) and not pod.inspection.is_hung and pod.inspection.since < before:
                self.put(uid, pleg_pod.inspection_hangs(pod))

    def began_first(self) -> float | None:
        """When the oldest inspection under way began (Trio's clock)."""
        running = (self._pods[uid].inspection for uid in self._inspecting)
        return min((one.since for one in running if isinstance(one, Inspecting)), default=None)

    def uninspected_pods(self, *, also_running: bool = True) -> list[UninspectedPod]:
        """The pods out of sight, longest first: whose inspection failed last, or hangs, or (``also_running``) runs."""
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
        requested = f"{len(self._requested)} asked for, {self.answered} answered by full lists, {self.dropped} dropped"
        running = f"{self.in_places} under inspection, {self._hung} hang, {len(self._due)} wait"
        return f"<PlegPods: {len(self)} not idle; {requested}; {running}>"


def _is_hung(inspection: Waiting | Inspecting | None) -> bool:
    return isinstance(inspection, Inspecting) and inspection.is_hung


def _is_other(inspection: Waiting | Inspecting | None, uid: str, as_listed: Callable[[str], PodChange]) -> bool:
    """True if the inspection began, or is to begin, from another picture of the pod than the newest full list has."""
    return inspection is not None and inspection.job is not None and inspection.job.change != as_listed(uid)
