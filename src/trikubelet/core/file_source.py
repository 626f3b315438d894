"""Reads a manifest directory's meaning: which files count, what a faulty file keeps, and which file owns a pod's name.

The first rule: a bad manifest never stops a good pod. A file without faults is taken as it is. A file with faults
updates the pods whose documents are good and keeps every pod it had before, because the faulty document may be theirs.
A pod is removed only if its file is gone, or no longer has the pod and has no faults. The same rules hold for
ConfigMaps and Secrets in manifests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from msgspec import field

from trikubelet.core.document.shown import shown
from trikubelet.core.manifest.objects import ManifestObject, object_name
from trikubelet.core.manifest.update import unchangeable
from trikubelet.core.names import full_name
from trikubelet.model import k8s
from trikubelet.model.faults import Fault
from trikubelet.model.frozen import Frozen
from trikubelet.model.k8s import Pod

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from trikubelet.core.manifest import Loaded
    from trikubelet.model.manifest_places import DirectoryId

T = TypeVar("T", bound=Pod | ManifestObject)

FAULTS_MAX = 100
"""Faults of one file that are kept and logged; a file with more is hardly a manifest."""
CHANGES_SHOWN_MAX = 10
"""Fields of one pod that a fault names; a pod with more changes is another pod."""
SETTLED_SECONDS = 1.0
"""A file that did not change for this long is taken to be complete."""
UNSETTLED_SECONDS_MAX = 5.0
"""A file that changes for this long without ever being good is no manifest; the agent stops waiting for it."""

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


class FileState(Frozen):
    """The contribution of one manifest file now, and its faults. ``lines``: the line of the name of each pod and
    object, by ``_name``; pods and objects kept from an earlier reading have none. ``uid_lines``: the same for the UIDs
    given in the file, by UID. ``is_blank``: it is empty, or has only comments."""

    pods: tuple[Pod, ...] = ()
    faults: tuple[Fault, ...] = ()
    lines: Mapping[str, int | None] = field(default_factory=dict)
    uid_lines: Mapping[str, int | None] = field(default_factory=dict)
    objects: tuple[ManifestObject, ...] = ()
    is_blank: bool = False


def why_ignored(name: str) -> str | None:
    """Return why a file of that name is no manifest; None if it is one. Hidden files are ignored silently, like
    upstream; leftovers of editors and package tools are reported."""
    if name.startswith("."):
        return "a hidden file"
    if name.startswith("#") and name.endswith("#"):
        return "an editor's autosave"
    return next((what for ending, what in _LEFTOVERS.items() if name.endswith(ending)), None)


def is_away(files: Collection[str], read: DirectoryId | None, now: DirectoryId, manifests: Collection[object]) -> bool:
    """True if the directory that was ``read``, and had these files, is unavailable although its path still leads to
    one: to ``now``, another directory without manifests. That is the empty mount point of an unmounted file system."""
    return bool(files) and not manifests and read != now


def state_of(loaded: Loaded) -> FileState:
    """Return the contribution of a file by itself. Only the first ``FAULTS_MAX`` faults are kept."""
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
    """Return the contribution of a file after it was read again as ``now``. ``counted``: the pods of ``before`` that
    won their name and UID against other files; only those can run."""
    if before is None:
        return now
    known = {pod.metadata.uid: pod for pod in (before.pods if counted is None else counted)}
    now = _with_same_pods(path, known, _with_immutable(path, before, now))
    if not now.faults:
        return now
    return replace(now, pods=_kept(before.pods, now.pods), objects=_kept(before.objects, now.objects))


def _kept(before: tuple[T, ...], now: tuple[T, ...]) -> tuple[T, ...]:
    """Return all that is in ``now``, then the rest of ``before``, by name."""
    there = {_name(one) for one in now}
    return now + tuple(one for one in before if _name(one) not in there)


def _with_immutable(path: str, before: FileState, now: FileState) -> FileState:
    """Return ``now``, but with immutable objects as they were, because pods rely on them."""
    fixed = {object_name(one): one for one in before.objects if one.immutable}
    broken = [one for one in now.objects if fixed.get(object_name(one), one) != one]
    if not broken:
        return now
    changed = {object_name(one) for one in broken}  # comparing each with each would block the event loop
    objects = tuple(fixed[object_name(one)] if object_name(one) in changed else one for one in now.objects)
    remedy = "give the changed one another name, or take it away first"
    faults = [
        Fault(path, now.lines.get(object_name(one)), "immutable", f"Forbidden: {object_name(one)} is immutable", remedy)
        for one in broken
    ]
    return replace(now, objects=objects, faults=(*now.faults, *faults))


def _with_same_pods(path: str, known: Mapping[str, Pod], now: FileState) -> FileState:
    """Return ``now``, but with each changed pod as it was ``known`` if the change keeps its UID and touches fields that
    may not change. A running pod cannot become another one, so the status would show a spec that does not run."""
    broken = {
        pod.metadata.uid: changed
        for pod in now.pods
        if (changed := unchangeable(known.get(pod.metadata.uid, pod), pod))
    }
    if not broken:
        return now
    pods = tuple(known[pod.metadata.uid] if pod.metadata.uid in broken else pod for pod in now.pods)
    remedy = "leave the UID out, or give another one: then it is another pod, which replaces this one"
    faults = [
        Fault(path, now.uid_lines.get(uid), "metadata.uid", _of_same_uid(uid, changed), remedy)
        for uid, changed in broken.items()
    ]
    return replace(now, pods=pods, faults=(*now.faults, *faults))


def _of_same_uid(uid: str, changed: tuple[str, ...]) -> str:
    named = ", ".join(changed[:CHANGES_SHOWN_MAX]) + (", …" if len(changed) > CHANGES_SHOWN_MAX else "")
    return f"Forbidden: the pod {shown(uid)} runs, and fields that must not change did: {named}"


def may_be_half_written(before: FileState | None, now: FileState, age_seconds: float) -> bool:
    """True if a file that changed ``age_seconds`` ago should be read again first: it has faults, or it lost something,
    as a file does that is being written. An age below zero, from a time in the future, decides nothing."""
    if not 0 <= age_seconds < SETTLED_SECONDS:
        return False
    return bool(now.faults) or has_lost(before, now)


def never_settles(path: str) -> FileState:
    """Return the state of such a file. The text must be the same at each reading, so that it is logged once."""
    problem = (
        f"is written to all the time: for {UNSETTLED_SECONDS_MAX:g} s it never was a good manifest, nor left alone for "
        f"{SETTLED_SECONDS:g} s"
    )
    remedy = "move it out of this directory, or write a manifest elsewhere and rename it into place"
    return FileState(faults=(Fault(path, None, "", problem, remedy),))


def has_lost(before: FileState | None, now: FileState) -> bool:
    """True if a pod or an object from before is missing now."""
    return before is not None and not _names(before) <= _names(now)


def _names(state: FileState) -> set[str]:
    return {_name(one) for one in (*state.pods, *state.objects)}


def _name(one: Pod | ManifestObject) -> str:
    """Return the unique name of a pod or an object."""
    return full_name(one) if isinstance(one, k8s.Pod) else object_name(one)


Claim = tuple[str, str]
"""A unique value: a field's path, and the name (``_name``) or UID in it."""


