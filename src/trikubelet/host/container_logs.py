"""The files of containers' logs on the real disk, while they are written (``ports.ContainerLogs``).

The path of a log comes from the runtime, and this process may rename and remove anything. So a path that is not below
the pods' logs after its links are resolved is not touched, and neither is anything but a regular file. Everything runs
in threads, so a hanging disk blocks only those. One operation at a time runs on a log, so no cancelled operation takes
effect late. Compressing takes seconds, in a thread of its own pool, a block at a time. A compressed part gets its name
when all of it is on the disk, so a power cut loses no lines.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from trikubelet.core.log_rotation import PACKED, UNFINISHED, is_part
from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import open_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trikubelet.kit.threads import ThreadPool

T = TypeVar("T")
_FREE_SPACE: Final = "the free space"

BLOCK_BYTES: Final = 64 * 1024
LEVEL: Final = 6
"""The compression level: zlib's default, and upstream's."""
ENTRIES_MAX: Final = 20_000
"""Files in the directory of a container's logs. Rotation leaves a few of each attempt; if there are more, another
program creates them."""


class DiskContainerLogs:
    """Owns nothing: the state is in the files."""

    def __init__(self, logs: Path, looking: ThreadPool, compressing: ThreadPool) -> None:
        """``logs``: the directory of the pods' logs."""
        self._logs = logs
        self._looking = looking
        self._compressing = compressing

    async def sizes(self, paths: Sequence[str]) -> Sequence[int | OSError | None]:
        """Return the size of each file being written (``ports.ContainerLogs``), in one thread for all."""
        return await on_disk(self._looking, lambda: [_size(path) for path in paths])

    async def free_bytes(self) -> int:
        """Return the free bytes on the disk of the pods' logs."""
        found = await on_disk(self._looking, partial(os.statvfs, self._logs), _FREE_SPACE)
        return found.f_bfree * found.f_frsize

    async def parts(self, path: str) -> frozenset[str]:
        """Return the rotated parts, and the unfinished ones."""
        return await self._in_thread(_parts, path)

    async def remove(self, path: str, part: str) -> None:
        """Remove a part."""
        await self._in_thread(lambda inside: Path(f"{inside}.{part}").unlink(missing_ok=True), path)

    async def set_aside(self, path: str, part: str) -> None:
        """Rename the file being written to a part that does not exist."""
        await self._in_thread(lambda inside: os.rename(inside, f"{inside}.{part}"), path)

    async def put_back(self, path: str, part: str) -> None:
        """Undo that, unless the runtime has opened a new file meanwhile, which a rename would lose."""
        await self._in_thread(partial(_put_back, part=part), path)

    async def compress(self, path: str, part: str) -> None:
        """Replace a plain part by a compressed one, in a thread."""
        await self._compressing.run(lambda: _compress(f"{self._inside(path)}.{part}"))

    async def _in_thread(self, work: Callable[[str], T], path: str) -> T:
        """Run work on the log at the path without links. If cancelled, the thread continues, and stays the only one for
        that log."""
        return await on_disk(self._looking, lambda: work(self._inside(path)), path)

    def _inside(self, path: str) -> str:
        """Return the path without links on the way to the file. Raises PermissionError outside the pods' logs."""
        given = Path(path)
        directory = Path(os.path.realpath(given.parent))
        if not given.is_absolute() or Path(os.path.realpath(self._logs)) not in directory.parents or given.name == "..":
            raise PermissionError(errno.EPERM, f"the runtime names it, but it is not below {self._logs}", path)
        return str(directory / given.name)


def _size(path: str) -> int | OSError | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None if os.path.isdir(os.path.dirname(path)) else 0
    except OSError as error:
        return error
    except ValueError as error:  # a name that no file can have
        return OSError(errno.EINVAL, str(error), path)
    return found.st_size if stat.S_ISREG(found.st_mode) else OSError(errno.EINVAL, "not a regular file", path)


def _parts(inside: str) -> frozenset[str]:
    directory, name = os.path.split(inside)
    start = f"{name}."
    found: set[str] = set()
    with os.scandir(directory) as entries:
        for count, entry in enumerate(entries, 1):
            if count > ENTRIES_MAX:
                raise OSError(errno.EFBIG, f"more than {ENTRIES_MAX} files", directory)
            part = entry.name.removeprefix(start)
            if entry.name.startswith(start) and is_part(part) and entry.is_file(follow_symlinks=False):
                found.add(part)
    return frozenset(found)


def _put_back(inside: str, part: str) -> None:
    with suppress(FileExistsError, FileNotFoundError):
        os.link(f"{inside}.{part}", inside)
        os.unlink(f"{inside}.{part}")


def _compress(plain: str) -> None:
    unfinished, packed = plain + UNFINISHED, plain + PACKED
    try:
        _pack(plain, unfinished)
        os.rename(unfinished, packed)
    except FileNotFoundError:
        return  # the container and its logs were removed meanwhile
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    try:
        os.unlink(plain)
    except FileNotFoundError:
        Path(packed).unlink(missing_ok=True)  # the remover of the log has not seen this


def _pack(plain: str, unfinished: str) -> None:
    """Write the content of ``plain`` to ``unfinished``, compressed, down to the disk. It keeps its mode, and its
    modification time, which is that of the last line. The format's own field for a time cannot have every time that a
    file may have; it is left empty."""
    with open_plain(plain, follows_links=False) as source:
        found = os.fstat(source.fileno())
        Path(unfinished).unlink(missing_ok=True)  # from a crash, or a container's: opening a pipe would block
        number = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "wb") as target:
            os.fchmod(number, stat.S_IMODE(found.st_mode))
            with gzip.GzipFile("", "wb", LEVEL, target, mtime=0) as packer:
                shutil.copyfileobj(source, packer, BLOCK_BYTES)
            target.flush()
            os.fsync(number)
            os.utime(number, ns=(found.st_atime_ns, found.st_mtime_ns))
