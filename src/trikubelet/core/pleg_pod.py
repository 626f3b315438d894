"""What PLEG still has to do about one pod: one record, and what each thing that happens makes of it.

An idle pod has no record. A pod that is not idle is somewhere on each of these two lines, which it walks independently:

    on-demand relist   None ──requested──► requested_at ──list_began──► listing ──list_ended──► None, or once more
    inspection         None ──due────► Waiting ──inspection_began──► Inspecting ──inspected, inspection_failed──► None

They meet where an older answer could have the last word:

- An on-demand relist that a newer full list overtook is thrown away, and so is one whose pod came under inspection
  meanwhile (the pod is asked for again).
- An on-demand relist is thrown away, too, if something of its pod has no label by which it would be in it; then the
  next full list answers.
- A full list that a newer on-demand relist overtook (``is_newer_than_full_list``) or that finds the pod under
  inspection does not speak for the pod: ``supersedes_full_list``. It only shows that the inspection began from another
  picture, ``is_outdated``.
- What was known at an instant may be wrong (``stale_since``): after a failed or outdated inspection, or because
  somebody said so. Only an inspection of a newer list makes it current again.

Plain data and no clock: times are instants (``kit.instant``) that the caller brings along. ``pleg/pods.py`` keeps the
records and says whose turn it is, ``pleg/pleg.py`` brings the facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trikubelet.core.relist import PodChange


class Job(NamedTuple):
    """One inspection to make: how the pod was listed, in a list that began at the instant ``began``."""

    change: PodChange
    began: float


class UninspectedPod(NamedTuple):
    """A pod that could not be inspected since that time (Trio's clock, seconds), and why."""

    uid: str
    name: str
    namespace: str
    since: float
    why: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """An inspection is due. ``job``: as an on-demand relist found the pod; None: as the newest full list has it when
    its turn comes, since thousands may wait and a pod may change meanwhile."""

    job: Job | None = None
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class Inspecting:
    """An inspection has run since that time (Trio's clock). ``is_hung``: for so long that its place is given away.
    ``is_outdated``: a full list has shown another picture than the inspection began from."""

    job: Job
    since: float
    is_hung: bool = False
    is_outdated: bool = False


@dataclass(frozen=True, slots=True)
class PlegPod:
    """What is to be done about a pod, see the module. ``listing``: when the request was made that the on-demand relist
    under way answers. ``changing``: how many change the pod now, and ask for it when they have. ``failing``:
    inspections have failed since the last that succeeded."""

    requested_at: float | None = None
    listing: float | None = None
    is_newer_than_full_list: bool = False
    inspection: Waiting | Inspecting | None = None
    stale_since: float | None = None
    failing: UninspectedPod | None = None
    changing: int = 0

    @property
    def is_inspecting(self) -> bool:
        """Whether an inspection is under way."""
        return isinstance(self.inspection, Inspecting)

    @property
    def is_waiting(self) -> bool:
        """Whether an inspection is due and has not begun."""
        return isinstance(self.inspection, Waiting)

    @property
    def supersedes_full_list(self) -> bool:
        """Whether the full list under way, or just in, does not speak for the pod."""
        return self.is_newer_than_full_list or self.is_inspecting

    @property
    def must_be_inspected(self) -> bool:
        """Whether an on-demand relist is followed by an inspection even if it finds the pod as recorded."""
        return self.stale_since is not None or self.is_waiting

    def may_be_listed(self, after: float) -> bool:
        """Whether an on-demand relist may begin. A request made by ``after`` waits: a full list is about to answer."""
        return (
            self.requested_at is not None
            and self.requested_at > after
            and self.listing is None
            and not self.is_inspecting
        )


IDLE: Final = PlegPod()
DUE: Final = PlegPod(inspection=Waiting())
"""Listed, nothing else: shared, for on the first look at a large node thousands of pods are so at once."""


class ListEnd(Enum):
    """What becomes of an on-demand relist that is in."""

    TAKEN = auto()
    """It is the newest word on the pod."""
    SUPERSEDED = auto()
    """A newer full list has reported already: it is thrown away."""
    INCOMPLETE = auto()
    """Something of the pod is not in it: it is thrown away, and the next full list sees the pod."""
    RETRY = auto()
    """The pod came under inspection meanwhile: it is thrown away, and the pod asked for again."""


# ---- requests ----


def relist_requested(pod: PlegPod, at: float) -> PlegPod:
    """Somebody asks for an on-demand relist. Asking again is asking once, later: only a newer list answers it."""
    return replace(pod, requested_at=at if pod.requested_at is None else max(at, pod.requested_at))


def request_dropped(pod: PlegPod) -> PlegPod:
    """The request found no room: the next full list sees the pod."""
    return replace(pod, requested_at=None)


def hinted(pod: PlegPod, at: float, *, is_known: bool) -> PlegPod:
    """The runtime sent an event of the pod. Where its worker or garbage collection is at it, that is mostly what they
    do, three events for each start; the rest nobody could act on before they are done, and they ask then. One that is
    not ``is_known``, and of which nothing is wanted, is not ours, or not any more: the next full list is soon
    enough for it, and a runtime may name any number of them."""
    return pod if pod.changing or (pod == IDLE and not is_known) else relist_requested(pod, at)


def inspection_requested(pod: PlegPod, at: float) -> PlegPod:
    """Somebody says that what is known now may be wrong though no list shows it."""
    return relist_requested(replace(pod, stale_since=at), at)


def change_began(pod: PlegPod) -> PlegPod:
    """Somebody begins to change the pod."""
    return replace(pod, changing=pod.changing + 1)


def change_ended(pod: PlegPod, at: float) -> PlegPod:
    """One of those who changed the pod is done, and wants to see what came of it."""
    return relist_requested(replace(pod, changing=pod.changing - 1), at)


# ---- on-demand relists ----


def list_began(pod: PlegPod) -> PlegPod:
    """An on-demand relist begins; it answers the request."""
    return replace(pod, requested_at=None, listing=pod.requested_at)


def list_failed(pod: PlegPod) -> PlegPod:
    """The on-demand relist failed or cannot be made; the next full list will see the pod."""
    return replace(pod, listing=None)


def list_ended(
    pod: PlegPod, began: float, listed_at: float | None, listing_since: float | None, *, has_unlabelled: bool
) -> tuple[PlegPod, ListEnd]:
    """The on-demand relist that began at that instant is in. ``listed_at``: when the newest full list that succeeded
    began; ``listing_since``: when the one under way did; ``has_unlabelled``: ``Relist.has_unlabelled``."""
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
    """The on-demand relist found something to inspect."""
    assert not pod.is_inspecting
    return replace(pod, inspection=Waiting(job))


# ---- full lists ----


def full_list_began(pod: PlegPod) -> PlegPod:
    """A full list begins; no on-demand relist is newer than it yet."""
    return replace(pod, is_newer_than_full_list=False) if pod.is_newer_than_full_list else pod


def full_list_ended(pod: PlegPod, began: float, at: float, *, is_due: bool, is_other: bool) -> PlegPod:
    """The full list that began at that instant is in, ``at`` now. ``is_due``: it shows the pod not as recorded;
    ``is_other``: nor as the pod's inspection, made or due, began from. It answers who asked before it began."""
    if pod.supersedes_full_list:
        if is_other and pod.inspection is not None:
            pod = replace(pod, inspection=replace(pod.inspection, is_outdated=True))
        # The record was set back to what this list has seen, which is older than what was recorded: ask once more.
        return relist_requested(replace(pod, is_newer_than_full_list=False), at) if pod.is_newer_than_full_list else pod
    if pod.requested_at is not None and pod.requested_at < began:
        pod = replace(pod, requested_at=None)
    if is_due or pod.is_waiting or pod.stale_since is not None:
        pod = replace(pod, inspection=DUE.inspection)
    return pod


# ---- inspections ----


def inspection_began(pod: PlegPod, job: Job, now: float) -> PlegPod:
    """The pod's turn has come. ``job``: what it waited with, or the pod as the newest full list has it."""
    assert isinstance(pod.inspection, Waiting)
    return replace(pod, inspection=Inspecting(job, now, is_outdated=pod.inspection.is_outdated))


def inspection_hangs(pod: PlegPod) -> PlegPod:
    """The inspection has taken so long that its place goes to another; it goes on beside them."""
    assert isinstance(pod.inspection, Inspecting)
    return replace(pod, inspection=replace(pod.inspection, is_hung=True))


def inspected(pod: PlegPod, at: float) -> PlegPod:
    """The inspection succeeded. If it is outdated, a newer list has seen what it did not ask for; if it began before
    it became stale, it stays so: either way the pod is asked for again."""
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
    """The inspection failed. The next list that is in has it tried again."""
    inspection = pod.inspection
    assert isinstance(inspection, Inspecting)
    change = inspection.job.change
    since = inspection.since if pod.failing is None else pod.failing.since
    failing = UninspectedPod(change.uid, change.name, change.namespace, since, why)
    return _stale_since(replace(pod, inspection=None, failing=failing), inspection.job.began)


def uninspected(pod: PlegPod) -> UninspectedPod | None:
    """Since when the pod is out of sight, and why; None for one that is not under inspection and did not fail."""
    inspection = pod.inspection
    if not isinstance(inspection, Inspecting) or (pod.failing is not None and not inspection.is_hung):
        return pod.failing  # tried once more: the error of the last time says more
    change = inspection.job.change
    since = inspection.since if pod.failing is None else pod.failing.since
    return UninspectedPod(change.uid, change.name, change.namespace, since, "no answer yet")


def _stale_since(pod: PlegPod, instant: float) -> PlegPod:
    return pod if pod.stale_since is not None else replace(pod, stale_since=instant)
