"""One agent per root directory: two would fight over the same pods and each believe the other's containers lost.

``RootLock`` is held from start to end; the kernel releases it when the process dies, however it dies. In addition there
is upstream's ``--lock-file``, by which agents hand a node over: the next one waits for the file's lock, and with
``--exit-on-lock-contention`` the present one ends as soon as another process opens the file.
"""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from inotify_simple import INotify, flags

from trikubelet.kit.every import Every
from trikubelet.model.errors import StartFailed

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger(__name__)

LOCK_NAME: Final = "trikubelet.lock"
ROOT_MODE: Final = 0o750
_WAIT_SECONDS: Final = 1.0
_PID_BYTES: Final = 32


class RootInUse(StartFailed):
    """Another process holds the lock of a root directory. ``holder``: its process id, as text."""

    def __init__(self, root_dir: Path, holder: str) -> None:
        super().__init__(
            f"{root_dir} is in use by another agent, process {holder}; stop it, or give this one a "
            "--root-dir and a podLogsDir of its own"
        )
        self.holder = holder


class RootLock:
    """Owns the root directory, from ``__enter__`` to ``__exit__``. The holder's process id is in its file."""

    def __init__(self, root_dir: Path) -> None:
        self._root_dir = root_dir
        self._file = -1

    def __enter__(self) -> RootLock:
        """Take the lock; the directory is made if need be. Raises RootInUse and StartFailed."""
        try:
            self._root_dir.mkdir(mode=ROOT_MODE, parents=True, exist_ok=True)
            self._file = take_lock(self._root_dir / LOCK_NAME)
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
        self._file = -1

    async def acquire(self) -> None:
        """Wait until the lock is ours. Raises StartFailed when the file cannot be opened."""
        logged = False
        async for _ in Every(_WAIT_SECONDS):
            try:
                self._file = take_lock(self._path)
            except BlockingIOError as held:
                if not logged:
                    log.info("Waiting for %s, which process %s holds", self._path, held.strerror)
                logged = True
            except OSError as error:
                raise StartFailed(f"--lock-file: {self._path}: {error.strerror}") from error
            else:
                return

    async def contended(self) -> None:
        """Wait until another process opens the file, or removes it. Raises StartFailed when it cannot be watched."""
        with INotify() as watch:
            try:
                watch.add_watch(str(self._path), flags.OPEN | flags.DELETE_SELF)
            except OSError as error:
                raise StartFailed(f"--lock-file: {self._path} cannot be watched: {error.strerror}") from error
            await trio.lowlevel.wait_readable(watch.fileno())

    def release(self) -> None:
        """Release it. Nothing to do when it is not held."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def take_lock(path: Path) -> int:
    """Lock a file and write our process id into it; the open file. Raises BlockingIOError, whose ``strerror`` is the
    holder's process id, when it is held, and OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as held:
        holder = os.pread(file, _PID_BYTES, 0).decode(errors="replace").strip()
        os.close(file)
        raise BlockingIOError(held.errno, holder or "unknown", str(path)) from held
    except OSError:
        os.close(file)
        raise
    with suppress(OSError):  # a full disk does not prevent locking
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return file
