"""What a manifest directory means: which files count, what a faulty file keeps running, and who owns a pod's name.

One rule stands above the rest: a bad manifest never takes a good pod down. A file without faults says exactly what it
says. A file with faults updates the pods whose documents are good and keeps every pod it had before, because the
faulty document may be theirs. Only a file that is gone, or says so without a fault, removes a pod. All of that is so of
the ConfigMaps and Secrets that stand in manifests too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from trikubelet.core.document.shown import shown
from trikubelet.core.manifest.objects import ManifestObject, object_name
from trikubelet.core.manifest.update import unchangeable
from trikubelet.core.names import full_name
from trikubelet.model import k8s
from trikubelet.model.faults import Fault
from trikubelet.model.k8s import Pod

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from trikubelet.core.manifest import Loaded
    from trikubelet.model.manifest_places import DirectoryId

T = TypeVar("T", bound=Pod | ManifestObject)

FAULTS_MAX = 100
"""Faults of one file that are kept and logged; a file with more is not a manifest with mistakes but something else."""
CHANGES_SHOWN_MAX = 10
"""Fields of one pod that a fault names; one with more is another pod."""
SETTLED_SECONDS = 1.0
"""A file that did not change for this long is as its author wants it."""
UNSETTLED_SECONDS_MAX = 5.0
"""A file that changes for this long without being good once is no manifest, and nobody waits for it any longer."""

_LEFTOVERS = {
    "~": "an editor's backup",
    ".bak": "a backup",
    ".orig": "a backup",
    ".swp": "an editor's swap file",
    ".swx": "an editor's swap file",
    ".tmp": "a temporary file",
    ".part": "a half-written file",
    ".dpkg-old": "a package's leftover",
    ".dpkg-new": "a package's leftover",
    ".rpmsave": "a package's leftover",
    ".rpmnew": "a package's leftover",
}


@dataclass(frozen=True, slots=True)
class FileState:
    """What one manifest file contributes now, and what is wrong with it. ``lines``: where in the file the names of its
    pods and objects stand, by ``_name``; what is kept from an earlier reading has none. ``uid_lines``: the same of UIDs
    of pods that are written there, by UID. ``is_blank``: it has nothing in it, or only comments."""

    pods: tuple[Pod, ...] = ()
    faults: tuple[Fault, ...] = ()
    lines: Mapping[str, int | None] = field(default_factory=dict)
    uid_lines: Mapping[str, int | None] = field(default_factory=dict)
    objects: tuple[ManifestObject, ...] = ()
    is_blank: bool = False


def why_ignored(name: str) -> str | None:
    """Why a file of that name is no manifest, or None when it is one. Hidden files are ignored as upstream does;
    what editors and package tools leave behind is ignored out loud."""
    if name.startswith("."):
        return "a hidden file"
    if name.startswith("#") and name.endswith("#"):
        return "an editor's autosave"
    return next((what for ending, what in _LEFTOVERS.items() if name.endswith(ending)), None)


def is_away(files: Collection[str], read: DirectoryId | None, now: DirectoryId, manifests: Collection[object]) -> bool:
    """Whether the directory that was ``read``, and had these files, is away, though its path still leads to one: to
    ``now``, another one without manifests. Where a file system is unmounted, its mount point is left, and is empty."""
    return bool(files) and not manifests and read != now


def state_of(loaded: Loaded) -> FileState:
    """What a file says, before anything else is taken into account. Of very many faults the first are kept."""
    lines = {name: origin.fault("metadata.name", "").line for name, origin in loaded.origins.items()}
    uid_lines = {
        pod.metadata.uid: loaded.origins[full_name(pod)].fault("metadata.uid", "").line
        for pod in loaded.pods
        if loaded.origins[full_name(pod)].says("metadata.uid")
    }
    faults = loaded.faults[:FAULTS_MAX]
    if (more := len(loaded.faults) - len(faults)) > 0:
        remedy = "is this the right file? `trikubelet validate` shows all"
        faults = (*faults, Fault(faults[0].source, None, "", f"{more} more faults", remedy))
    return FileState(loaded.pods, faults, lines, uid_lines, loaded.objects, loaded.is_blank)


def fold_file(path: str, before: FileState | None, now: FileState, counted: Iterable[Pod] | None = None) -> FileState:
    """What a file contributes after it was read again and said ``now``. ``counted``: the pods of ``before`` that were
    wanted of it, where another file may have had their name or UID: only those can run."""
    if before is None:
        return now
    known = {pod.metadata.uid: pod for pod in (before.pods if counted is None else counted)}
    now = _with_same_pods(path, known, _with_immutable(path, before, now))
    if not now.faults:
        return now
    return replace(now, pods=_kept(before.pods, now.pods), objects=_kept(before.objects, now.objects))


def _kept(before: tuple[T, ...], now: tuple[T, ...]) -> tuple[T, ...]:
    """What is there now, and of what was there before all that is there no more."""
    there = {_name(one) for one in now}
    return now + tuple(one for one in before if _name(one) not in there)


def _with_immutable(path: str, before: FileState, now: FileState) -> FileState:
    """As now, but what was immutable stays as it was: that is what the word means, and pods rely on it."""
    fixed = {object_name(one): one for one in before.objects if one.immutable}
    broken = [one for one in now.objects if fixed.get(object_name(one), one) != one]
    if not broken:
        return now
    changed = {object_name(one) for one in broken}  # to compare all with all would hold up the event loop
    objects = tuple(fixed[object_name(one)] if object_name(one) in changed else one for one in now.objects)
    remedy = "give the changed one another name, or take it away first"
    faults = [
        Fault(path, now.lines.get(object_name(one)), "immutable", f"Forbidden: {object_name(one)} is immutable", remedy)
        for one in broken
    ]
    return replace(now, objects=objects, faults=(*now.faults, *faults))


def _with_same_pods(path: str, known: Mapping[str, Pod], now: FileState) -> FileState:
    """As now, but a pod stays as it was ``known`` that gives the same UID and is not the same: what runs under a UID
    cannot become something else, and would only be shown as if it had."""
    broken = {
        pod.metadata.uid: changed
        for pod in now.pods
        if (changed := unchangeable(known.get(pod.metadata.uid, pod), pod))
    }
    if not broken:
        return now
    pods = tuple(known[pod.metadata.uid] if pod.metadata.uid in broken else pod for pod in now.pods)
    remedy = "leave the UID out, or give another one: it is another pod then, and takes the place of this one"
    faults = [
        Fault(path, now.uid_lines.get(uid), "metadata.uid", _of_same_uid(uid, changed), remedy)
        for uid, changed in broken.items()
    ]
    return replace(now, pods=pods, faults=(*now.faults, *faults))


def _of_same_uid(uid: str, changed: tuple[str, ...]) -> str:
    named = ", ".join(changed[:CHANGES_SHOWN_MAX]) + (", …" if len(changed) > CHANGES_SHOWN_MAX else "")
    return f"Forbidden: the pod {shown(uid)} runs, and what may not change in it did: {named}"


def may_be_half_written(before: FileState | None, now: FileState, age_seconds: float) -> bool:
    """Whether a file that changed ``age_seconds`` ago is better read again before it is believed: it has faults, or
    it lost something, as an empty file has that somebody is just writing. A time in the future says nothing."""
    if not 0 <= age_seconds < SETTLED_SECONDS:
        return False
    return bool(now.faults) or has_lost(before, now)


def never_settles(path: str) -> FileState:
    """What such a file says. The same words each time it is read, for they are logged once."""
    problem = (
        f"is written to all the time: for {UNSETTLED_SECONDS_MAX:g} s it never was a good manifest, nor left alone for "
        f"{SETTLED_SECONDS:g} s"
    )
    remedy = "move it out of this directory, or write a manifest elsewhere and rename it into place"
    return FileState(faults=(Fault(path, None, "", problem, remedy),))


def has_lost(before: FileState | None, now: FileState) -> bool:
    """Whether a pod or an object that was there is there no more."""
    return before is not None and not _names(before) <= _names(now)


def _names(state: FileState) -> set[str]:
    return {_name(one) for one in (*state.pods, *state.objects)}


def _name(one: Pod | ManifestObject) -> str:
    """What only one pod, or object, can be called."""
    return full_name(one) if isinstance(one, k8s.Pod) else object_name(one)


Claim = tuple[str, str]
"""What only one pod or object can have: a field's path, and the name (``_name``) or UID that stands there."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What every file has, without the pods and objects whose name or UID another file has already; those are faults
    now. ``owners`` is the file of each name and UID."""

    states: Mapping[str, FileState]
    owners: Mapping[Claim, str]

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, file by file."""
        return tuple(pod for state in self.states.values() for pod in state.pods)

    @property
    def objects(self) -> tuple[ManifestObject, ...]:
        """All ConfigMaps and Secrets, file by file."""
        return tuple(one for state in self.states.values() for one in state.objects)


