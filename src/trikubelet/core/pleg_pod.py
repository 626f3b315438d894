"""PLEG's pending work on one pod: one record, and its transition for each event.

An idle pod has no record. Any other is at some point of each of these two lines, which are independent:

    on-demand relist   None ──requested──► requested_at ──list_began──► listing ──list_ended──► None, or once more
    inspection         None ──due────► Waiting ──inspection_began──► Inspecting ──inspected, inspection_failed──► None

They meet where an older answer could overwrite a newer one:

- An on-demand relist is discarded if a newer full list overtook it, or if its pod came under inspection meanwhile (then
  the pod is requested again).
- An on-demand relist is also discarded if something of its pod lacks the label by which it would be listed; then the
  next full list answers.
- A full list does not count for a pod if a newer on-demand relist overtook it (``is_newer_than_full_list``) or if it
  finds the pod under inspection: ``supersedes_full_list``. It only shows that the inspection began from another
  observation, ``is_outdated``.
- What was known at an instant may be wrong (``stale_since``): after a failed or outdated inspection, or on request.
  Only an inspection of a newer list makes it current again.

Plain data and no clock: times are instants (``kit.instant``) that the caller passes. ``pleg/pods.py`` keeps the records
and schedules the work, ``pleg/pleg.py`` supplies the facts.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from trikubelet.core.relist import PodChange


class Job(NamedTuple):
    """One inspection to make: the pod as listed, in a list that began at the instant ``began``."""

    change: PodChange
    began: float


class UninspectedPod(NamedTuple):
    """A pod that could not be inspected since that time (Trio's clock, seconds), with the reason."""

    uid: str
    name: str
    namespace: str
    since: float
    why: str


class Waiting(Frozen):
    """An inspection is due. ``job``: the pod as an on-demand relist found it; None: as the newest full list has it when
    its turn comes, since thousands may wait and a pod may change meanwhile."""

    job: Job | None = None
    is_outdated: bool = False


class Inspecting(Frozen):
    """An inspection has run since that time (Trio's clock). ``is_hung``: for so long that its slot was given away.
    ``is_outdated``: a full list has shown another observation than the inspection began from."""

    job: Job
    since: float
    is_hung: bool = False
    is_outdated: bool = False


class PlegPod(Frozen):
    """The pending work on a pod, see the module. ``listing``: when the request was made that the on-demand relist under
    way answers. ``changing``: the number of callers that are changing the pod, and request a relist when done.
    ``failing``: inspections have failed since the last success."""

    requested_at: float | None = None
    listing: float | None = None
    is_newer_than_full_list: bool = False
    inspection: Waiting | Inspecting | None = None
    stale_since: float | None = None
    failing: UninspectedPod | None = None
    changing: int = 0

    @property
    def is_inspecting(self) -> bool:
        """True if an inspection is under way."""
        return isinstance(self.inspection, Inspecting)

    @property
    def is_waiting(self) -> bool:
        """True if an inspection is due and has not begun."""
        return isinstance(self.inspection, Waiting)

    @property
    def supersedes_full_list(self) -> bool:
        """True if the full list under way, or just received, does not count for the pod."""
        return self.is_newer_than_full_list or self.is_inspecting

    @property
    def must_be_inspected(self) -> bool:
        """True if an on-demand relist is followed by an inspection even if it finds the pod as recorded."""
        return self.stale_since is not None or self.is_waiting

    def may_be_listed(self, after: float) -> bool:
        """True if an on-demand relist may begin. A request made by ``after`` waits: a full list is about to answer."""
        return (
            self.requested_at is not None
            and self.requested_at > after
            and self.listing is None
            and not self.is_inspecting
        )


IDLE: Final = PlegPod()
DUE: Final = PlegPod(inspection=Waiting())
"""Listed, nothing else: shared, because on the first list of a large node thousands of pods are in this state."""


class ListEnd(Enum):
    """The use of a received on-demand relist."""

    TAKEN = auto()
    """It is the newest observation of the pod."""
    SUPERSEDED = auto()
    """A newer full list has reported already: it is discarded."""
    INCOMPLETE = auto()
    """It lacks something of the pod: it is discarded, and the next full list sees the pod."""
    RETRY = auto()
    """The pod came under inspection meanwhile: it is discarded, and the pod requested again."""


# ---- requests ----


def relist_requested(pod: PlegPod, at: float) -> PlegPod:
    """Record a request for an on-demand relist. Several requests count as one, the latest: only a newer list answers
    it."""
    return replace(pod, requested_at=at if pod.requested_at is None else max(at, pod.requested_at))


def request_dropped(pod: PlegPod) -> PlegPod:
    """Drop the request because there is no room: the next full list sees the pod."""
    return replace(pod, requested_at=None)


def hinted(pod: PlegPod, at: float, *, is_known: bool) -> PlegPod:
    """Record that the runtime sent an event about the pod. While its worker or garbage collection changes the pod, most
    events are their own work, three for each start; they request a relist when they are done. An event about a pod that
    is not ``is_known``, with no pending work, is not ours, or no longer: the next full list is soon enough, and a
    runtime may name any number of those."""
    return pod if pod.changing or (pod == IDLE and not is_known) else relist_requested(pod, at)


def inspection_requested(pod: PlegPod, at: float) -> PlegPod:
    """Record that what is known now may be wrong although no list shows it."""
    return relist_requested(replace(pod, stale_since=at), at)


def change_began(pod: PlegPod) -> PlegPod:
    """Record that a caller begins to change the pod."""
    return replace(pod, changing=pod.changing + 1)


def change_ended(pod: PlegPod, at: float) -> PlegPod:
    """Record that a caller has changed the pod, and request a relist that shows the result."""
    return relist_requested(replace(pod, changing=pod.changing - 1), at)


# ---- on-demand relists ----


def list_began(pod: PlegPod) -> PlegPod:
    """Record that an on-demand relist begins; it answers the request."""
    return replace(pod, requested_at=None, listing=pod.requested_at)


def list_failed(pod: PlegPod) -> PlegPod:
    """Record that the on-demand relist failed or cannot be made; the next full list will see the pod."""
    return replace(pod, listing=None)


def list_ended(
    pod: PlegPod, began: float, listed_at: float | None, listing_since: float | None, *, has_unlabelled: bool
) -> tuple[PlegPod, ListEnd]:
    """Record that the on-demand relist that began at that instant was received. ``listed_at``: when the newest
    successful full list began; ``listing_since``: when the one under way began; ``has_unlabelled``:
    ``Relist.has_unlabelled``."""
    request = pod.listing
    pod = replace(pod, listing=None)
    if listed_at is not None and listed_at > began:
        return pod, ListEnd.SUPERSEDED
    if has_unlabelled:
        return pod, ListEnd.INCOMPLETE
    if pod.is_inspecting:  # a full list that began earlier was faster
        return (pod if request is None else relist_requested(pod, request)), ListEnd.RETRY
    is_newer_than_full_list = listing_since is not None and began > listing_since
    return replace(pod, is_newer_than_full_list=pod.is_newer_than_full_list or is_newer_than_full_list), ListEnd.TAKEN


def found(pod: PlegPod, job: Job) -> PlegPod:
    """Record that the on-demand relist found a pod to inspect."""
    assert not pod.is_inspecting
    return replace(pod, inspection=Waiting(job))


# ---- full lists ----


def full_list_began(pod: PlegPod) -> PlegPod:
    """Record that a full list begins; no on-demand relist is newer than it yet."""
    return replace(pod, is_newer_than_full_list=False) if pod.is_newer_than_full_list else pod


def full_list_ended(pod: PlegPod, began: float, at: float, *, is_due: bool, is_other: bool) -> PlegPod:
    """Record that the full list that began at that instant was received, ``at`` now. ``is_due``: the pod differs from
    its record; ``is_other``: and from the observation that its inspection, running or due, began from. The list answers
    requests made before it began."""
    if pod.supersedes_full_list:
        if is_other and pod.inspection is not None:
            pod = replace(pod, inspection=replace(pod.inspection, is_outdated=True))
        # The record was set back to this list's observation, which is older than the recorded one: request once more.
        return relist_requested(replace(pod, is_newer_than_full_list=False), at) if pod.is_newer_than_full_list else pod
    if pod.requested_at is not None and pod.requested_at < began:
        pod = replace(pod, requested_at=None)
    if is_due or pod.is_waiting or pod.stale_since is not None:
        pod = replace(pod, inspection=DUE.inspection)
    return pod


# ---- inspections ----


def inspection_began(pod: PlegPod, job: Job, now: float) -> PlegPod:
    """Begin the pod's inspection. ``job``: the one it waited with, or the pod as the newest full list has it."""
    assert isinstance(pod.inspection, Waiting)
    return replace(pod, inspection=Inspecting(job, now, is_outdated=pod.inspection.is_outdated))


def inspection_hangs(pod: PlegPod) -> PlegPod:
    """Record that the inspection takes so long that its slot is given away; it continues meanwhile."""
    assert isinstance(pod.inspection, Inspecting)
    return replace(pod, inspection=replace(pod.inspection, is_hung=True))


def inspected(pod: PlegPod, at: float) -> PlegPod:
    """Record that the inspection succeeded. If it is outdated, a newer list saw changes that it missed; if it began
    before the pod became stale, the pod stays so. Either way the pod is requested again."""
    inspection = pod.inspection
    assert isinstance(inspection, Inspecting)
    began = inspection.job.began
    pod = replace(pod, inspection=None, failing=None)
    if inspection.is_outdated:
        return relist_requested(_stale_since(pod, began), at)
    if pod.stale_since is None:
        return pod
    return replace(pod, stale_since=None) if pod.stale_since < began else relist_requested(pod, at)


def inspection_failed(pod: PlegPod, why: str) -> PlegPod:
    """Record that the inspection failed. The next list triggers another try."""
    inspection = pod.inspection
    assert isinstance(inspection, Inspecting)
    change = inspection.job.change
    since = inspection.since if pod.failing is None else pod.failing.since
    failing = UninspectedPod(change.uid, change.name, change.namespace, since, why)
    return _stale_since(replace(pod, inspection=None, failing=failing), inspection.job.began)


def uninspected(pod: PlegPod) -> UninspectedPod | None:
    """Return since when the pod could not be inspected, and why; None unless it is under inspection or failed."""
    inspection = pod.inspection
    if not isinstance(inspection, Inspecting) or (pod.failing is not None and not inspection.is_hung):
        return pod.failing  # the last error is more useful than a second try under way
    change = inspection.job.change
    since = inspection.since if pod.failing is None else pod.failing.since
    return UninspectedPod(change.uid, change.name, change.namespace, since, "no answer yet")


def _stale_since(pod: PlegPod, instant: float) -> PlegPod:
    return pod if pod.stale_since is not None else replace(pod, stale_since=instant)
