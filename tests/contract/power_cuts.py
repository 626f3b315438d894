"""Every state in which a power cut can leave a directory while something is written there.

    recorder = PowerCuts(root, monkeypatch)     flushes the start state
    with recorder: …                            what is written, on the real disk
    for state in recorder.states(): …           lay(state, elsewhere), and read it

Without a flush, the content of a new file is lost, torn or whole, and each change of a directory's names is lost or
kept independently of the others. That is more than a journal allows, so code that survives it survives every file
system. A flush makes one file's content, or one directory's names, certain.
"""

from __future__ import annotations

import itertools
import os
import stat
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pytest

PENDING_MAX = 10
"""Changes of names that are not flushed at one moment: each doubles the number of states."""


class _Change(NamedTuple):
    """A change of names: ``removed`` loses its name, ``added`` gets the inode. A rename within one directory is one
    change, as every file system has it."""

    directory: str
    removed: str
    added: str
    inode: int


class PowerCuts:
    """Records the states of one directory tree. ``ignored``: a flush that has no effect, as on a disk that lies."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, ignored: str = "") -> None:
        self._root = root
        self._patch = monkeypatch
        self._content: dict[int, tuple[bytes, ...]] = {}  # by inode: what may be there
        self._names: dict[str, dict[str, int]] = {}  # certain, by directory
        self._pending: list[_Change] = []
        self._states: set[frozenset[tuple[str, bytes]]] = set()
        self._ignored = ignored

    def __enter__(self) -> Self:
        for directory, names, files in os.walk(self._root):
            self._names[directory] = {name: os.lstat(f"{directory}/{name}").st_ino for name in (*names, *files)}
            for name in files:
                path = f"{directory}/{name}"
                self._content[os.lstat(path).st_ino] = (_read(path),)
        self._note()
        self._after("open", self._opened)
        for name in {"fsync", "fdatasync"} - {self._ignored}:
            self._after(name, self._flushed)
        self._after("pwrite", self._written)
        self._after("mkdir", lambda _, path, *__: self._added(os.fspath(path)))
        self._after("rmdir", lambda _, path, **__: self._removed(os.fspath(path)))
        self._after("unlink", lambda _, path, **__: self._removed(os.fspath(path)))
        self._after("replace", self._replaced)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def states(self) -> Iterator[Mapping[str, bytes]]:
        """Each state, as the files by their paths below the root."""
        return (dict(state) for state in sorted(self._states, key=sorted))

    def last_states(self) -> Iterator[Mapping[str, bytes]]:
        """The states that are possible after all was done."""
        self._states.clear()
        self._note()
        return self.states()

    def _after(self, name: str, note: Callable[..., object]) -> None:
        call = getattr(os, name)

        def patched(*args: object, **kwargs: object) -> object:
            result = call(*args, **kwargs)
            note(result, *args, **kwargs)
            self._note()
            return result

        self._patch.setattr(os, name, patched)

    # ---- what was done ----

    def _opened(self, descriptor: int, path: object, flags: int, *_: object) -> None:
        found = os.fstat(descriptor)
        if flags & os.O_CREAT and stat.S_ISREG(found.st_mode) and found.st_ino not in self._content:
            self._content[found.st_ino] = ()
            self._added(os.fspath(path))  # type: ignore[arg-type]

    def _flushed(self, _: object, descriptor: int) -> None:
        path, found = os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            flushed = [change for change in self._pending if change.directory == path]
            self._pending = [change for change in self._pending if change.directory != path]
            self._names[path] = _applied(self._names.get(path, {}), flushed)
        else:
            self._content[found.st_ino] = (_read(path),)

    def _written(self, _: object, descriptor: int, raw: bytes, offset: int) -> None:
        inode = os.fstat(descriptor).st_ino
        written = []
        for before in self._content[inode] or (b"",):
            for length in (0, len(raw) // 2, len(raw)):
                whole = before.ljust(offset + length, b"\0") if length else before
                written.append(whole[:offset] + raw[:length] + whole[offset + length :] if length else before)
        self._content[inode] = tuple(dict.fromkeys(written))

    def _added(self, path: str) -> None:
        directory, name = os.path.split(path)
        self._pending.append(_Change(directory, "", name, os.lstat(path).st_ino))

    def _removed(self, path: str) -> None:
        directory, name = os.path.split(path)
        self._pending.append(_Change(directory, name, "", 0))

    def _replaced(self, _: object, source: object, target: object) -> None:
        before, after = os.fspath(source), os.fspath(target)  # type: ignore[call-overload]
        assert os.path.dirname(before) == os.path.dirname(after)
        inode = os.lstat(after).st_ino
        self._pending.append(_Change(os.path.dirname(after), os.path.basename(before), os.path.basename(after), inode))

    # ---- what may be left ----

    def _note(self) -> None:
        assert len(self._pending) <= PENDING_MAX
        for kept in itertools.product((False, True), repeat=len(self._pending)):
            changes = [change for change, is_kept in zip(self._pending, kept, strict=True) if is_kept]
            names = dict(self._names)
            for directory in {change.directory for change in changes}:
                mine = [change for change in changes if change.directory == directory]
                names[directory] = _applied(names.get(directory, {}), mine)
            paths = list(self._reachable(str(self._root), names))
            for contents in itertools.product(*(self._contents(inode, path) for path, inode in paths)):
                self._states.add(
                    frozenset(
                        (os.path.relpath(path, self._root), content)
                        for (path, _), content in zip(paths, contents, strict=True)
                    )
                )

    def _reachable(self, directory: str, names: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, int]]:
        for name, inode in names.get(directory, {}).items():
            path = f"{directory}/{name}"
            if inode in self._content:
                yield path, inode
            else:
                yield from self._reachable(path, names)

    def _contents(self, inode: int, path: str) -> tuple[bytes, ...]:
        if known := self._content[inode]:
            return known
        for directory, _, files in os.walk(self._root):  # the content as written, wherever it is by now
            for name in files:
                if os.lstat(f"{directory}/{name}").st_ino == inode:
                    whole = _read(f"{directory}/{name}")
                    return (b"", whole[: len(whole) // 2], whole)
        return (b"",)


def _applied(names: Mapping[str, int], changes: list[_Change]) -> dict[str, int]:
    found = dict(names)
    for change in changes:
        found.pop(change.removed, None)
        if change.added:
            found[change.added] = change.inode
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # not by os.open, which is watched
        return file.read()


def lay(state: Mapping[str, bytes], root: Path) -> None:
    """Put the files of a state below an empty directory."""
    for name, content in state.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(content)
