"""The agent's Unix socket: it stays available while the agent runs, even if its file is removed.

    bound at the start ─► accept, accept, … ─► its file is gone ─► bound again; connections continue

Clients cannot reach a socket whose file is gone, and its agent looks dead to the command line. So a removed file (by a
program that cleans /run, or a hasty operator) is made again after a few seconds. A file that another program put in its
place stays: it may be the socket of another agent, if the lock on the root directory is gone as well. If the disk has
no room for the file, the agent starts without it: it may be what frees space, by evicting the pod that filled the disk.
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
"""Time between two checks that the file exists, in seconds."""
_PATH_BYTES_MAX: Final = 107
_BACKLOG: Final = 64
_BIND: Final = "bind the socket"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class LocalSocket(trio.abc.Listener[trio.SocketStream]):
    """Owns the socket and the identity of its file. Only the socket's owner may connect."""

    def __init__(self, path: str) -> None:
        """Listen at ``path``, or, if the disk is full, as soon as there is room. A leftover of an earlier run is
        replaced, because the lock on the root directory guarantees that no other agent uses it. Raises StartFailed when
        the socket cannot be made."""
        self._path = path
        self._failure_log = FailureLog()
        if len(os.fsencode(path)) > _PATH_BYTES_MAX:
            limit = f"the system allows {_PATH_BYTES_MAX} bytes; choose a shorter --root-dir"
            raise StartFailed(f"{path} is too long for the path of a socket: {limit}")
        place = Path(path)
        if place.exists() and not place.is_socket():
            raise StartFailed(f"{path} exists and is not a socket: remove it, or choose another --root-dir")
        self._listener: trio.SocketListener | None = None
        self._file: tuple[int, int] | None = None
        self._has_bound = trio.Event()
        try:
            place.unlink(missing_ok=True)
            self._bind()
        except OSError as error:
            if error.errno not in _FULL:
                raise StartFailed(f"cannot make a socket at {path}: {error.strerror or error}") from error
            self._complain(error)

    async def accept(self) -> trio.SocketStream:
        """Return the next connection, also after the socket was bound again. Raises what Trio's listeners raise."""
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
        """Stop listening."""
        if self._listener is not None:
            await self._listener.aclose()

    async def keep(self) -> None:
        """Bind the socket again whenever its file is gone, until cancelled."""
        async for _ in Every(LOOK_SECONDS):
            self._look()

    def remove(self) -> None:
        """Remove the socket's file, unless another program has replaced it."""
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
                raise FileExistsError(f"another file is at its place; remove it, and {self._path} comes back")
            self._bind()
        except OSError as error:
            self._complain(error)
            return
        log.warning("The agent's socket %s was missing; it is back now", self._path)

    def _bind(self) -> None:
        """Raises OSError; then nothing has changed."""
        fresh, self._file = _bound(self._path)
        gone, self._listener = self._listener, fresh
        if gone is not None:
            gone.socket.close()  # callers that wait for a connection there now wait here
        self._has_bound.set()

    def _complain(self, error: OSError) -> None:
        if self._failure_log.may_log(_BIND):
            why = error.strerror or error
            log.warning(
                "The agent's socket %s is missing, so the command line cannot reach the agent: %s", self._path, why
            )

    def _is_ours(self, found: tuple[int, int] | None) -> bool:
        """True if the file is ours; false while our own file's identity is unknown."""
        return found is not None and found == self._file

    def __repr__(self) -> str:
        return f"<LocalSocket {self._path}>"


def _bound(path: str) -> tuple[trio.SocketListener, tuple[int, int] | None]:
    """Return a listener at a free path, and its file's identity. Raises OSError."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    ears = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the file the mode of the open socket. So it never has other rights, and the umask, which all
        # threads of the process share, stays untouched.
        os.fchmod(ears.fileno(), SOCKET_MODE)
        ears.bind(path)
        ears.listen(_BACKLOG)
        ears.setblocking(False)
        return trio.SocketListener(trio.socket.from_stdlib_socket(ears)), _file_at(path)
    except BaseException:
        ears.close()
        raise


def _file_at(path: str) -> tuple[int, int] | None:
    """Return the identity of the file at that path; None where there is none or it cannot be read."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
