"""What a manifest directory means: which files count, and what a faulty file keeps running.

One rule stands above the rest: a bad manifest never takes a good pod down. A file without faults says exactly what it
says. A file with faults updates the pods whose documents are good and keeps every pod it had before, because the
faulty document may be theirs. Only a file that is gone, or says so without a fault, removes a pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.names import full_name

if TYPE_CHECKING:
    from trikubelet.model.faults import Fault
    from trikubelet.model.k8s import Pod

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
    """What one manifest file contributes now, and what is wrong with it."""

    pods: tuple[Pod, ...] = ()
    faults: tuple[Fault, ...] = ()


def why_ignored(name: str) -> str | None:
    """Why a file of that name is no manifest, or None when it is one. Hidden files are ignored as upstream does;
    what editors and package tools leave behind is ignored out loud."""
    if name.startswith("."):
        return "a hidden file"
    if name.startswith("#") and name.endswith("#"):
        return "an editor's autosave"
    return next((what for ending, what in _LEFTOVERS.items() if name.endswith(ending)), None)


def fold_file(before: FileState | None, pods: tuple[Pod, ...], faults: tuple[Fault, ...]) -> FileState:
    """What a file contributes after it was read again and gave ``pods`` and ``faults``."""
    if not faults or before is None:
        return FileState(pods, faults)
    good = {full_name(pod) for pod in pods}
    kept = tuple(pod for pod in before.pods if full_name(pod) not in good)
    return FileState(pods + kept, faults)
