"""Packs and unpacks the files that ``cp`` sends through a pipe, as tar archives.

Archives from a container are not trusted: nothing is written outside the destination or through a link
(``cli/destination.py``), and devices, owners and links that lead out are skipped. Skipped members are named, and the
rest is copied all the same, because nearly every image has a link to an absolute path. A destination that is a device
or a pipe keeps its mode.
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
"""Skipped members that are named; the others are counted, because an archive may contain nothing else."""


def unpack(read_end: int, into: str, name: str, renamed: str) -> bool:
    """Unpack the archive in the pipe, whose topmost member is ``name``, into a directory as ``renamed``. Return true if
    it has members. Raises CommandFailed if it is not an archive or its topmost member is skipped, and OSError."""

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
    """Owns the mapping of names in the archive to names here, and the number of skipped members. Raises CommandFailed
    if the operator's names contain ``..``."""

    def __init__(self, destination: Destination, name: str, renamed: str) -> None:
        self._destination = destination
        self._not_taken = 0
        try:
            self._top, self._renamed = _parts(name), _parts(renamed)
        except NotTaken as error:
            raise CommandFailed(f"{name!r} {error}") from error

    def take(self, member: Member, content: Iterable[bytes]) -> None:
        """Write one member, or print why it is skipped. Raises CommandFailed if that is the topmost, and OSError."""
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
        """Print the number of skipped members that were not named."""
        if (more := self._not_taken - WARNINGS_MAX) > 0:
            print(f"warning: not taken from the container: {more} more", file=sys.stderr, flush=True)

    def _below(self, name: str) -> list[str]:
        """Return the parts of a member's name below the topmost. Raises NotTaken."""
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
                # an empty link target cannot be copied, and the next copy would write through the link
                case Kind.LINK if not below:
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
            raise NotTaken("has a name or target that is too long here") from error


def _parts(name: str) -> list[str]:
    """Return the names in a path. Raises NotTaken if it goes up, which tar never writes."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise NotTaken("is outside the destination")
    return parts


def _stays(target: str, depth: int) -> bool:
    """True if a link that many directories below the topmost leads to something in that. It may go up before it goes
    down, no further than there are directories, and never again: a name may be another link, and up from its target is
    anywhere. If all links are so, no chain of them leads out."""
    if not target or target.startswith("/"):
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = len(list(itertools.takewhile("..".__eq__, parts)))
    return up <= depth and ".." not in parts[up:]


def _mode(mode: int) -> int:
    """Return the mode of a copied file: the owner may read and write, others at most read, and the executable bits
    stay."""
    return (mode & (0o755 if mode & 0o100 else 0o644)) | 0o600


def pour(read_end: int, path: str | int) -> bool:
    """Write the file in the pipe to a device or a pipe, which is not replaced, or to a descriptor, which stays open.
    Return true if there is one. Raises CommandFailed if it is not an archive or not a file, and OSError."""

    def take(members: Members) -> bool:
        if (member := next(iter(members), None)) is None:
            return False
        if member.kind is not Kind.FILE:
            raise CommandFailed(
                f"{in_a_cell(shortened(member.name))} is not a file, and {_shown(path)} not a directory"
            )
        with open(path, "wb", buffering=0, closefd=isinstance(path, str)) as there:
            for part in members.content():
                write_all(there.fileno(), part)
        return True

    return _read(read_end, take)


def _shown(path: str | int) -> str:
    return path if isinstance(path, str) else "standard output"


def write_all(descriptor: int, said: bytes) -> None:
    """Write all of the bytes, also in several parts. Raises OSError."""
    while said:
        said = said[os.write(descriptor, said) :]


def is_special(path: str) -> bool:
    """True if the path exists and is neither a file nor a directory."""
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
            raise CommandFailed(f"the container did not send a tar archive: {error}") from error
        finally:
            while stream.read(_BYTES):  # so that the writer does not block
                pass


def pack(write_end: int, path: str, name: str) -> None:
    """Write a file or a directory to the pipe, under the name ``name``. Raises OSError."""
    try:
        with open(write_end, "wb") as stream, tarfile.open(fileobj=stream, mode="w|", dereference=False) as archive:
            archive.add(path, name)
    except BrokenPipeError:  # tar has gone, and reports why on its standard error
        sys.stderr.flush()
