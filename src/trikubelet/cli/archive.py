"""Files as ``cp`` passes them through a pipe: packed by tar at one end, and unpacked at the other.

What comes out of a container is not trusted: nothing is written outside the destination or through a link
(``cli/destination.py``), and no devices, owners or links that lead out are taken. What is not taken is named, and the
rest comes all the same: hardly an image is without a link to an absolute path. What is no file here (a device, a pipe)
keeps its mode.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import sys
import tarfile
from typing import TYPE_CHECKING, Final

from trikubelet.cli.destination import Destination, NotTaken
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.tar_members import Kind, Members, NoArchive
from trikubelet.cli.terminal import in_a_cell, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trikubelet.cli.tar_members import Member

_BYTES: Final = 32 * 1024
WARNINGS_MAX: Final = 20
"""So many of what is not taken are named, and the others counted: an archive may be made of nothing else."""


def unpack(read_end: int, into: str, name: str, renamed: str) -> bool:
    """Take what the pipe brings, in which ``name`` is the topmost, into a directory as ``renamed``; whether it brings
    anything. Raises CommandFailed when it is no archive, or not even its topmost is taken, and OSError."""

    def take(members: Members) -> bool:
        each = iter(members)
        if (first := next(each, None)) is None:
            return False
        with Destination(into or ".") as destination:
            unpacking = _Unpacking(destination, name, renamed)
            try:
                for member in itertools.chain([first], each):
                    unpacking.take(member, members.content())
            finally:
                unpacking.count_the_rest()
        return True

    return _read(read_end, take)


class _Unpacking:
    """Knows which name in the archive is which here, and how many were not taken. Raises CommandFailed where the
    operator's names say ``..``."""

    def __init__(self, destination: Destination, name: str, renamed: str) -> None:
        self._destination = destination
        self._not_taken = 0
        try:
            self._top, self._renamed = _parts(name), _parts(renamed)
        except NotTaken as error:
            raise CommandFailed(f"{name!r} {error}") from error

    def take(self, member: Member, content: Iterable[bytes]) -> None:
        """Take one member, or say why not. Raises CommandFailed where that is the topmost, and OSError."""
        below: list[str] | None = None
        try:
            below = self._below(member.name)
            self._place(member, below, content)
        except NotTaken as error:
            shown = shortened("/".join(below or []) or member.name)
            why = f"not taken from the container: {in_a_cell(f'{shown!r} {error}')}"
            if below == []:
                raise CommandFailed(why) from error
            self._not_taken += 1
            if self._not_taken <= WARNINGS_MAX:
                print(f"warning: {why}", file=sys.stderr, flush=True)

    def count_the_rest(self) -> None:
        """Say how many there were beside those that were named."""
        if (more := self._not_taken - WARNINGS_MAX) > 0:
            print(f"warning: not taken from the container: {more} more", file=sys.stderr, flush=True)

    def _below(self, name: str) -> list[str]:
        """What stands behind the topmost in a name of the archive's. Raises NotTaken."""
        parts, top = _parts(name), len(self._top)
        if parts[:top] != self._top:
            raise NotTaken("is outside the destination")
        return parts[top:]

    def _place(self, member: Member, below: list[str], content: Iterable[bytes]) -> None:
        parts = self._renamed + below
        try:
            match member.kind:
                case Kind.DIRECTORY:
                    self._destination.make_directory(parts)
                case Kind.FILE:
                    self._destination.write(parts, content, _mode(member.mode), member.mtime)
                case Kind.LINK if not below:  # there is nothing in it to copy, and the next copy would meet it
                    raise NotTaken(f"is a link to {shortened(member.link)!r}; copy that")
                case Kind.LINK if not _stays(member.link, len(below) - 1):
                    raise NotTaken(f"is a link to {shortened(member.link)!r}, which may be outside the destination")
                case Kind.LINK:
                    self._destination.link(parts, member.link)
                case Kind.HARD_LINK:
                    self._destination.link_again(parts, self._renamed + self._below(member.link))
                case other:
                    raise NotTaken(f"is a {other}")
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise NotTaken("has a longer name, or leads to a longer one, than can be had here") from error


def _parts(name: str) -> list[str]:
    """The names in a path. Raises NotTaken where it goes up: tar writes no such."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise NotTaken("is outside the destination")
    return parts


def _stays(target: str, depth: int) -> bool:
    """Whether a link, so many directories below the topmost, leads to something in that. It may go up before it goes
    down, no further than there are directories, and never again: a name may be another link, and up from where that
    leads is anywhere. If all links are so, no chain of them leads out."""
    if not target or target.startswith("/"):
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = len(list(itertools.takewhile("..".__eq__, parts)))
    return up <= depth and ".." not in parts[up:]


def _mode(mode: int) -> int:
    """Of a file here: ours to read and write, others' at most to read, and to be run by those who ran it there."""
    return (mode & (0o755 if mode & 0o100 else 0o644)) | 0o600


def pour(read_end: int, path: str | int) -> bool:
    """Write the file that the pipe brings to a device or a pipe, which stays as it is otherwise, or to a descriptor,
    which stays open; whether it brings one. Raises CommandFailed when it is no archive or no file, and OSError."""

    def take(members: Members) -> bool:
        if (member := next(iter(members), None)) is None:
            return False
        if member.kind is not Kind.FILE:
            raise CommandFailed(f"{in_a_cell(shortened(member.name))} is no file, and {_shown(path)} no directory")
        with open(path, "wb", buffering=0, closefd=isinstance(path, str)) as there:
            for part in members.content():
                write_all(there.fileno(), part)
        return True

    return _read(read_end, take)


def _shown(path: str | int) -> str:
    return path if isinstance(path, str) else "standard output"


def write_all(descriptor: int, said: bytes) -> None:
    """Write all of it, also where that is taken piece by piece. Raises OSError."""
    while said:
        said = said[os.write(descriptor, said) :]


def is_special(path: str) -> bool:
    """Whether there is something that is neither a file nor a directory."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _read(read_end: int, take: Callable[[Members], bool]) -> bool:
    with open(read_end, "rb") as stream:
        try:
            return take(Members(stream))
        except NoArchive as error:
            raise CommandFailed(f"what the container sends is no tar archive: {error}") from error
        finally:
            while stream.read(_BYTES):  # so that whoever writes comes to his end
                pass


def pack(write_end: int, path: str, name: str) -> None:
    """Put a file or a directory into the pipe, called ``name``. Raises OSError."""
    try:
        with open(write_end, "wb") as stream, tarfile.open(fileobj=stream, mode="w|", dereference=False) as archive:
            archive.add(path, name)
    except BrokenPipeError:  # tar has gone, and says why on its standard error
        sys.stderr.flush()
