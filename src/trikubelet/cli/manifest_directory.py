"""The directory of static pods as ``apply`` and ``delete`` change it: which file defines what, and what may be done.

    manifests in memory ─► Change (a file put, or removed) for each, or every Fault ─► all carried out, or none

A pod stays in the file it is in, whatever the new manifest's file is called. A file that defines more than was spoken
of is left alone, and named: a pod that was not mentioned must not be removed. So is one with a fault, of which
nobody can say what it defines, while the agent keeps running what it did. The agent sees each change at once, because
files are moved into place.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.cli.validate import STDIN, load
from trikubelet.core.file_source import FileState, fold_file, state_of, why_ignored
from trikubelet.core.manifest.objects import object_name
from trikubelet.core.names import full_name
from trikubelet.kit.private_file import lay_beside, sync_names, write_privately
from trikubelet.model.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trikubelet.core.manifest import Loaded

LOCK_TRIES_MAX: Final = 100
LOCK_WAIT_SECONDS: Final = 0.1
"""Between two of them. Whoever has the lock reads a directory and writes a few files."""


@dataclass(frozen=True, slots=True)
class Given:
    """A manifest that is to be applied: the file it came from, its text, what is in it."""

    path: str
    text: bytes
    loaded: Loaded


@dataclass(frozen=True, slots=True)
class Change:
    """One step: ``text`` is put at ``path``, or the file is removed where it is None. ``names`` are the pods and
    objects it is about, ``outcome`` what becomes of them."""

    path: Path
    text: bytes | None
    names: Sequence[str]
    outcome: str


def names_in(loaded: Loaded) -> dict[str, str]:
    """What a manifest defines: identities, and how each is shown."""
    pods = {full_name(pod): f"pod/{pod.metadata.name}" for pod in loaded.pods}
    objects = {object_name(one): object_name(one).lower().replace(" ", "/", 1) for one in loaded.objects}
    return pods | objects


@contextmanager
def locked(place: str) -> Iterator[None]:
    """Be the only one that changes a directory of manifests, by a lock the kernel lets go of with the process. One that
    is not there needs none. Raises TimeoutError and OSError."""
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
    raise TimeoutError(f"{place} is being changed by another apply or delete")


class ManifestDirectory:
    """Owns nothing: the files are the truth. ``held`` is what each of them defined when the directory was opened."""

    def __init__(self, path: str, node_name: str) -> None:
        """Raises OSError when the directory cannot be read."""
        self.path = Path(path)
        self.held: dict[Path, dict[str, str]] = {}
        self._states: dict[Path, FileState] = {}
        for name in sorted(os.listdir(path)) if self.path.exists() else ():
            file = self.path / name
            if why_ignored(name) is None and file.is_file():
                loaded = load(str(file), node_name)
                self.held[file] = {} if isinstance(loaded, Fault) else names_in(loaded)
                self._states[file] = FileState(faults=(loaded,)) if isinstance(loaded, Fault) else state_of(loaded)

    def to_apply(self, given: Sequence[Given]) -> tuple[list[Change], list[Fault]]:
        """What is to be done so that these manifests are there, or what is in the way."""
        changes: dict[Path, Change] = {}
        faults: list[Fault] = []
        for one in given:
            found = self._to_apply(one)
            if isinstance(found, Change) and found.path in changes:
                other = ", ".join(changes[found.path].names)
                problem = f"would be {found.path}, and so would be the file of {other}"
                faults.append(Fault(one.loaded.source, None, "", problem, "rename one of the two"))
            elif isinstance(found, Change):
                changes[found.path] = found
            else:
                faults += found
        return list(changes.values()), faults

    def _to_apply(self, given: Given) -> Change | Sequence[Fault]:
        names = names_in(given.loaded)
        source = given.loaded.source
        if not names:
            return [Fault(source, None, "", "there is no pod and no object in it", "apply a manifest")]
        owners = self._owners(names)
        if len(owners) > 1:
            problem = f"what it defines stands in {', '.join(map(str, owners))}"
            return [Fault(source, None, "", problem, "give each file's pods by themselves")]
        target = owners[0] if owners else self.path / _name_for(given, names)
        if faults := self._in_the_way(source, target, names):
            return faults
        if target not in self.held:
            return Change(target, given.text, list(names.values()), "created")
        if immutable := fold_file(source, self._states[target], state_of(given.loaded)).faults:
            return immutable  # the agent would go on with what it has
        outcome = "unchanged" if target.read_bytes() == given.text else "configured"
        return Change(target, given.text, list(names.values()), outcome)

    def _in_the_way(self, source: str, target: Path, names: dict[str, str]) -> Sequence[Fault]:
        """Why a file cannot be put there."""
        if why := why_ignored(target.name):
            return [Fault(source, None, "", f"no manifest may be called {target.name}: it is {why}", "rename it")]
        if target.is_symlink():
            remedy = "edit that, or rename yours"
            return [Fault(source, None, "", f"{target} is a link to {os.readlink(target)}", remedy)]
        if target in self.held:
            return self._lost_with(source, target, names)
        return []

    def _lost_with(self, source: str, file: Path, names: dict[str, str]) -> Sequence[Fault]:
        """What a file defines beside these, or that nobody can say."""
        if self._states[file].faults:
            problem = f"{file} has a fault, so it is not known what it defines"
            return [Fault(source, None, "", problem, "`trikubelet validate` shows it: mend or remove that file first")]
        if extra := [shown for name, shown in self.held[file].items() if name not in names]:
            problem = f"{file} also defines {', '.join(extra)}"
            return [Fault(source, None, "", problem, "name these too, or edit that file")]
        return []

    def to_delete(self, names: dict[str, str]) -> tuple[list[Change], list[Fault]]:
        """What is to be done so that nothing defines these any more, or what is in the way."""
        owners = self._owners(names)
        known = {name for owner in owners for name in self.held[owner]}
        faulty = [str(file) for file, state in self._states.items() if state.faults]
        remedy = "`trikubelet get pods` lists what runs"
        if faulty:
            remedy = f"{', '.join(faulty)} cannot be read for its faults: `trikubelet validate` shows them"
        faults = [
            Fault(str(self.path), None, "", f"no manifest defines {shown}", remedy)
            for name, shown in names.items()
            if name not in known
        ]
        changes = []
        for owner in owners:
            faults += self._lost_with(str(self.path), owner, names)
            changes.append(Change(owner, None, list(self.held[owner].values()), "deleted"))
        return changes, faults

    def _owners(self, names: Iterable[str]) -> list[Path]:
        wanted = set(names)
        return [path for path, defined in self.held.items() if wanted & set(defined)]


def _name_for(given: Given, names: Iterable[str]) -> str:
    """Its own; what comes out of a pipe or a device is called by what is in it."""
    if given.path != STDIN and os.path.isfile(given.path) and not given.path.startswith(("/dev/", "/proc/")):
        return os.path.basename(given.path)
    return f"{next(iter(names)).replace('/', '_').replace(' ', '_')}.yaml"


def carry_out(changes: Iterable[Change]) -> None:
    """Do every step; what is there then is on the disk. New files are for their owner alone: there may be Secrets in
    them. Whatever takes long, and may want room, is done before the first is moved into place. Raises OSError, and then
    every file is as it was."""
    due = [change for change in changes if change.outcome != "unchanged"]
    before = {change.path: change.path.read_bytes() if change.path.exists() else None for change in due}
    laid: dict[Path, Path] = {}
    moved: list[Path] = []
    try:
        for change in due:
            if change.text is not None:
                laid[change.path] = lay_beside(change.path, change.text)
        for change in due:
            if change.text is None:
                change.path.unlink()
            else:
                laid[change.path].replace(change.path)
            moved.append(change.path)
    except (OSError, KeyboardInterrupt):
        for path in moved:
            _put_back(path, before[path])
        for beside in laid.values():
            beside.unlink(missing_ok=True)
        raise
    for directory in {path.parent for path in moved}:
        sync_names(directory)


def _put_back(path: Path, text: bytes | None) -> None:
    if text is None:
        path.unlink()
    else:
        write_privately(path, text)
