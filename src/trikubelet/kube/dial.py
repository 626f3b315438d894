"""Makes the connections to an API server, directly or through a proxy, and knows which are open.

httpx can make connections itself, in ways that do not fit here: one TLS context for ever, where ours changes when
certificates are renewed; a proxy's tunnel that ignores ``tls-server-name`` and is forgotten half made when TLS fails in
it; no hold on what is open. So they come from here, and ``transport`` keeps and reuses them:

    host ─► TCP ─► [TLS to the proxy] ─► [CONNECT] ─► TLS with the credentials of this moment ─► stream

How a peer that died in silence is noticed: the kernel probes a quiet connection after 15 s and every 5 s, and gives up
what was sent and not acknowledged for 30 s. So a half-open connection is an error after about half a minute.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import h11
import trio

from trikubelet.kit.causes import first_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trikubelet.model.kubeconfig import Server

CONNECT_SECONDS_MAX: Final = 10.0
"""To the end of the TCP handshakes and the proxy's consent, and once more to the end of TLS."""
INFORMATIONAL_MAX: Final = 5
"""Answers before the answer (1xx), as of a probe: a server could send them for ever."""
QUIET_SECONDS: Final = 15
PROBE_SECONDS: Final = 5
UNACKNOWLEDGED_SECONDS_MAX: Final = 30

_OPTIONS: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, QUIET_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, (UNACKNOWLEDGED_SECONDS_MAX - QUIET_SECONDS) // PROBE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_SECONDS_MAX * 1000),
)
_SIGNED_BY_OTHERS: Final = frozenset({7, 18, 19, 20, 21})
"""OpenSSL's verdicts on a chain that does not lead to an authority we know, or that it did not sign."""
_OF_ANOTHER_NAME: Final = frozenset({62, 64})
"""OpenSSL's codes for a certificate that is good, but not for the name or address that was dialed."""
_NAME_ADVICE: Final = "; a kubeconfig's tls-server-name says for which other name it may be"
_ADVICE: Final = (
    "; no authority that is trusted here signed it, for a server the certificate-authority of its kubeconfig"
)
_TRIOS_WORDS: Final = re.compile(r"Error connecting to \('([^']+)', (\d+)[^)]*\): (.*)")
"""Trio's text for a connection that failed; it shows the address as Python does."""
_ANSWER_BYTES_MAX: Final = 16 * 1024
"""Bytes of a proxy's answer to CONNECT."""


class CannotConnect(Exception):
    """There is no connection to be had; the message says why."""


class NoMoreFiles(CannotConnect):
    """There is none because this process, or this machine, may open no more files."""


class Dialer:
    """Owns which connections of one client are open. ``tls`` gives the TLS context for the next one."""

    def __init__(self, server: Server, tls: Callable[[], ssl.SSLContext]) -> None:
        url = urlsplit(server.url)
        self._host = url.hostname or ""
        self._is_secure = url.scheme == "https"
        self._port = url.port or (443 if self._is_secure else 80)
        self._tls_name = server.tls_name
        self._proxy = urlsplit(server.proxy) if server.proxy else None
        self._tls = tls
        self._open: set[DialedStream] = set()

    async def connect(self) -> DialedStream:
        """A connection to the server. Raises CannotConnect."""
        with _failing_to_connect(), trio.fail_after(CONNECT_SECONDS_MAX):
            stream = await (self._dial if self._proxy is None else self._tunnel)(self._host, self._port)
        if self._is_secure:
            with _closing_on_failure(stream), _failing_to_connect(), trio.fail_after(CONNECT_SECONDS_MAX):
                await stream.wrap(self._tls(), self._tls_name or self._host)
        return stream

    def close_all(self) -> None:
        """Close every connection at once; their readers and writers get an error. Never blocks."""
        for stream in tuple(self._open):
            stream.close()

    def forget(self, stream: DialedStream) -> None:
        """The connection is closed."""
        self._open.discard(stream)

    async def _dial(self, host: str, port: int) -> DialedStream:
        connection = await trio.open_tcp_stream(host, port)
        stream = DialedStream(connection, self)
        self._open.add(stream)
        with _closing_on_failure(stream):
            for option in _OPTIONS:
                connection.setsockopt(*option)
        return stream

    async def _tunnel(self, host: str, port: int) -> DialedStream:
        proxy = self._proxy
        assert proxy is not None
        if proxy.hostname is None:
            raise CannotConnect("the proxy's URL names no host: write http://, then host and port")
        secure = proxy.scheme == "https"
        headers = []
        if proxy.username is not None:
            who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
            headers.append((b"proxy-authorization", b"Basic " + b64encode(who)))
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            stream = await self._dial(proxy.hostname, proxy.port or (443 if secure else 80))
            with _closing_on_failure(stream):
                if secure:
                    await stream.wrap(ssl.create_default_context(), proxy.hostname)
                await stream.ask_for_tunnel(target, headers)
        except (OSError, trio.BrokenResourceError) as error:
            if _lacks_files(error):
                raise
            raise CannotConnect(f"the proxy {proxy.hostname} fails: {reason_of(error)}") from error
        return stream

    def __repr__(self) -> str:
        return f"<Dialer with {len(self._open)} open connections>"


