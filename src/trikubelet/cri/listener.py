"""A Unix socket for a server: replaces a socket whose server is gone, never one that is in use.

Everything here is a few local system calls that do not block, so nothing is async.
"""

from __future__ import annotations

import errno
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from trikubelet.cri.endpoint import socket_path

SOCKET_MODE: Final = 0o600
_BACKLOG: Final = 128


class UnixListener:
    """Owns one socket file from ``bind`` to its removal."""

    def __init__(self, endpoint: str) -> None:
        """Listen at a path or ``unix://`` URL. Raises ValueError for an invalid one, and OSError: EADDRINUSE if another
        process listens there or the file is not a socket."""
        self.path = Path(socket_path(endpoint))
        self._clear()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(str(self.path))
            self.path.chmod(SOCKET_MODE)  # before anyone can connect
            sock.listen(_BACKLOG)
        except BaseException:
            sock.close()
            raise
        self._inode = self.path.lstat().st_ino
        self.listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))

    def remove(self) -> None:
        """Remove the file, unless another program has replaced it."""
        with suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()

    def _clear(self) -> None:
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise OSError(errno.EADDRINUSE, f"{self.path} is not a socket; remove it or choose another path")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(self.path))
            except ConnectionRefusedError:
                self.path.unlink(missing_ok=True)
                return
            except BlockingIOError:  # its backlog is full, so a server exists
                pass
        raise OSError(errno.EADDRINUSE, f"another process listens at {self.path} already")
