"""Turns whole snapshots of a source into changes of pods: the config mux's decision.

A source (files, a URL, the API server) always reports all of its pods. This module compares a snapshot with the same
source's last one and returns the differences, pod by pod. The shell (``sources/mux.py``) keeps the result and passes
the changes to the sync loop in the order given here: removals come first, so that a replacement never waits behind
them.

A UID has one name for as long as its pod runs. A UID with another name is another pod: the old one is removed and the
new one added, which waits for the old one's end. Nor can two sources have the same UID at a time.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from trikubelet.core.names import CONFIG_HASH, CONFIG_SEEN, CONFIG_SOURCE, full_name, is_same_pod
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from trikubelet.model.k8s import Pod

_LOCAL_ANNOTATIONS = frozenset({CONFIG_SOURCE, CONFIG_SEEN, CONFIG_HASH})


class Op(Enum):
    """The kind of a change of a pod's configuration. A graceful deletion is an UPDATE that sets its deletion
    timestamp."""

    REMOVE = "remove"
    ADD = "add"
    UPDATE = "update"
    RECONCILE = "reconcile"


class PodUpdate(Frozen):
    """One pod's change, as one source reported it. For REMOVE ``pod`` is the last configuration known."""

    op: Op
    pod: Pod
    source: str


class Merged(Frozen):
    """A source's pods by UID, the changes since before, and the pods left out because another pod of the same snapshot
    has their name or UID (the first one wins), or because another source has their UID."""

    pods: Mapping[str, Pod]
    changes: tuple[PodUpdate, ...]
    duplicates: tuple[Pod, ...]


def difference(known: Pod, pod: Pod) -> Op | None:
    """Return how a pod's newest configuration differs from the last one: an UPDATE, a RECONCILE, or None."""
    if _means_something_else(known, pod):
        return Op.UPDATE
    return Op.RECONCILE if known.status != pod.status else None


def merge(
    source: str,
    before: Mapping[str, Pod],
    snapshot: Sequence[Pod],
    differs: Callable[[Pod, Pod], Op | None] = difference,
    taken: Collection[str] = (),
    restarted: Collection[str] = (),
) -> Merged:
    """Compare a source's new snapshot with its previous pods. ``differs`` compares one pod, see ``difference``;
    ``taken``: the UIDs that other sources have; ``restarted``: those of pods that must end and start again even if
    unchanged."""
    pods, duplicates = _by_uid(snapshot, taken)
    again = before.keys() & pods.keys() & set(restarted)
    changes = [PodUpdate(Op.REMOVE, pod, source) for uid, pod in before.items() if uid in again or not _has(pods, pod)]
    added = [pod for uid, pod in pods.items() if uid in again or not _has(before, pod)]
    changes += [PodUpdate(Op.ADD, pod, source) for pod in sorted(added, key=_age)]
    for uid, pod in pods.items():
        known = before.get(uid)
        if known is None or known is pod or uid in again or not is_same_pod(known, pod):
            continue
        if (op := differs(known, pod)) is not None:
            changes.append(PodUpdate(op, pod, source))
    return Merged(pods, tuple(changes), tuple(duplicates))


def _has(pods: Mapping[str, Pod], pod: Pod) -> bool:
    there = pods.get(pod.metadata.uid)
    return there is pod or (there is not None and is_same_pod(there, pod))


def _by_uid(snapshot: Sequence[Pod], taken: Collection[str]) -> tuple[dict[str, Pod], list[Pod]]:
    pods: dict[str, Pod] = {}
    names: set[str] = set()
    duplicates: list[Pod] = []
    for pod in snapshot:
        name = full_name(pod)
        if name in names or pod.metadata.uid in pods or pod.metadata.uid in taken:
            duplicates.append(pod)
            continue
        names.add(name)
        pods[pod.metadata.uid] = pod
    return pods, duplicates


def _age(pod: Pod) -> tuple[str, str]:
    """Return the sort key for older pods first; RFC 3339 in UTC sorts as text. Pods without a creation time come first,
    by name."""
    return (pod.metadata.creation_timestamp, full_name(pod))


def _means_something_else(a: Pod, b: Pod) -> bool:
    """True if a worker must reconcile: spec, labels, deletion, or annotations that others may read, have changed."""
    return (
        a.spec != b.spec
        or a.metadata.labels != b.metadata.labels
        or a.metadata.deletion_timestamp != b.metadata.deletion_timestamp
        or a.metadata.deletion_grace_period_seconds != b.metadata.deletion_grace_period_seconds
        or _shared_annotations(a) != _shared_annotations(b)
    )


def _shared_annotations(pod: Pod) -> dict[str, str]:
    return {k: v for k, v in pod.metadata.annotations.items() if k not in _LOCAL_ANNOTATIONS}
