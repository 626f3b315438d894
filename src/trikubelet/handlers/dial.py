"""A connection to a container, made and used with as little as can be.

Nearly always the address is numeric and the container on this machine. There the handshake is over before the call that
begins it returns, though that does not say so. A thousand questions a second are asked this way, so what is done is a
few calls of the kernel; a caller that needs more than to send and receive once makes a stream of the socket. Names are
looked up by Trio, in the threads of ``kit.lookups``.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from contextlib import suppress
from typing import Final

import trio

from trikubelet.kit.causes import first_cause
from trikubelet.model.handlers import Unreachable, authority

RECEIVE_BYTES = 16 * 1024
_NO_HOST: Final = (OSError, UnicodeError, TypeError, OverflowError)
"""Raised for a host that is none: an IPv6 address in a scope that is not there, characters no host can have; and for a
port that is none."""


async def dial(host: str, port: int) -> socket.socket:
    """A socket that is connected and does not block; a checkpoint only where that takes time. Raises Unreachable; not
    for what takes too long, which is for the caller's cancel scope to say."""
    family = _family(host)
    if family is None:
        return await _dial_by_name(host, port)
    connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        code = _connect(connection, host, port)
        if code == errno.EINPROGRESS and _is_connected(connection):
            code = 0
        elif code == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(connection)
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            why = message_of(OSError(code, os.strerror(code)))
            raise Unreachable(f"dial tcp {authority(host, port)}: connect: {why}")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(connection: socket.socket, host: str, port: int) -> int:
    """Begin the handshake; the system's error, or 0. Raises Unreachable for what is no host, which is raised
    all the same."""
    try:
        return connection.connect_ex((host, port))
    except _NO_HOST as error:
        raise Unreachable(f"dial tcp {authority(host, port)}: {message_of(error)}") from error


def _is_connected(connection: socket.socket) -> bool:
    """True if the handshake has finished already. To ask costs a tenth of what it costs to be woken."""
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


def _family(host: str) -> socket.AddressFamily | None:
    """Return the family of a numeric address; None for a name."""
    for family, address in ((socket.AF_INET, host), (socket.AF_INET6, host.partition("%")[0])):
        with suppress(OSError, ValueError):  # the latter for characters that no address has
            socket.inet_pton(family, address)
            return family
    return None


async def _dial_by_name(host: str, port: int) -> socket.socket:
    try:
        stream = await trio.open_tcp_stream(host, port)
    except _NO_HOST as error:
        raise Unreachable(f"dial tcp {authority(host, port)}: {message_of(error)}") from error
    # Trio's wrapper gives its socket up, so that there is one kind of connection from here on.
    connection = socket.socket(fileno=stream.socket.detach())
    connection.setblocking(False)
    return connection


async def send(connection: socket.socket, data: bytes) -> None:
    """Send all of it; a checkpoint only where the kernel does not take it at once. Raises OSError."""
    while data:
        try:
            data = data[connection.send(data) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(connection)


async def receive(connection: socket.socket) -> bytes:
    """Return the next bytes, b"" at the end. Always a checkpoint. Raises OSError."""
    while True:
        await trio.lowlevel.wait_readable(connection)
        try:
            return connection.recv(RECEIVE_BYTES)
        except BlockingIOError:
            continue  # woken for nothing


def stream_of(connection: socket.socket) -> trio.SocketStream:
    """The connection as Trio has them."""
    return trio.SocketStream(trio.socket.from_stdlib_socket(connection))


def message_of(error: BaseException) -> str:
    """Return the system's text of an error, as it is read in the middle of a sentence."""
    error = first_cause(error)
    if isinstance(error, BaseExceptionGroup):  # of a name with several addresses: the first says enough
        return message_of(error.exceptions[0])
    if isinstance(error, OSError) and error.strerror:
        # If Trio adds a text of its own, the system's are in the number. The error of a name's lookup has none, and the
        # number of a TLS error is OpenSSL's.
        number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
        said = os.strerror(number) if number > 0 else error.strerror
        return said if said[1:2].isupper() else said[0].lower() + said[1:]
    return str(error) or type(error).__name__
