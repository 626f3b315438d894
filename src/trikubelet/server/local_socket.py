"""The agent's own Unix socket: there as long as the agent is, whatever is removed meanwhile.

    bound at the start ─► accept, accept, … ─► its name is gone ─► bound again; connections live on

A socket without a name can be asked by nobody, and its agent looks dead to the command line. So whoever tidies up there
(something that empties /run, a hasty operator) is made good after a few seconds. What somebody else has put in its
place stays: that may be another agent's, if the lock on the root directory is gone as well. Where the disk has no room
for a name, the agent starts without: it may be what makes room, by evicting the pod that filled the disk.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from trikubelet.kit.every import Every
from trikubelet.kit.failure_log import FailureLog
from trikubelet.model.errors import StartFailed

log = logging.getLogger(__name__)

SOCKET_MODE: Final = 0o600
LOOK_SECONDS: Final = 5.0
"""Between two looks whether it is there."""
_PATH_BYTES_MAX: Final = 107
_BACKLOG: Final = 64
_BIND: Final = "bind the socket"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class LocalSocket(trio.abc.Listener[trio.SocketStream]):
    """Owns the socket, and which file is its name. A socket that only its owner may use."""

    def __init__(self, path: str) -> None:
        """Listen at ``path``, or, where the disk is full, as soon as there is room. What an earlier life left there is
        replaced: the lock on the root directory says that this life is the only one. Raises StartFailed when there can
        be no socket."""
        self._path = path
        self._failure_log = FailureLog()
        if len(os.fsencode(path)) > _PATH_BYTES_MAX:
            limit = f"the system allows {_PATH_BYTES_MAX} bytes; choose a shorter --root-dir"
            raise StartFailed(f"{path} is too long for the path of a socket: {limit}")
        place = Path(path)
        if place.exists() and not place.is_socket():
            raise StartFailed(f"{path} exists and is no socket: remove it, or choose another --root-dir")
        self._listener: trio.SocketListener | None = None
        self._file: tuple[int, int] | None = None
        self._has_bound = trio.Event()
        try:
            place.unlink(missing_ok=True)
            self._bind()
        except OSError as error:
            if error.errno not in _FULL:
                raise StartFailed(f"there can be no socket at {path}: {error.strerror or error}") from error
            self._complain(error)

    async def accept(self) -> trio.SocketStream:
        """The next connection, whenever the socket was bound. Raises as Trio's listeners do."""
        await self._has_bound.wait()
        while True:
            listener = self._listener
            assert listener is not None
            try:
                return await listener.accept()
            except trio.ClosedResourceError:
                if listener is self._listener:
                    raise

    async def aclose(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            await self._listener.aclose()

    async def keep(self) -> None:
        """See to it that it can be connected to, until cancelled."""
        async for _ in Every(LOOK_SECONDS):
            self._look()

    def remove(self) -> None:
        """Remove its name, unless it is somebody else's by now."""
        with suppress(OSError):
            if self._is_ours(_file_at(self._path)):
                os.unlink(self._path)

    def _look(self) -> None:
        found = _file_at(self._path)
        if self._is_ours(found):
            self._failure_log.works_again(_BIND)
            return
        try:
            if found is not None:
                raise FileExistsError(f"somebody has put something else there; remove it, and {self._path} is back")
            self._bind()
        except OSError as error:
            self._complain(error)
            return
        log.warning("The agent's socket %s was not there; now it is", self._path)

    def _bind(self) -> None:
        """Raises OSError; then all is as it was."""
        fresh, self._file = _bound(self._path)
        gone, self._listener = self._listener, fresh
        if gone is not None:
            gone.socket.close()  # who waits for a connection there waits here now
        self._has_bound.set()

    def _complain(self, error: OSError) -> None:
        if self._failure_log.may_log(_BIND):
            why = error.strerror or error
            log.warning("The agent's socket %s is not there, the command line cannot ask: %s", self._path, why)

    def _is_ours(self, found: tuple[int, int] | None) -> bool:
        """Where the own file could not be looked at, none is."""
        return found is not None and found == self._file

    def __repr__(self) -> str:
        return f"<LocalSocket {self._path}>"


def _bound(path: str) -> tuple[trio.SocketListener, tuple[int, int] | None]:
    """Somebody who listens where nothing is, and which file that is now. Raises OSError."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    ears = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the file the mode of the open socket: it never has other rights, and no umask is touched,
        # which every thread of the process shares.
        os.fchmod(ears.fileno(), SOCKET_MODE)
        ears.bind(path)
        ears.listen(_BACKLOG)
        ears.setblocking(False)
        return trio.SocketListener(trio.socket.from_stdlib_socket(ears)), _file_at(path)
    except BaseException:
        ears.close()
        raise


def _file_at(path: str) -> tuple[int, int] | None:
    """Which file has that name; None where there is none, or nobody can say."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