def keep_what_runs(claims: Claims, published: Iterable[Pod]) -> Claims:
    """The same, but a pod that moved to another file, with its UID and its name, is as it was ``published`` where it
    may not change. A UID that has another name now is another pod, which ``core.merge`` has begin after the one that
    runs."""
    known = {(pod.metadata.uid, full_name(pod)): pod for pod in published}
    states = {}
    for path, state in claims.states.items():
        same = ((pod, known.get((pod.metadata.uid, full_name(pod)))) for pod in state.pods)
        moved = {was.metadata.uid: was for pod, was in same if was is not None and was is not pod}
        states[path] = _with_same_pods(path, moved, state) if moved else state
    return replace(claims, states=states)


def claim(states: Mapping[str, FileState], owners: Mapping[Claim, str], begun: Collection[str] = ()) -> Claims:
    """Settle who has a name or UID that several files give. The file that had it keeps it for as long as it gives it;
    among new ones that whose pod was begun under an earlier agent, then the first in the order of their names.
    ``owners`` is what was settled before, ``begun`` the UIDs of such pods: after a start nothing was settled, and a
    copy that was refused all the time must not have the name only because its file's name comes first."""
    given = [(path, one) for path in sorted(states) for one in (*states[path].pods, *states[path].objects)]
    # Sorting is stable: those who were there come first, and the groups stay in order.
    given.sort(key=lambda one: not _was_begun(one[1], begun))
    given.sort(key=lambda one: any(owners.get(claimed) != one[0] for claimed in _claims_of(one[1])))
    now: dict[Claim, str] = {}
    lost: dict[str, list[tuple[Pod | ManifestObject, Claim]]] = {}
    for path, one in given:
        taken = next((claimed for claimed in _claims_of(one) if claimed in now), None)
        if taken is None:
            now.update(dict.fromkeys(_claims_of(one), path))
        else:
            lost.setdefault(path, []).append((one, taken))
    return Claims({path: _without(path, states[path], lost.get(path, []), now) for path in sorted(states)}, now)


