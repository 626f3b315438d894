"""Writing below a directory what names from elsewhere say, and nowhere else.

A name is walked one directory at a time, from the descriptor of each to the next, and no link is followed, be it one
that was made here or one that stood there before. So it does not matter where links lead, nor how long a path is or
what the kernel would make of it. A file is always a new one: a hard link to another may stand under its name.
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
"""Of so many files at least that were made last it is known that they were: to others there are no hard links."""
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_TAKEN: Final = "which was not taken"


class NotTaken(Exception):
    """Something is not written. The message is why, to stand behind its name."""


class Destination:
    """A directory that is written to. Owns the descriptor of the one in it where the last name led, and which files
    were made. Names come in parts, none of which may be ``..`` or hold a slash."""

    def __init__(self, path: str) -> None:
        """Make it, if it is missing. Raises OSError."""
        os.makedirs(path, exist_ok=True)
        self._root = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # itself, it may be reached by links
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
        """Make it, and those above it, unless they are there. Raises NotTaken and OSError."""
        self._go(parts, make=True)

    def write(self, parts: Sequence[str], content: Iterable[bytes], mode: int, mtime: int) -> None:
        """Make a file. Raises NotTaken, OSError, and what the content does; then there is none under its name."""
        name = self._make_way(parts)
        file = os.open(name, _NEW_FILE, 0o600, dir_fd=self._here)
        try:
            with open(file, "wb") as stream:
                for part in content:
                    stream.write(part)
                stream.flush()
                os.fchmod(file, mode)
                with suppress(OverflowError):  # then it is as old as it is
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
        """Give a file that was made another name. Raises NotTaken, also where it was not made here, and OSError."""
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
        """Have the descriptor of that directory. Raises NotTaken where it leads through something else, and OSError."""
        if self._parts != list(parts[: len(self._parts)]):
            self._arrive(os.dup(self._root))
            self._parts.clear()
        for name in parts[len(self._parts) :]:
            try:
                self._arrive(_step(self._here, name, make=make))
            except NotADirectoryError:  # a link as well
                shown = shortened("/".join([*self._parts, name]))
                raise NotTaken(f"would be in {shown!r}, which is no directory here, or a link to one") from None
            self._parts.append(name)

    def _arrive(self, directory: int) -> None:
        os.close(self._here)
        self._here = directory

    def _make_way(self, parts: Sequence[str]) -> str:
        """The last part, under which there is nothing any more in the directory it belongs to."""
        if not parts:
            raise NotTaken("is no directory")
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
        if found.st_nlink == 1:  # what is given its number next may be somebody else's
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
