"""TLS for ``httpd.server``: a listener whose certificate may change, and the handshake with one client.

    accept ─► the context of this moment ─► [in the connection's own task] handshake ─► who the client proved to be

No handshake is done while accepting, so a client that sends nothing delays no other; its own has a limit.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from trikubelet.core.timestamps import SECOND_NS
from trikubelet.httpd.tls_records import RECORD_BYTES_MAX
from trikubelet.kit.wide_socket import STEP_BYTES, WideSocket
from trikubelet.model.certificates import Certificate

if TYPE_CHECKING:
    from collections.abc import Callable


ALERT_SECONDS_MAX: Final = 1.0
_HANDSHAKE: Final = "_handshook"
_OUTGOING: Final = "_outgoing"
"""Trio's own names for what it keeps of a connection. They are no public API: a Trio that has others costs memory
and an alert, never the server; its version has an upper bound, and the tests fail where the names are gone."""


class NoHandshake(Exception):
    """TLS did not come about with a client."""


class TlsListener(trio.abc.Listener[trio.SSLStream[WideSocket]]):
    """Accepts TLS connections on another listener. ``context`` is asked for each; while there is none, connections are
    closed at once.

    OpenSSL keeps room for as much as is read in one step for as long as the connection lasts. So a step is as long as a
    record until the connection is known to be a stream (``widen``)."""

    def __init__(self, listener: trio.SocketListener, context: Callable[[], ssl.SSLContext | None]) -> None:
        self._listener = listener
        self._context = context

    async def accept(self) -> trio.SSLStream[WideSocket]:
        """The next connection, before its handshake. Raises what the other listener raises."""
        while True:
            stream = await self._listener.accept()
            context = self._context()
            if context is not None:
                narrow = WideSocket(stream, RECORD_BYTES_MAX)
                return trio.SSLStream(narrow, context, server_side=True, https_compatible=True)
            await trio.aclose_forcefully(stream)

    async def aclose(self) -> None:
        """Close the other listener."""
        await self._listener.aclose()


def widen(stream: trio.abc.Stream) -> None:
    """Read in large steps from here on, if it is a connection of a ``TlsListener``."""
    if isinstance(stream, trio.SSLStream) and isinstance(stream.transport_stream, WideSocket):
        stream.transport_stream.step_bytes = STEP_BYTES


async def shake_hands(stream: trio.SSLStream[Any], seconds_max: float) -> Certificate | None:
    """Do the handshake; the certificate the client showed, which the context has checked. Raises NoHandshake; the
    stream is good for nothing then but to be closed."""
    try:
        with trio.fail_after(seconds_max):
            await stream.do_handshake()
        return _shown(stream.getpeercert())
    except trio.TooSlowError as error:
        raise NoHandshake(f"not within {seconds_max:g} s") from error
    except (trio.BrokenResourceError, trio.ClosedResourceError, ValueError, OSError) as error:
        await _say_why(stream)
        raise NoHandshake(str(error.__cause__ or error)) from error


async def let_go(stream: trio.SSLStream[Any]) -> None:
    """Close a stream entirely, and free it. Trio's holds itself, by the handshake that it does once; so only the
    collector would find it, and what was in use when ``kit.heap`` set things aside would stay for an hour, with all
    that OpenSSL keeps for it."""
    try:
        await trio.aclose_forcefully(stream)
    finally:
        vars(stream).pop(_HANDSHAKE, None)


async def _say_why(stream: trio.SSLStream[Any]) -> None:
    """Send what OpenSSL would say of a handshake it has given up (an alert, such as "certificate expired"): Trio keeps
    that to itself, and the client would only see that the connection has ended."""
    outgoing = vars(stream).get(_OUTGOING)
    if not isinstance(outgoing, ssl.MemoryBIO):
        return
    with trio.move_on_after(ALERT_SECONDS_MAX), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.transport_stream.send_all(outgoing.read())


def _shown(parts: dict[str, Any] | None) -> Certificate | None:
    """Return a certificate from Python's reading of it. If it has several common names the last counts, as in Go."""
    if not parts:
        return None
    names = [pair for group in parts["subject"] for pair in group]
    common = [value for key, value in names if key == "commonName"]
    return Certificate(
        common_name=common[-1] if common else "",
        organizations=tuple(value for key, value in names if key == "organizationName"),
        not_before_ns=round(ssl.cert_time_to_seconds(parts["notBefore"])) * SECOND_NS,
        not_after_ns=round(ssl.cert_time_to_seconds(parts["notAfter"])) * SECOND_NS,
    )
