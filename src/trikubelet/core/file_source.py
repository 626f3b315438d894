"""What a manifest directory means: which files count, what a faulty file keeps running, and who owns a pod's name.

One rule stands above the rest: a bad manifest never takes a good pod down. A file without faults says exactly what it
says. A file with faults updates the pods whose documents are good and keeps every pod it had before, because the
faulty document may be theirs. Only a file that is gone, or says so without a fault, removes a pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trikubelet.core.document.shown import shown
from trikubelet.core.names import full_name
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.manifest import Loaded
    from trikubelet.model.k8s import Pod

FAULTS_MAX = 100
"""Faults of one file that are kept and logged; a file with more is not a manifest with mistakes but something else."""
SETTLED_SECONDS = 1.0
"""A file that did not change for this long is as its author wants it."""

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
    pods stand, by full name; a pod kept from an earlier reading has none."""

    pods: tuple[Pod, ...] = ()
    faults: tuple[Fault, ...] = ()
    lines: Mapping[str, int | None] = field(default_factory=dict)


def why_ignored(name: str) -> str | None:
    """Why a file of that name is no manifest, or None when it is one. Hidden files are ignored as upstream does;
    what editors and package tools leave behind is ignored out loud."""
    if name.startswith("."):
        return "a hidden file"
    if name.startswith("#") and name.endswith("#"):
        return "an editor's autosave"
    return next((what for ending, what in _LEFTOVERS.items() if name.endswith(ending)), None)


def state_of(loaded: Loaded) -> FileState:
    """What a file says, before anything else is taken into account. Of very many faults the first are kept."""
    lines = {name: origin.fault("metadata.name", "").line for name, origin in loaded.origins.items()}
    faults = loaded.faults[:FAULTS_MAX]
    if (more := len(loaded.faults) - len(faults)) > 0:
        remedy = "is this the right file? `trikubelet validate` shows all"
        faults = (*faults, Fault(faults[0].source, None, "", f"{more} more faults", remedy))
    return FileState(loaded.pods, faults, lines)


def fold_file(before: FileState | None, pods: tuple[Pod, ...], faults: tuple[Fault, ...]) -> FileState:
    """What a file contributes after it was read again and gave ``pods`` and ``faults``."""
    if not faults or before is None:
        return FileState(pods, faults)
    good = {full_name(pod) for pod in pods}
    kept = tuple(pod for pod in before.pods if full_name(pod) not in good)
    return FileState(pods + kept, faults)


def may_be_half_written(before: FileState | None, now: FileState, age_seconds: float) -> bool:
    """Whether a file that changed ``age_seconds`` ago is better read again before it is believed: it has faults, or
    it lost a pod, as an empty file has that somebody is just writing. A time in the future says nothing."""
    if not 0 <= age_seconds < SETTLED_SECONDS:
        return False
    lost = {full_name(pod) for pod in before.pods} - {full_name(pod) for pod in now.pods} if before else set()
    return bool(now.faults or lost)


@dataclass(frozen=True, slots=True)
class Claims:
    """Every file's pods without those that another file has already; those are faults now. ``owners`` is the file of
    each pod, by full name."""

    states: Mapping[str, FileState]
    owners: Mapping[str, str]

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, file by file."""
        return tuple(pod for state in self.states.values() for pod in state.pods)


def claim(states: Mapping[str, FileState], owners: Mapping[str, str]) -> Claims:
    """Settle who has a name that several files give. The file that had it keeps it for as long as it gives the pod;
    among new ones the first in the order of their names. ``owners`` is what was settled before."""
    givers: dict[str, list[str]] = {}
    for path in sorted(states):
        for pod in states[path].pods:
            givers.setdefault(full_name(pod), []).append(path)
    now = {name: owners[name] if owners.get(name) in paths else paths[0] for name, paths in givers.items()}
    return Claims({path: _own(path, states[path], now) for path in sorted(states)}, now)


def _own(path: str, state: FileState, owners: Mapping[str, str]) -> FileState:
    others = [pod for pod in state.pods if owners[full_name(pod)] != path]
    if not others:
        return state
    faults = tuple(_taken(path, pod, state.lines.get(full_name(pod)), owners[full_name(pod)]) for pod in others)
    return replace(state, pods=tuple(pod for pod in state.pods if pod not in others), faults=state.faults + faults)


def _taken(path: str, pod: Pod, line: int | None, owner: str) -> Fault:
    name = pod.metadata.name.removesuffix(f"-{pod.spec.node_name.lower()}")
    problem = f"Duplicate value: {shown(name)}: {owner} has a pod of that name, which runs"
    return Fault(path, line, "metadata.name", problem, "rename one of the two or remove one of the files")
