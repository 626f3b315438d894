"""Writes files below a directory under untrusted names, and nowhere else.

A name is walked one directory at a time, from the descriptor of each to the next, and no link is followed, neither one
made here nor an older one. So it does not matter where links lead, nor how long a path is or how the kernel would
resolve it. A file is always a new one, because the old name may be a hard link to another file.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trikubelet.cli.terminal import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

MADE_MAX: Final = 100_000
"""The last files made, of which at least this number is remembered: hard links can be made to no others."""
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_TAKEN: Final = "which was skipped"


class NotTaken(Exception):
    """A member is not written. The message is the reason, to follow its name."""


class Destination:
    """A directory that is written to. Owns the descriptor of the last directory used below it, and the record of files
    made. Names are given in parts, none of which may be ``..`` or contain a slash."""

    def __init__(self, path: str) -> None:
        """Create it, if it is missing. Raises OSError."""
        os.makedirs(path, exist_ok=True)
        # the destination itself may be reached by links
        self._root = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._here = os.dup(self._root)
        self._parts: list[str] = []
        self._made: set[tuple[int, int]] = set()
        self._made_before: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._here)
        os.close(self._root)

    def make_directory(self, parts: Sequence[str]) -> None:
        """Create it, and those above it, unless they exist. Raises NotTaken and OSError."""
        self._go(parts, make=True)

    def write(self, parts: Sequence[str], content: Iterable[bytes], mode: int, mtime: int) -> None:
        """Write a file. Raises NotTaken, OSError, and the content's errors; then there is no file under its name."""
        name = self._make_way(parts)
        file = os.open(name, _NEW_FILE, 0o600, dir_fd=self._here)
        try:
            with open(file, "wb") as stream:
                for part in content:
                    stream.write(part)
                stream.flush()
                os.fchmod(file, mode)
                with suppress(OverflowError):  # then it keeps its present time
                    os.utime(file, (mtime, mtime))
                self._note(os.fstat(file))
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._here)
            raise

    def link(self, parts: Sequence[str], target: str) -> None:
        """Make a symbolic link. Raises NotTaken and OSError."""
        name = self._make_way(parts)
        os.symlink(target, name, dir_fd=self._here)

    def link_again(self, parts: Sequence[str], to: Sequence[str]) -> None:
        """Give a file another name. Raises NotTaken, also if it was not made here, and OSError."""
        if not to:
            raise NotTaken("is a link to a directory")
        try:
            self._go(to[:-1], make=False)
            found = os.stat(to[-1], dir_fd=self._here, follow_symlinks=False)
        except (FileNotFoundError, NotTaken):
            raise NotTaken(f"is a link to {shortened('/'.join(to))!r}, {_NOT_TAKEN}") from None
        if not any((found.st_dev, found.st_ino) in made for made in (self._made, self._made_before)):
            raise NotTaken(f"is a link to {shortened('/'.join(to))!r}, {_NOT_TAKEN}")
        if list(parts) == list(to):
            return
        there = os.dup(self._here)
        try:
            name = self._make_way(parts)
            os.link(to[-1], name, src_dir_fd=there, dst_dir_fd=self._here, follow_symlinks=False)
        finally:
            os.close(there)

    def _go(self, parts: Sequence[str], *, make: bool) -> None:
        """Open the descriptor of that directory. Raises NotTaken if the path leads through anything but directories,
        and OSError."""
        if self._parts != list(parts[: len(self._parts)]):
            self._arrive(os.dup(self._root))
            self._parts.clear()
        for name in parts[len(self._parts) :]:
            try:
                self._arrive(_step(self._here, name, make=make))
            except NotADirectoryError:  # a link as well
                shown = shortened("/".join([*self._parts, name]))
                raise NotTaken(f"would be in {shown!r}, which is not a directory here, or is a link to one") from None
            self._parts.append(name)

    def _arrive(self, directory: int) -> None:
        os.close(self._here)
        self._here = directory

    def _make_way(self, parts: Sequence[str]) -> str:
        """Remove whatever has that name, and return the name's last part, relative to the open directory."""
        if not parts:
            raise NotTaken("is not a directory")
        *above, name = parts
        self._go(above, make=True)
        try:
            found = os.stat(name, dir_fd=self._here, follow_symlinks=False)
        except FileNotFoundError:
            return name
        if stat.S_ISDIR(found.st_mode):
            raise NotTaken("is a directory here")
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            raise NotTaken("is a device, pipe or socket here")
        os.unlink(name, dir_fd=self._here)
        if found.st_nlink == 1:  # its number may be reused by an unrelated file
            for made in (self._made, self._made_before):
                made.discard((found.st_dev, found.st_ino))
        return name

    def _note(self, made: os.stat_result) -> None:
        if len(self._made) == MADE_MAX:
            self._made, self._made_before = set(), self._made
        self._made.add((made.st_dev, made.st_ino))


def _step(directory: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(name, dir_fd=directory)
    return os.open(name, _DIRECTORY, dir_fd=directory)
