"""Directories in memory for an agent that may not mount: on a tmpfs of its user (``volumes.mounter.UserMemory``).

    $XDG_RUNTIME_DIR, else /dev/shm            each counts only if it is a tmpfs
      └─ trikubelet-k3j2h1/                    the base: mode 0700, the user's
           ├─ root ─► the root directory       identifies the agent
           └─ UID/volumes/PLUGIN/VOLUME        ◄─ a link at the volume's place below the root directory

Files that must not be on a disk are never written to one: without a tmpfs, there is no volume. The base has a random
name, because any user may occupy a known one in /dev/shm. It is found again by the link ``root``, also by an agent that
was started without the variable. It exists while a pod has a file in it.

A tmpfs can vanish under an agent: at a boot, and with the user's last session. Links are dangling then, and are made
anew with the directories. The leftovers of a removed root directory (a killed ``run``) are removed by the user's next
agent. An agent locks its bases, because its root directory may look removed to another agent in another mount namespace
or in a chroot.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trikubelet.host.mounts import fs_type
from trikubelet.host.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PREFIX: Final = "trikubelet-"
ROOT_LINK: Final = "root"
VARIABLE: Final = "XDG_RUNTIME_DIR"
SHARED: Final = Path("/dev/shm")  # noqa: S108 - a directory of a random name is made there
_TMPFS: Final = "tmpfs"


class NoTmpfs(OSError):
    """The user has no tmpfs. ``problem``: the problem of each place; ``remedy``: the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"its files may only be in memory, and {problem} ({remedy})")


