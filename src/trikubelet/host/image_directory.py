"""The directory with archives of images on the real disk (``ports.ImageDirectory``).

    every regular file that is not hidden ─► compressed? ─► its tar headers ─► the members that name its images

An archive is read again only when it has changed. The headers and three small members are read, whatever the size of an
archive; the directory may be on a disk that hangs, so this is done in a thread. Damage of a layer is found by the
program that imports it, because it compares digests.
"""

from __future__ import annotations

import os
import stat
import tarfile
from typing import TYPE_CHECKING, BinaryIO, Final

import trio

from trikubelet.core.image_archives import MAGIC_BYTES, MEMBERS, PROGRAMS, archive_of, compression
from trikubelet.kit.disk import on_disk
from trikubelet.kit.plain_file import open_plain
from trikubelet.kit.program import NotStarted, ProgramFailed, run_program
from trikubelet.model.errors import ImportFailed
from trikubelet.model.image_archives import Archive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trikubelet.kit.threads import ThreadPool

ARCHIVES_MAX: Final = 1000
"""In the directory. If there are more, the first by name count."""
MEMBERS_MAX: Final = 100_000
"""In one archive: more layers than all images of a node have."""
MEMBER_BYTES_MAX: Final = 4 * 1024 * 1024
"""For an index: thousands of images."""
IMPORT_SECONDS_MAX: Final = 1800.0
"""One import: 18 GB from a slow card at 10 MB a second."""
IMPORTS_AT_ONCE_MAX: Final = 2
"""They all read and write the same disk; but one that hangs must not keep every other from its turn."""


class DiskImageDirectory:
    """Owns what was last read of each archive; only the one thread that scans writes that."""

    def __init__(self, directory: Path, environment: Mapping[str, str], threads: ThreadPool) -> None:
        self._directory = directory
        self._environment = environment
        self._threads = threads
        self._read: dict[str, Archive] = {}
        self._turns = trio.CapacityLimiter(IMPORTS_AT_ONCE_MAX)

    async def scan(self) -> Sequence[Archive]:
        """See ``ports.ImageDirectory``; so for the other."""
        return await on_disk(self._threads, self._scan, f"image directory {self._directory}", may_hang=True)

    async def run(self, command: Sequence[str]) -> None:
        program = command[0]
        async with self._turns:
            try:
                await run_program(command, self._environment, run_seconds_max=IMPORT_SECONDS_MAX)
            except NotStarted as error:
                source = next((where for name, where in PROGRAMS.values() if name == program), "")
                raise ImportFailed(
                    f"the program {program} {error} ({source}, and must be on the agent's PATH)"
                ) from error
            except ProgramFailed as error:
                raise ImportFailed(f"{program} {error}") from error

    def _scan(self) -> Sequence[Archive]:
        return scan(self._directory, self._read)


def scan(directory: Path, read: dict[str, Archive]) -> Sequence[Archive]:
    """Return every archive in a directory, sorted by name. ``read``: those of earlier scans, which are returned again
    if they have not changed; updated at each archive, so that a scan that is given up is not lost. Raises OSError."""
    names = sorted(name for name in os.listdir(directory) if not name.startswith("."))[:ARCHIVES_MAX]
    paths = [os.path.join(directory, name) for name in names]
    for gone in read.keys() - paths:
        del read[gone]
    return [read[path] for path in paths if _look(path, read)]


def _look(path: str, read: dict[str, Archive]) -> bool:
    """Bring what is known of one file up to date; False for a directory, and for a file that has gone."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(status.st_mode):
        return False
    # Not the time of modification, which copies keep, and which a change of the mode leaves.
    size, changed, known = status.st_size, status.st_ctime_ns, read.get(path)
    if known is not None and (known.size_bytes, known.changed_ns) == (size, changed):
        return True
    try:
        found = _archive(path)
    except OSError as error:
        read[path] = Archive(path, problem=f"cannot be read: {error.strerror or error}")  # and read again next time
        return True
    except (EOFError, tarfile.TarError) as error:
        found = Archive(path, problem=f"is damaged, or is no tar archive: {error}")
    except ValueError as error:
        found = Archive(path, problem=f"cannot be used: {error}")
    read[path] = Archive(path, found.images, found.is_docker, found.problem, size, changed)
    return True


def _archive(path: str) -> Archive:
    """Raises OSError, TarError, EOFError and ValueError."""
    with open_plain(path) as file:
        if program := compression(file.read(MAGIC_BYTES)):
            raise ValueError(f"it is compressed with {program} (decompress it: {program} -d {os.path.basename(path)})")
        file.seek(0)
        return archive_of(path, _members(file))


def _members(file: BinaryIO) -> Mapping[str, bytes]:
    """Return the members that name images. Walks to the end, because a file that was cut off ends too early."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=file, mode="r:") as tar:
        for number, member in enumerate(tar):
            if number >= MEMBERS_MAX:
                raise ValueError(f"it has more than {MEMBERS_MAX} members")
            name = member.name.removeprefix("./")
            if name not in MEMBERS or not member.isreg():
                continue
            if member.size > MEMBER_BYTES_MAX:
                raise ValueError(f"{name} is larger than {MEMBER_BYTES_MAX} bytes")
            content = tar.extractfile(member)
            assert content is not None, "it is a regular file"
            found[name] = content.read()
    return found
