"""The directory of static pods for ``apply``, ``delete`` and ``rollback``: the objects in each file, and the allowed
steps.

    manifests in memory ─► a Step for each file, or every Fault ─► all steps taken, or none (``cli.manifest_steps``)

A pod stays in the file that has it now, whatever the new manifest's file is called. A file that also defines objects
that were not given is left alone, and named: a pod that was not mentioned must not be removed. A file with a fault is
left alone, too, because its objects are unknown, and the agent keeps its last version running. The agent sees each
change at once, because files are moved into place.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.cli.applied_record import read_record
from trikubelet.cli.manifest_steps import BringBack, Kept, Put, Remove, Unchanged
from trikubelet.cli.validate import STDIN, load
from trikubelet.core.file_source import FileState, fold_file, state_of, why_ignored
from trikubelet.core.kept_copies import copy_named, next_copy
from trikubelet.core.manifest.objects import object_name
from trikubelet.core.names import full_name
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trikubelet.cli.kept_manifests import KeptCopy
    from trikubelet.cli.manifest_steps import Step
    from trikubelet.core.manifest import Loaded
    from trikubelet.model.k8s import Pod

_UNKNOWN: Final = "has a fault, so its objects are unknown"
_MEND: Final = "`trikubelet validate` shows it: fix or remove that file first"
LOCK_TRIES_MAX: Final = 100
LOCK_WAIT_SECONDS: Final = 0.1
"""Seconds between two attempts. The holder of the lock reads a directory and writes a few files."""


class Given(msgspec.Struct, frozen=True):
    """A manifest to be applied: its file, its text, its objects."""

    path: str
    text: bytes
    loaded: Loaded


def names_in(loaded: Loaded) -> dict[str, str]:
    """Return the objects of a manifest: identities, and their display names ``KIND/NAME``."""
    pods = {full_name(pod): f"pod/{pod.metadata.name}" for pod in loaded.pods}
    objects = {object_name(one): f"{type(one).__name__.lower()}/{one.metadata.name}" for one in loaded.objects}
    return pods | objects


@contextmanager
def locked(place: str) -> Iterator[None]:
    """Hold the lock of a directory of manifests, which the kernel releases with the process. A missing directory needs
    none. Raises TimeoutError and OSError."""
    if not os.path.exists(place):
        yield
        return
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(directory, place)
        yield
    finally:
        os.close(directory)


def _lock(directory: int, place: str) -> None:
    for _ in range(LOCK_TRIES_MAX):
        try:
            return fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_WAIT_SECONDS)
    raise TimeoutError(f"{place} is being changed by another apply, delete or rollback")


class ManifestDirectory:
    """Owns nothing: the files are the truth. ``held``: the objects of each when the directory was opened."""

    def __init__(self, path: str, node_name: str) -> None:
        """Raises OSError when the directory cannot be read."""
        self.path = Path(path)
        self.names = sorted(os.listdir(path)) if self.path.exists() else []
        self.held: dict[Path, dict[str, str]] = {}
        self._states: dict[Path, FileState] = {}
        self._applied = read_record(self.path)
        for name in self.names:
            file = self.path / name
            if why_ignored(name) is None and file.is_file():
                loaded = load(str(file), node_name)
                self.held[file] = {} if isinstance(loaded, Fault) else names_in(loaded)
                self._states[file] = FileState(faults=(loaded,)) if isinstance(loaded, Fault) else state_of(loaded)

    def to_apply(self, given: Sequence[Given]) -> tuple[list[Step], list[Fault]]:
        """Return the steps to apply these manifests, or the faults."""
        steps: dict[Path, Step] = {}
        faults: list[Fault] = []
        for one in given:
            found = self._to_apply(one)
            if isinstance(found, list):
                faults += found
            elif found.path in steps:
                other = ", ".join(steps[found.path].names)
                problem = f"would be {found.path}, and so would be the file of {other}"
                faults.append(Fault(one.loaded.source, None, "", problem, "rename one of the two"))
            else:
                steps[found.path] = found
        return list(steps.values()), faults

    def _to_apply(self, given: Given) -> Step | list[Fault]:
        names = names_in(given.loaded)
        source = given.loaded.source
        if not names:
            return [Fault(source, None, "", "there is no pod and no object in it", "apply a manifest")]
        owners = self._owners(names)
        target = owners[0] if owners else self.path / _name_for(given, names)
        if faults := self._refusals(given.loaded, target):
            return faults
        shown_names = list(names.values())
        if target not in self.held:
            return Put(target, shown_names, given.text, None)
        if target.read_bytes() == given.text:
            return Unchanged(target, shown_names)
        return Put(target, shown_names, given.text, self._kept(target))

    def to_bring_back(self, copy: KeptCopy) -> tuple[list[Step], list[Fault]]:
        """Return the steps to restore a kept version, or the faults."""
        target = self.path / copy.manifest
        if faults := self._refusals(copy.loaded, target):
            return [], faults
        before = self._kept(target) if target in self.held else None
        return [BringBack(target, list(names_in(copy.loaded).values()), copy.path, before)], []

    def pods(self) -> list[Pod]:
        """Return the pods of all files without a fault."""
        return [pod for state in self._states.values() for pod in state.pods]

    def faulty(self) -> list[Path]:
        """Return the files with a fault, whose objects are unknown."""
        return [file for file, state in self._states.items() if state.faults]

    def holder(self, name: str) -> Path | None:
        """Return the file that defines a pod or an object, or None."""
        return next(iter(self._owners([name])), None)

    def _kept(self, file: Path) -> Kept:
        """Return the copy of a file that is removed or replaced. A file that cannot be read was not written by
        ``apply``."""
        try:
            by_hand = file.is_symlink() or not self._applied.wrote(file.name, file.read_bytes())
        except OSError:
            by_hand = True
        return Kept(self.path / next_copy(file.name, self.names), by_hand)

    def _refusals(self, loaded: Loaded, target: Path) -> list[Fault]:
        """Return why a manifest cannot become that file: the agent would lose other objects, or keep the old ones."""
        names = names_in(loaded)
        owners = self._owners(names)
        if others := [owner for owner in owners if owner != target]:
            stands = ", ".join(map(str, owners if len(owners) > 1 else others))
            problem = f"what it defines stands in {stands}"
            return [Fault(loaded.source, None, "", problem, "give each file's pods by themselves")]
        if faults := self._in_the_way(loaded.source, target, names):
            return faults
        before = self._states.get(target)
        return list(fold_file(loaded.source, before, state_of(loaded)).faults)

    def _in_the_way(self, source: str, target: Path, names: dict[str, str]) -> list[Fault]:
        """Return why a file cannot be put there."""
        if why := why_ignored(target.name):
            return [Fault(source, None, "", f"a manifest cannot be named {target.name}: it is {why}", "rename it")]
        if target.is_symlink():
            remedy = "edit that, or rename yours"
            return [Fault(source, None, "", f"{target} is a link to {os.readlink(target)}", remedy)]
        if target in self.held:
            if self._states[target].faults:
                return [Fault(source, None, "", f"{target} {_UNKNOWN}", _MEND)]
            if extra := self._extra(target, names):
                both = [shown for name, shown in names.items() if name in self.held[target]]
                problem = f"{target} also defines {', '.join(extra)}"
                remedy = f"add {'it' if len(extra) == 1 else 'these'}, or edit that file"
                name = Path(source).name
                if both and name != target.name and copy_named(name) is None:  # not another version of that file
                    problem = f"{', '.join(both)} is defined in {target} already, which also defines {', '.join(extra)}"
                    remedy = "use another name here, or edit that file"
                return [Fault(source, None, "", problem, remedy)]
        return []

    def _extra(self, file: Path, names: dict[str, str]) -> list[str]:
        """Return the objects of a file in addition to these."""
        return [shown for name, shown in self.held[file].items() if name not in names]

    def to_delete(self, names: dict[str, str]) -> tuple[list[Step], list[Fault]]:
        """Return the steps after which no file defines these any more, or the faults."""
        owners = self._owners(names)
        known = {name for owner in owners for name in self.held[owner]}
        faulty = [str(file) for file in self.faulty()]
        remedy = "`trikubelet get pods` lists what runs"
        if faulty:
            remedy = f"{', '.join(faulty)} cannot be read for its faults: `trikubelet validate` shows them"
        faults = [
            Fault(str(self.path), None, "", f"no manifest defines {shown}", remedy)
            for name, shown in names.items()
            if name not in known
        ]
        steps: list[Step] = []
        for owner in owners:
            if self._states[owner].faults:
                faults.append(Fault(str(owner), None, "", _UNKNOWN, _MEND))
            elif extra := self._extra(owner, names):
                remedy = f"`trikubelet delete -f {shlex.quote(str(owner))}` removes all of it; or edit that file"
                faults.append(Fault(str(owner), None, "", f"also defines {', '.join(extra)}", remedy))
            steps.append(Remove(owner, list(self.held[owner].values()), self._kept(owner)))
        return steps, faults

    def _owners(self, names: Iterable[str]) -> list[Path]:
        wanted = set(names)
        return [path for path, defined in self.held.items() if wanted & set(defined)]


def _name_for(given: Given, names: Iterable[str]) -> str:
    """Return the file's own name; one for a pipe or a device is made of its first object."""
    if given.path != STDIN and os.path.isfile(given.path) and not given.path.startswith(("/dev/", "/proc/")):
        return os.path.basename(given.path)
    return f"{next(iter(names)).replace('/', '_').replace(' ', '_')}.yaml"
