"""One agent per root directory: two would manage the same pods and each treat the other's containers as lost.

``RootLock`` is held from start to end; the kernel releases it when the process dies, however it dies. In addition there
is upstream's ``--lock-file``, by which agents hand a node over: the next one waits for the file's lock, and with
``--exit-on-lock-contention`` the present one ends as soon as another process opens the file.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from inotify_simple import INotify, flags

from trikubelet.kit.every import Every
from trikubelet.kit.plain_file import open_plain, open_plain_to_lock
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger(__name__)

LOCK_NAME: Final = "trikubelet.lock"
ROOT_MODE: Final = 0o750
_WAIT_SECONDS: Final = 1.0
_LOCK_BYTES_MAX: Final = 64
_SHARES: Final = "shares its runtime\n"
"""The line in the lock's file of an agent that starts next to others on purpose."""


class RootInUse(StartFailed):
    """Another process holds the lock of a root directory. ``holder``: its process id, as text."""

    def __init__(self, root_dir: Path, holder: str) -> None:
        super().__init__(
            f"{root_dir} is in use by another agent, process {holder}; stop it, or give this one a "
            "--root-dir and a podLogsDir of its own"
        )
        self.holder = holder


class RootLock:
    """Owns the root directory, from ``__enter__`` to ``__exit__``. Its file has the holder's process id, and whether
    the holder shares its runtime: a note elsewhere would outlive the holder."""

    def __init__(self, root_dir: Path, *, shares_runtime: bool = False) -> None:
        self._root_dir = root_dir
        self._note = _SHARES if shares_runtime else ""
        self._file = -1

    def __enter__(self) -> RootLock:
        """Take the lock; the directory is created if needed. Raises RootInUse and StartFailed."""
        try:
            self._root_dir.mkdir(mode=ROOT_MODE, parents=True, exist_ok=True)
            self._file = take_lock(self._root_dir / LOCK_NAME, self._note)
        except BlockingIOError as held:
            raise RootInUse(self._root_dir, held.strerror or "unknown") from held
        except OSError as error:
            raise StartFailed(
                f"{error.filename or self._root_dir}: {error.strerror}; the root directory must be writable, "
                "--root-dir names another"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. The file stays: removing it would let two agents lock two files of one name."""
        os.close(self._file)


class LockFile:
    """Owns the lock of ``--lock-file`` while it is held."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._target = Path(os.path.realpath(path))  # an operator may have made it a link
        self._file = -1

    async def acquire(self) -> None:
        """Wait until the lock is ours. Raises StartFailed if the file cannot be opened."""
        logged = False
        async for _ in Every(_WAIT_SECONDS):
            try:
                self._file = take_lock(self._target)
            except BlockingIOError as held:
                if not logged:
                    log.info("Waiting for %s, which process %s holds", self._path, held.strerror)
                logged = True
            except OSError as error:
                raise StartFailed(f"--lock-file: {self._path}: {error.strerror}") from error
            else:
                return

    async def contended(self) -> None:
        """Wait until another process opens the file, or removes it. Raises StartFailed if it cannot be watched."""
        with INotify() as watch:
            try:
                watch.add_watch(str(self._path), flags.OPEN | flags.DELETE_SELF)
            except OSError as error:
                raise StartFailed(f"--lock-file: {self._path} cannot be watched: {error.strerror}") from error
            await trio.lowlevel.wait_readable(watch.fileno())

    def release(self) -> None:
        """Release it, if it is held."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def take_lock(path: Path, note: str = "") -> int:
    """Lock a file, created if needed, write our process id and a note into it, and return the open file. Raises
    BlockingIOError, whose ``strerror`` is the holder's process id, if it is held, and OSError; also for a link or
    anything else but a regular file, which another user may have put there to have its target overwritten."""
    try:
        file = open_plain_to_lock(str(path), 0o600)
    except BlockingIOError as leased:  # the error does not tell whether it is locked
        raise OSError(errno.EBUSY, "another process has a lease on it", str(path)) from leased
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as held:
        raise BlockingIOError(held.errno, _holder(file) or "unknown", str(path)) from held
    except OSError:
        os.close(file)
        raise
    with suppress(OSError):  # a full disk does not prevent locking
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n{note}".encode(), 0)
    return file


def shares_runtime(lock: Path) -> bool:
    """Return true if the holder of a root directory's lock shares its runtime, and false if that cannot be read."""
    with suppress(OSError), open_plain(str(lock), follows_links=False) as file:
        return file.read(_LOCK_BYTES_MAX).decode(errors="replace").partition("\n")[2] == _SHARES
    return False


def _holder(file: int) -> str:
    """Return the process id in a lock's file, as text, or nothing. Closes the file."""
    try:
        return os.pread(file, _LOCK_BYTES_MAX, 0).decode(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
    finally:
        os.close(file)
