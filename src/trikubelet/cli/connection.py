"""A connection to the agent's socket: in Trio if it runs, else a blocking one (``cli.blocking``)."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from trikubelet.cli.blocking import is_in_trio
from trikubelet.kit.unix_connection import connected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import trio

_CREDENTIALS: Final = struct.Struct("3i")
"""Credentials of the process at the other end: its id (0 in another PID namespace), its user and its group."""


class Stream(Protocol):
    """The part of a connection that both ends use after they have agreed on a protocol."""

    async def send_all(self, data: bytes) -> None:
        """Send. Raises ConnectionError, and TimeoutError after a deadline of ``within``."""
        ...

    async def receive_some(self, bytes_max: int) -> bytes:
        """Return the received bytes, at least one; empty at the end. Raises like ``send_all``."""
        ...

    def break_off(self) -> None:
        """End a receive in another thread now, as if the other end had closed the connection."""
        ...


class Connection(Stream, Protocol):
    """The methods of a connection that a client uses."""

    def within(self, seconds_max: float) -> AbstractContextManager[None]:
        """Return a deadline for sends and receives in the block. Raises TimeoutError."""
        ...

    def peer(self) -> int:
        """Return the id of the process at the other end; 0 if that is in another PID namespace."""
        ...

    async def aclose(self) -> None:
        """Close it."""
        ...


async def connect(path: str) -> Connection:
    """Return a connection to the process that listens at ``path``. Raises OSError; BlockingIOError if its queue is
    full."""
    if is_in_trio():
        from trikubelet.kit.unix_socket import connect_unix  # noqa: PLC0415 - only if Trio is loaded

        return InTrio(await connect_unix(path))
    return Blocking(connected(path))


class InTrio:
    """A connection in Trio. Owns only its stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        import trio  # noqa: PLC0415 - it is loaded

        self._trio = trio
        self.stream = stream

    async def send_all(self, data: bytes) -> None:
        """See ``Connection``."""
        try:
            await self.stream.send_all(data)
        except self._trio.BrokenResourceError as error:
            raise ConnectionResetError(str(error)) from error

    async def receive_some(self, bytes_max: int) -> bytes:
        """See ``Connection``."""
        try:
            return bytes(await self.stream.receive_some(bytes_max))
        except self._trio.BrokenResourceError as error:
            raise ConnectionResetError(str(error)) from error

    @contextmanager
    def within(self, seconds_max: float) -> Iterator[None]:
        """See ``Connection``."""
        try:
            with self._trio.fail_after(seconds_max):
                yield
        except self._trio.TooSlowError as error:
            raise TimeoutError from error

    def peer(self) -> int:
        """See ``Connection``."""
        return _peer(self.stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))

    def break_off(self) -> None:
        """See ``Connection``."""
        with suppress(OSError):  # it is closed already
            self.stream.socket.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """See ``Connection``."""
        await self.stream.aclose()


class Blocking:
    """A connection of a process that does nothing else meanwhile. Owns the deadline of its waits."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._ends_at: float | None = None

    async def send_all(self, data: bytes) -> None:
        """See ``Connection``."""
        self._arm()
        self._socket.sendall(data)

    async def receive_some(self, bytes_max: int) -> bytes:
        """See ``Connection``."""
        self._arm()
        return self._socket.recv(bytes_max)

    def _arm(self) -> None:
        """Have the socket wait until the deadline, and no longer."""
        if self._ends_at is None:
            self._socket.settimeout(None)
            return
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    @contextmanager
    def within(self, seconds_max: float) -> Iterator[None]:
        """See ``Connection``."""
        before, self._ends_at = self._ends_at, time.monotonic() + seconds_max
        try:
            yield
        finally:
            self._ends_at = before

    def peer(self) -> int:
        """See ``Connection``."""
        return _peer(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))

    def break_off(self) -> None:
        """See ``Connection``."""
        with suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """See ``Connection``."""
        self._socket.close()


class ReadEarly:
    """Owns the bytes that came right after the answer; all else is the connection's."""

    def __init__(self, connection: Connection, early: bytes) -> None:
        self._early = early
        self._connection = connection
        self.send_all = connection.send_all
        self.break_off = connection.break_off

    async def receive_some(self, bytes_max: int) -> bytes:
        """See ``Stream``."""
        if not self._early:
            return await self._connection.receive_some(bytes_max)
        data, self._early = self._early[:bytes_max], self._early[bytes_max:]
        return data


def _peer(credentials: bytes) -> int:
    process: int = _CREDENTIALS.unpack(credentials)[0]
    return process