class UserTmpfs:
    """Owns the bases of one root directory, their locks, and the place of each volume of this agent. All of it blocks
    and is called in threads; all methods raise OSError."""

    def __init__(
        self,
        root: Path,
        environment: Mapping[str, str],
        *,
        session: Path | None = None,
        shared: Path = SHARED,
        type_of: Callable[[str], str] = fs_type,
    ) -> None:
        """``root``: the agent's root directory, by its real path; ``session``: the variable's value in a session of
        this user; ``type_of``: returns the file system of a path."""
        self._root = root
        self._pods = root / "pods"
        own = Path(environment.get(VARIABLE, ""))
        self._own = own if own.is_absolute() else None
        self._session = session or Path(f"/run/user/{os.geteuid()}")
        self._shared = shared
        self._type_of = type_of
        self._targets: dict[str, str] = {}
        self._locks: dict[Path, int] = {}
        self._changing_bases = threading.Lock()  # several volumes of a pod are set up at the same time

    def link(self, place: Path, mode: int, group: int | None) -> None:
        """Link a directory in memory at ``place``, a volume's; a new one gets that mode and group. An existing one
        belongs to the pod and stays unchanged."""
        with self._changing_bases:
            base = next(self._bases(), None) or self._make_base()
            self._lock(base)
            target = base / place.relative_to(self._pods)
            if not target.is_dir():
                _make(target, mode, group)
        _point(place, target)
        self._targets[str(place)] = str(target)

    def target(self, place: str) -> str:
        """Return the directory that this agent linked there, or the place itself. Does not block."""
        return self._targets.get(place, place)

    def remove(self, uid: str) -> None:
        """Remove all directories of a pod in memory. Its links are removed by the caller."""
        for base in list(self._bases()):
            if (base / uid).is_dir():
                remove_tree(str(base / uid))
            self._drop_unused(base)
        for place in [one for one in self._targets if Path(one).is_relative_to(self._pods / uid)]:
            del self._targets[place]

    def sweep(self) -> None:
        """Remove the leftovers of pods without a directory, and those of removed root directories."""
        for base, root in list(self._all_bases()):
            if _is_gone(root) and not _is_locked(base):
                remove_tree(str(base))
        for base in list(self._bases()):
            with self._changing_bases:
                self._lock(base)
            for uid in os.listdir(base):
                if uid != ROOT_LINK and not (self._pods / uid).is_dir():
                    remove_tree(str(base / uid))
            self._drop_unused(base)

    def clear(self) -> None:
        """Remove all directories of this root directory's pods in memory."""
        for base in list(self._bases()):
            remove_tree(str(base))
        self.close()

    def close(self) -> None:
        """Release the locks of the bases, as the end of the process does."""
        while self._locks:
            os.close(self._locks.popitem()[1])

    def tmpfs(self) -> Path:
        """Return the first tmpfs that this user may write to. Raises NoTmpfs."""
        lacks = [] if self._own is not None else [f"{VARIABLE} is not set"]
        for directory in filter(None, (self._own, self._shared)):
            try:
                found = self._type_of(str(directory)) or "of an unknown type"
                if found != _TMPFS:
                    lacks.append(f"{directory} is not a tmpfs but {found}")
                elif os.access(directory, os.W_OK, effective_ids=True):
                    return directory
                else:
                    lacks.append(f"{directory} is not writable")
            except OSError as error:
                lacks.append(f"{directory}: {error.strerror}")
        remedy = f"set {VARIABLE} to a tmpfs of this user, mount one at {self._shared}, or start the agent as root"
        raise NoTmpfs(f"user {os.geteuid()} has no tmpfs: {', '.join(lacks)}", remedy)

    # ---- bases ----

    def _bases(self) -> Iterator[Path]:
        """Yield the bases of this root directory: mostly one, and several if the variable has changed."""
        return (base for base, root in self._all_bases() if root == self._root)

    def _all_bases(self) -> Iterator[tuple[Path, Path]]:
        """Yield every base of this user, with its root directory."""
        for directory in dict.fromkeys(filter(None, (self._own, self._session, self._shared))):
            with suppress(OSError):
                for name in sorted(os.listdir(directory)):
                    if name.startswith(PREFIX) and (root := _root_of(directory / name)) is not None:
                        yield directory / name, root

    def _make_base(self) -> Path:
        base = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.tmpfs()))  # its mode is 0700
        (base / ROOT_LINK).symlink_to(self._root)
        return base

    def _lock(self, base: Path) -> None:
        """Keep other agents of this user from removing the base. Call it under ``_changing_bases``."""
        if base not in self._locks:
            directory = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:  # another agent checks the lock at this moment; the next volume retries
                os.close(directory)
            else:
                self._locks[base] = directory

    def _drop_unused(self, base: Path) -> None:
        with self._changing_bases:
            if os.listdir(base) == [ROOT_LINK]:
                (base / ROOT_LINK).unlink()
                base.rmdir()
                if base in self._locks:
                    os.close(self._locks.pop(base))

    def __repr__(self) -> str:
        return f"<UserTmpfs: {len(self._targets)} volumes>"


def _root_of(base: Path) -> Path | None:
    """Return the root directory of a base; None if it is not a base of this user: another user may have created it."""
    with suppress(OSError):
        found = base.lstat()
        is_private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
        if is_private and found.st_uid == os.geteuid():
            return Path(os.readlink(base / ROOT_LINK))
    return None


def _is_gone(root: Path) -> bool:
    try:
        root.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # unknown, so it counts as existing
        return False
    return False


def _is_locked(base: Path) -> bool:
    """True if a running agent uses the base, or if that is unknown."""
    with suppress(OSError):
        directory = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(directory)
        return False
    return True


def _make(target: Path, mode: int, group: int | None) -> None:
    """Make a directory, complete at once."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}")  # no volume has such a name
    unfinished.mkdir(exist_ok=True)
    if group is not None:
        os.chown(unfinished, -1, group)
    unfinished.chmod(mode)
    unfinished.rename(target)


def _point(place: Path, target: Path) -> None:
    """Make the place a link there, atomically. An empty directory in the way is a mount point that was never used."""
    with suppress(OSError):
        if os.readlink(place) == str(target):
            return
    place.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if not place.is_symlink() and place.is_dir():
        place.rmdir()
    unfinished = place.with_name(f".{place.name}")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.rename(place)
