"""Decides which remembered pods start while no API server answers after a reboot.

    the store's head ─► is it this node's? ─► the same boot? ─► per pod: one fate, with its reason

Pure. Remembered is not known: a pod that is not started here is never rejected, removed or collected; it waits. The
rule is the control plane's: a pod that the cluster would have taken away by now, by the pod's own tolerations, waits.
(docs/decisions/0046)
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from trikubelet.core.admission.taints import NO_EXECUTE, tolerates
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.frozen import Frozen
from trikubelet.model.k8s import Taint

if TYPE_CHECKING:
    from trikubelet.model.k8s import Pod

UNREACHABLE: Final = Taint(key="node.kubernetes.io/unreachable", effect=NO_EXECUTE)
NOT_READY: Final = Taint(key="node.kubernetes.io/not-ready", effect=NO_EXECUTE)
"""The taints that the control plane gives a node that it hears nothing of, and one that reports not to be ready."""
_ENDED: Final = ("Succeeded", "Failed")


class Owner(Frozen):
    """The node and the cluster that a store belongs to. ``cluster``: a digest of its authority and its server."""

    cluster: str
    node_name: str
    machine_id: str


class Boot(Frozen):
    """One life of the machine. ``has_containers``: the runtime has running containers. After ``systemctl soft-reboot``,
    or where a runtime lost its tasks, the id is the same and none does."""

    id: str
    has_containers: bool


class Remembered(Frozen):
    """A pod as the store has it. ``was_admitted``: this node began it; ``is_over``: its end was recorded here, or its
    deletion was seen and carried out; ``runs``: the runtime has running containers of its UID; ``name_taken``: the
    runtime has a newer sandbox of its namespace and name under another UID."""

    pod: Pod
    was_admitted: bool
    is_over: bool = False
    runs: bool = False
    name_taken: bool = False


class Contact(Frozen):
    """The last answer of an API server: when (wall clock), and whether the node reported to be ready then."""

    at_ns: int
    was_ready: bool


class Away(Frozen):
    """The time without an answer. ``seconds``: by the wall clock, None if that cannot be trusted; ``seconds_counted``:
    measured by agents that ran, so at least this long."""

    seconds: float | None
    seconds_counted: float

    @property
    def seconds_min(self) -> float:
        """The time that has certainly passed."""
        return self.seconds_counted if self.seconds is None else max(self.seconds, self.seconds_counted)


class OfflineRules(Frozen):
    """The configuration. ``starts_all``: also pods that the cluster would have taken away (``--offline-pods=all``)."""

    age_seconds_max: float = 168 * 3600.0
    starts_all: bool = False


class Fate(Enum):
    """The decision about one remembered pod, in the words of the metric."""

    STARTS = "starts"
    ADOPTED = "adopted"
    ENDS = "ends"
    OVER = "over"
    NEVER_ADMITTED = "never-admitted"
    NAME_TAKEN = "name-taken"
    TAKEN_AWAY = "taken-away"
    AGE_UNKNOWN = "age-unknown"
    TOO_OLD = "too-old"


class Verdict(Frozen):
    """The fate of one pod and its reason, for ``describe`` and the doctor; no reason for one that starts."""

    fate: Fate
    reason: str = ""


def foreign(store: Owner, here: Owner) -> str:
    """Return why a store is not this node's: nothing starts from it; "" if it is."""
    if store.cluster != here.cluster:
        return "it belongs to another cluster"
    if store.node_name != here.node_name:
        return f"it belongs to the node {store.node_name}"
    if store.machine_id != here.machine_id:
        return "it was copied from another machine"
    return ""


def is_same_life(remembered_boot_id: str, boot: Boot) -> bool:
    """True if the agent was restarted and the machine was not: what runs is adopted, and nothing has to start."""
    return bool(remembered_boot_id) and remembered_boot_id == boot.id and boot.has_containers


def away(contact: Contact, now_ns: int, seconds_counted: float, *, clock_is_trusted: bool) -> Away:
    """Return the time since the last answer. A clock that is before the last answer is not trusted, whatever it says
    of itself."""
    trusted = clock_is_trusted and now_ns >= contact.at_ns
    return Away((now_ns - contact.at_ns) / SECOND_NS if trusted else None, seconds_counted)


def tolerated_seconds(pod: Pod, taint: Taint) -> float | None:
    """Return how long the pod stays on a node with the taint; None for ever. Like the control plane: the first
    toleration that matches counts; without one, 0."""
    for toleration in pod.spec.tolerations:
        if tolerates(toleration, taint):
            seconds = toleration.toleration_seconds
            return None if seconds is None else float(max(0, seconds))
    return 0.0


def kept_seconds(pod: Pod, contact: Contact) -> float | None:
    """Return how long after the last contact the cluster surely keeps the pod on this node; None for ever.

    The grace of the control plane before it taints the node (40 to 50 s) is not added, so the node is the stricter one.
    ``not-ready`` counts only if that was the node's state at the last contact: the control plane replaces this taint by
    ``unreachable`` when it hears nothing more, and a node that was ready never had it."""
    found = tolerated_seconds(pod, UNREACHABLE)
    if contact.was_ready:
        return found
    limits = [seconds for seconds in (found, tolerated_seconds(pod, NOT_READY)) if seconds is not None]
    return min(limits, default=None)


def verdict(one: Remembered, contact: Contact, since: Away, rules: OfflineRules, *, same_life: bool) -> Verdict:
    """Return the fate of one remembered pod, while no API server has answered. The order is part of the rule: an end
    that was seen counts before everything, and what runs in the same life of the machine is not stopped by a time."""
    pod = one.pod
    phase = pod.status.phase if pod.status is not None else ""
    if one.is_over or phase in _ENDED:
        return Verdict(Fate.OVER, "it has ended, and the cluster may know")
    if pod.metadata.deletion_timestamp:
        return Verdict(Fate.ENDS, "its deletion was asked for")
    if same_life and one.runs:
        return Verdict(Fate.ADOPTED)
    if not one.was_admitted:
        return Verdict(Fate.NEVER_ADMITTED, "this node never began it, and only the cluster knows if it is wanted")
    if one.name_taken:
        return Verdict(Fate.NAME_TAKEN, "a newer pod of its name was on this node")
    if since.seconds_min > rules.age_seconds_max:
        return Verdict(Fate.TOO_OLD, f"no API server has answered for more than {rules.age_seconds_max:.0f} s")
    kept = None if rules.starts_all else kept_seconds(pod, contact)
    if kept is None:
        return Verdict(Fate.STARTS)
    if since.seconds_min >= kept:
        return Verdict(Fate.TAKEN_AWAY, f"the cluster takes it away {kept:.0f} s after it has lost the node")
    if since.seconds is None:
        said = f"the cluster takes it away {kept:.0f} s after it has lost the node, and the clock is not set"
        return Verdict(Fate.AGE_UNKNOWN, said)
    return Verdict(Fate.STARTS)
