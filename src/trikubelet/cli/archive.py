"""Files as ``cp`` passes them through a pipe: packed by tar at one end, and unpacked at the other.

What comes out of a container is not trusted: nothing is written outside the destination, and no devices, owners or
links that lead out are taken (PEP 706, the ``data`` filter). What is not taken is named, and the rest comes all the
same: hardly an image is without a link to an absolute path. What is no file here (a device, a pipe) keeps its mode.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import stat
import sys
import tarfile
from typing import TYPE_CHECKING, Final

from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.terminal import in_a_cell

if TYPE_CHECKING:
    from collections.abc import Callable

_BYTES: Final = 32 * 1024


def unpack(read_end: int, into: str, name: str, renamed: str) -> None:
    """Take what the pipe brings, in which ``name`` is the topmost, into a directory as ``renamed``. Raises
    CommandFailed when it is no archive, or not even its topmost is taken, and OSError."""

    def take(archive: tarfile.TarFile) -> None:
        holds_more = True
        for member in archive:
            is_top = (below := posixpath.relpath(member.name, name or ".")) == "."
            try:
                if is_top:
                    if member.issym():  # there is nothing in it to copy, and the next copy would go where it leads
                        raise CommandFailed(f"{member.name!r} is a link to {member.linkname!r}; copy that")
                    holds_more = member.isdir()
                    _take(archive, member, into, renamed)
                elif not holds_more:
                    raise CommandFailed(f"{below!r} is below {renamed!r}, which is no directory")
                else:
                    if member.islnk():
                        member.linkname = posixpath.relpath(member.linkname, name or ".")
                    _take(archive, member, os.path.join(into, renamed), below)
            except (tarfile.FilterError, CommandFailed) as error:
                why = f"not taken from the container: {in_a_cell(str(error))}"
                if is_top:
                    raise CommandFailed(why) from error
                print(f"warning: {why}", file=sys.stderr, flush=True)

    _read(read_end, take)


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, root: str, name: str) -> None:
    """Take one member as ``name`` below a directory, out of which nothing of it leads. Raises CommandFailed for what
    the filter lets through and should not be done, and FilterError."""
    member.name = name
    for place in (name, *([member.linkname] if member.islnk() else [])):
        if place == ".." or place.startswith("../"):
            raise CommandFailed(f"{place!r} is outside the destination")
    if is_special(os.path.join(root, name)):
        raise CommandFailed(f"{name!r} is a device, pipe or socket here")
    # tarfile would make such a link into a copy of what was not taken, unfiltered.
    if member.islnk() and not os.path.lexists(os.path.join(root, member.linkname)):
        raise CommandFailed(f"{name!r} is a link to {member.linkname!r}, which was not taken")
    archive.extract(member, root, filter="data")


def pour(read_end: int, path: str) -> None:
    """Write the file that the pipe brings to a device or a pipe, which stays as it is otherwise. Raises CommandFailed
    when it is no archive or no file, and OSError."""

    def take(archive: tarfile.TarFile) -> None:
        if (member := archive.next()) is None:
            return  # tar has said why on its standard error
        content = archive.extractfile(member) if member.isreg() else None
        if content is None:
            raise CommandFailed(f"{in_a_cell(member.name)} is no file, and {path} no directory")
        with open(path, "wb", buffering=0) as there:
            shutil.copyfileobj(content, there)

    _read(read_end, take)


def is_special(path: str) -> bool:
    """Whether there is something that is neither a file nor a directory."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _read(read_end: int, take: Callable[[tarfile.TarFile], None]) -> None:
    with open(read_end, "rb") as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                take(archive)
        except tarfile.ReadError as error:
            if str(error) != "empty file":  # then tar has said why on its standard error
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
