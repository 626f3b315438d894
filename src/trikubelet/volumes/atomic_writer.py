"""Files that change atomically together: a reader of the volume sees either all old ones or all new ones.

    volume/..2026_11_21_15_50_12.k3j2h1/  key, dir/key      the files, never touched once they are whole
    volume/..data ─► ..2026_11_21_15_50_12.k3j2h1           swapped by one rename
    volume/key ─► ..data/key · volume/dir ─► ..data/dir     what a container opens

The layout is upstream's; programs know it, and watch ``..data``. Leftovers of a crash are removed by the next write.
All of it may be slow and is called in threads.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from trikubelet.core.containers.volume_files import clean_path
from trikubelet.host.removal import remove_tree
from trikubelet.kit.plain_file import open_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from trikubelet.core.containers.volume_files import VolumeFile

DATA: Final = "..data"
DATA_NEXT: Final = "..data_tmp"
DIRECTORY_MODE: Final = 0o755
GROUP_READS: Final = 0o440
GROUP_INHERITS: Final = 0o2000


def directory_mode(group: int | None) -> int:
    """Return the mode of the volume and of the directories in it. With a group, new files in it belong to that."""
    return DIRECTORY_MODE if group is None else DIRECTORY_MODE | GROUP_INHERITS


def open_to(directory: Path, group: int | None) -> None:
    """Let everyone read the directory, and give it to the group, if any. Raises OSError."""
    if group is not None:
        os.chown(directory, -1, group)
    directory.chmod(directory_mode(group))


def is_filled(volume: Path) -> bool:
    """True if the volume was completely written once. False if it cannot be entered: it may be a dangling link."""
    try:
        return (volume / DATA).is_symlink()
    except PermissionError:
        return False


def write(volume: Path, files: Mapping[str, VolumeFile], group: int | None) -> bool:
    """Make the volume have these files and no others, readable for ``group`` if given. Return true if that changed
    anything: files in the desired state are not written. Raises OSError, and ValueError for invalid paths; then the
    volume is unchanged."""
    files = {clean_path(path): file for path, file in files.items()}
    for path in files:
        if above := next((str(one) for one in PurePosixPath(path).parents if str(one) in files), ""):
            raise ValueError(f"{above} cannot be a file and the directory of {path}")
    wanted = {path: _Desired.of(file, group) for path, file in files.items()}
    current = _current(volume)
    changed = current is None or not _holds(volume / current, wanted)
    if changed:
        _tidy(volume, current)  # leftovers take space that may be needed now
        current = _write_new(volume, wanted, group)
        (volume / DATA_NEXT).unlink(missing_ok=True)
        (volume / DATA_NEXT).symlink_to(current)
        (volume / DATA_NEXT).rename(volume / DATA)
    _link(volume, {path.partition("/")[0] for path in files})
    _tidy(volume, current)
    return changed


class _Desired(NamedTuple):
    """A file's content, mode and owners."""

    content: bytes
    mode: int
    owner: int
    group: int

    @classmethod
    def of(cls, file: VolumeFile, group: int | None) -> Self:
        mode = file.mode if group is None else file.mode | GROUP_READS
        owner = os.geteuid() if file.owner is None else file.owner
        return cls(file.content, mode, owner, os.getegid() if group is None else group)


def _current(volume: Path) -> str | None:
    """Return the directory that ``..data`` points to, a plain name inside the volume."""
    if not is_filled(volume):
        return None
    name = os.readlink(volume / DATA)
    directory = volume / name
    is_ours = "/" not in name and name.startswith("..") and not directory.is_symlink() and directory.is_dir()
    return name if is_ours and name != ".." else None


def _holds(directory: Path, wanted: Mapping[str, _Desired]) -> bool:
    """True if these files, and nothing else, are below the directory. Only the directories of these files are entered:
    a privileged container can write here, and may leave trees of any depth and breadth."""
    names: dict[PurePosixPath, set[str]] = defaultdict(set, {PurePosixPath(): set()})
    for path in map(PurePosixPath, wanted):
        for one in (path, *path.parents[:-1]):
            names[one.parent].add(one.name)
    # A directory sorts before those in it, so it is checked for being a link first.
    are_alike = all(_has_only(directory / inside, names[inside]) for inside in sorted(names))
    return are_alike and all(_is(directory / path, file) for path, file in wanted.items())


def _has_only(directory: Path, names: set[str]) -> bool:
    """True if it is a directory with exactly these names."""
    if not stat.S_ISDIR(directory.lstat().st_mode):
        return False
    left = set(names)
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name not in names:
                return False
            left.discard(entry.name)
    return not left


def _is(file: Path, wanted: _Desired) -> bool:
    """False if it is not a regular file. No more is read than the desired length: a privileged container can write here
    although its mount is read-only, and may leave a file of any size."""
    said = file.lstat()
    there = (stat.S_IMODE(said.st_mode), said.st_uid, said.st_gid, said.st_size)
    if not stat.S_ISREG(said.st_mode) or there != (wanted.mode, wanted.owner, wanted.group, len(wanted.content)):
        return False
    with open_plain(str(file), follows_links=False) as opened:
        return opened.read(len(wanted.content) + 1) == wanted.content


def _write_new(volume: Path, files: Mapping[str, _Desired], group: int | None) -> str:
    """Write the files to a new directory, complete, and return its name. One that cannot be completed is removed."""
    directory = Path(tempfile.mkdtemp(prefix="..", dir=volume))
    try:
        _fill(directory, files, group)
    except OSError as error:
        with suppress(OSError):
            remove_tree(str(directory))
        if error.errno == errno.ENOSPC:
            needs = sum(len(file.content) for file in files.values())
            raise OSError(errno.ENOSPC, f"no room for {needs} bytes beside what is there") from error
        raise
    made = datetime.fromtimestamp(directory.stat().st_mtime, UTC)
    name = f"..{made:%Y_%m_%d_%H_%M_%S}.{directory.name.removeprefix('..')}"
    directory.rename(volume / name)
    return name


def _fill(directory: Path, files: Mapping[str, _Desired], group: int | None) -> None:
    open_to(directory, group)
    for path, file in files.items():
        parent = directory
        for part in path.split("/")[:-1]:
            parent = parent / part
            if not parent.exists():
                parent.mkdir()
                open_to(parent, group)
        with open(directory / path, "xb", opener=_private) as opened:
            os.fchown(opened.fileno(), file.owner, file.group)
            os.fchmod(opened.fileno(), file.mode)
            opened.write(file.content)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _link(volume: Path, names: set[str]) -> None:
    """Make a link for each name at the top, and remove others."""
    for name in names:
        link, target = volume / name, f"{DATA}/{name}"
        if not link.is_symlink():
            link.symlink_to(target)
    for name in os.listdir(volume):
        if not name.startswith("..") and name not in names and (volume / name).is_symlink():
            (volume / name).unlink()


def _tidy(volume: Path, current: str | None) -> None:
    """Remove all of the writer's own directories and links but ``..data`` and the current directory. Raises OSError,
    with EBUSY if something is mounted in one."""
    for name in os.listdir(volume):
        if name.startswith("..") and name not in (DATA, current):
            left = volume / name
            if left.is_dir() and not left.is_symlink():
                remove_tree(str(left))
            else:
                left.unlink()