class DialedStream:
    """Owns one connection."""

    def __init__(self, connection: trio.SocketStream, dialer: Dialer) -> None:
        self._socket = connection.socket
        self._stream: trio.abc.Stream = connection
        self._dialer = dialer

    async def send(self, data: bytes) -> None:
        """Send it all. Raises trio's errors."""
        await self._stream.send_all(data)

    async def receive(self, bytes_max: int) -> bytes:
        """Return the next bytes; b"" at the end. Raises trio's errors."""
        return bytes(await self._stream.receive_some(bytes_max))

    @property
    def has_ended(self) -> bool:
        """True if the connection, on which nothing is expected, was closed: here, or by the server, which can be read
        then."""
        return self._socket.fileno() < 0 or self._socket.is_readable()

    async def wrap(self, context: ssl.SSLContext, name: str) -> None:
        """TLS from here on. Raises trio's errors."""
        wrapped = trio.SSLStream(self._stream, context, server_hostname=name, https_compatible=True)
        await wrapped.do_handshake()
        self._stream = wrapped

    async def ask_for_tunnel(self, target: str, headers: list[tuple[bytes, bytes]]) -> None:
        """Ask a proxy to connect us. Raises CannotConnect, and trio's errors."""
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ANSWER_BYTES_MAX)
        request = h11.Request(method="CONNECT", target=target, headers=[(b"host", target.encode()), *headers])
        sent = (http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b"")
        await self._stream.send_all(sent)
        try:
            for _ in range(INFORMATIONAL_MAX + 1):
                while (event := http.next_event()) is h11.NEED_DATA:
                    http.receive_data(bytes(await self._stream.receive_some(_ANSWER_BYTES_MAX)))
                # An interim answer, 100 Continue say, comes before the answer.
                if not isinstance(event, h11.InformationalResponse):
                    break
            else:
                raise CannotConnect(f"the proxy sent more than {INFORMATIONAL_MAX} answers before the answer (1xx)")
        except h11.RemoteProtocolError as error:
            raise CannotConnect(f"the proxy's answer is not HTTP: {error}") from error
        if not isinstance(event, h11.Response):
            raise CannotConnect("the proxy closed the connection")
        if not 200 <= event.status_code < 300:
            reason = bytes(event.reason).decode("latin-1")
            raise CannotConnect(f"the proxy refuses to connect to {target}: {event.status_code} {reason}")

    def close(self) -> None:
        """Close it. Never blocks; closing twice is not an error."""
        self._dialer.forget(self)
        self._socket.close()


@contextmanager
def _failing_to_connect() -> Iterator[None]:
    """Says what kept a connection from being made."""
    try:
        yield
    except trio.TooSlowError as error:
        raise CannotConnect(f"no answer for {CONNECT_SECONDS_MAX:g} s") from error
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise (NoMoreFiles if _lacks_files(error) else CannotConnect)(reason_of(error)) from error
    except (ValueError, TypeError) as error:
        # Values that can be no host, as a redirect or an environment may name them: UnicodeError of a lookup,
        # ValueError for a name TLS is to check, TypeError for a NUL in it.
        raise CannotConnect(f"its host can be none: {reason_of(error)}") from error


@contextmanager
def _closing_on_failure(stream: DialedStream) -> Iterator[None]:
    try:
        yield
    except BaseException:
        stream.close()
        raise


def _lacks_files(error: BaseException | None) -> bool:
    """True if that is the cause at the bottom of it."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_lacks_files, error.exceptions))
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return True
    return error is not None and _lacks_files(error.__cause__)


def reason_of(error: BaseException) -> str:
    """The message of the innermost error."""
    if isinstance(error, trio.ClosedResourceError):
        return "the connection was closed on this side"
    error = first_cause(error)
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(reason_of(one) for one in error.exceptions))
    if isinstance(error, ssl.SSLCertVerificationError):
        code = error.verify_code
        advice = _ADVICE if code in _SIGNED_BY_OTHERS else _NAME_ADVICE if code in _OF_ANOTHER_NAME else ""
        return f"the certificate is not to be trusted: {error.verify_message}{advice}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    said = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
    if found := _TRIOS_WORDS.fullmatch(said):
        host, port, why = found.groups()
        return f"[{host}]:{port}: {why}" if ":" in host else f"{host}:{port}: {why}"
    return said