class Claims(Frozen):
    """The contributions of all files, without the pods and objects whose name or UID belongs to another file; those are
    faults now. ``owners``: the file of each name and UID."""

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
    """Return the same, but a pod that moved to another file with its UID and its name keeps those of its ``published``
    fields that may not change. A UID with another name is another pod; ``core.merge`` starts it after the one that
    runs."""
    known = {(pod.metadata.uid, full_name(pod)): pod for pod in published}
    states = {}
    for path, state in claims.states.items():
        same = ((pod, known.get((pod.metadata.uid, full_name(pod)))) for pod in state.pods)
        moved = {was.metadata.uid: was for pod, was in same if was is not None and was is not pod}
        states[path] = _with_same_pods(path, moved, state) if moved else state
    return replace(claims, states=states)


def claim(states: Mapping[str, FileState], owners: Mapping[Claim, str], begun: Collection[str] = ()) -> Claims:
    """Decide which file owns a name or UID that several files give. The previous owner keeps it while it still gives
    it; among new files, the one whose pod was begun under an earlier agent wins, then the first by file name.
    ``owners``: the previous decision; ``begun``: the UIDs of such pods. They matter after a start, when there is no
    previous decision: a copy that was rejected until then must not win because its file name sorts first."""
    given = [(path, one) for path in sorted(states) for one in (*states[path].pods, *states[path].objects)]
    # Sorting is stable: previous owners come first, and the groups stay in order.
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
    gone = {id(one) for one, _ in lost}  # the very same objects
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