def _was_begun(one: Pod | ManifestObject, begun: Collection[str]) -> bool:
    return isinstance(one, k8s.Pod) and one.metadata.uid in begun


def _claims_of(one: Pod | ManifestObject) -> tuple[Claim, ...]:
    name = ("metadata.name", _name(one))
    return (name, ("metadata.uid", one.metadata.uid)) if isinstance(one, k8s.Pod) else (name,)


def _without(
    path: str, state: FileState, lost: list[tuple[Pod | ManifestObject, Claim]], owners: Mapping[Claim, str]
) -> FileState:
    if not lost:
        return state
    gone = {id(one) for one, _ in lost}  # they are the very same ones
    faults = tuple(_taken(path, state, one, claimed[0], owners[claimed]) for one, claimed in lost)
    pods = tuple(pod for pod in state.pods if id(pod) not in gone)
    objects = tuple(one for one in state.objects if id(one) not in gone)
    return replace(state, pods=pods, objects=objects, faults=state.faults + faults)


def _taken(path: str, state: FileState, one: Pod | ManifestObject, field_path: str, owner: str) -> Fault:
    remedy = "rename one of the two or remove one of the files"
    if not isinstance(one, k8s.Pod):
        problem = f"Duplicate value: {shown(one.metadata.name)}: {owner} has {object_name(one)}, which counts"
        return Fault(path, state.lines.get(_name(one)), field_path, problem, remedy)
    if field_path == "metadata.uid":
        problem = f"Duplicate value: {shown(one.metadata.uid)}: {owner} has a pod of that UID, which counts"
        remedy = "leave the UID out: each pod is given one"
        return Fault(path, state.uid_lines.get(one.metadata.uid), field_path, problem, remedy)
    name = one.metadata.name.removesuffix(f"-{one.spec.node_name.lower()}")
    problem = f"Duplicate value: {shown(name)}: {owner} has a pod of that name, which counts"
    return Fault(path, state.lines.get(_name(one)), field_path, problem, remedy)
