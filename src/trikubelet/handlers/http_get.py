"""GET, as probes and hooks need it: one connection for one answer, of which the beginning is kept.

    dial ─► [TLS, unverified] ─► request ─► head ─► body, 10 KiB of it ─► close ─► a redirect to follow? ─► again

No proxies, no HTTP/2, no cookies, no compression (upstream: pkg/probe/http).
"""

from __future__ import annotations

import re
import ssl
from functools import cache
from typing import Final

import h11
import trio

from trikubelet.core.handlers.redirect import REDIRECTS_MAX, redirected
from trikubelet.handlers.dial import RECEIVE_BYTES, dial, message_of, receive, send, stream_of
from trikubelet.model.handlers import HttpAnswer, HttpTarget, NotTls, Unreachable

BODY_BYTES_MAX: Final = 10 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024
INFORMATIONAL_MAX: Final = 5
"""Answers before the answer (1xx), as upstream (Go's net/http): a server could send them for ever, and a task that
reads data which is always there already lets no other task run."""
RECEIVED_BYTES_MAX: Final = 1024 * 1024
"""All that is received for one answer, more than so many heads and that body have: what is around the body, extensions
of its chunks say, could go on for ever as well."""
_BROKEN: Final = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([245]\d\d)(?=[ \r]|$)")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,6})[ \t]*(?=\r\n|$)", re.IGNORECASE)
_AS_PYTHON: Final = re.compile(r"bytearray\(b(.*)\)")
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


async def http_get(target: HttpTarget) -> HttpAnswer:
    """The last answer. Raises Unreachable, and NotTls where an HTTPS target speaks plain HTTP."""
    return await HttpGet(target)()


class HttpGet:
    """Owns the request for one target as bytes, written when it is first asked: for who asks again and again."""

    def __init__(self, target: HttpTarget) -> None:
        self._target = target
        self._request = b""

    async def __call__(self) -> HttpAnswer:
        """As ``http_get``."""
        asked = self
        for _ in range(REDIRECTS_MAX + 1):
            answer, location = await asked._once()
            following = redirected(asked._target, answer.status, location)
            if following is None:
                return answer
            asked = HttpGet(following)
        raise Unreachable(f'Get "{asked._target.url}": stopped after {REDIRECTS_MAX} redirects')

    async def _once(self) -> tuple[HttpAnswer, str]:
        """One answer, and where it sends us."""
        target = self._target
        try:
            connection = await dial(target.host, target.port)
            # Closed without TLS's close_notify: HTTP has said already where its messages end.
            with connection:
                if target.scheme == "https":
                    stream = await _secured(stream_of(connection), target.host)
                    await stream.send_all(self._written())
                    return await _answer(stream, target, b"")
                await send(connection, self._written())
                received = await receive(connection)
                return _ordinary(received) or await _answer(stream_of(connection), target, received)
        except Unreachable as error:
            raise type(error)(f'Get "{target.url}": {error}') from error
        except _BROKEN as error:
            raise Unreachable(f'Get "{target.url}": {message_of(error)}') from error
        except h11.ProtocolError as error:
            why = _AS_PYTHON.sub(r"\1", str(error))
            raise Unreachable(f'Get "{target.url}": net/http: HTTP/1.x transport connection broken: {why}') from error

    def _written(self) -> bytes:
        # To write it costs as much as to ask. Kept here it goes with its probe, however large its headers are.
        if not self._request:
            self._request = _request(self._target)
        return self._request


def _request(target: HttpTarget) -> bytes:
    http = h11.Connection(h11.CLIENT)
    return b"".join(http.send(event) or b"" for event in _events(target))


def _events(target: HttpTarget) -> tuple[h11.Event, ...]:
    headers = [(name.encode(), value.encode()) for name, value in target.headers]  # as upstream, whatever is in them
    return h11.Request(method="GET", target=target.request_path, headers=headers), h11.EndOfMessage()


def _ordinary(received: bytes) -> tuple[HttpAnswer, str] | None:
    """An answer that came in one piece, with a length, and sends us nowhere; None for any other, which is read with
    more care. Nearly all are such, and to read one with h11 costs as much as all the rest of a question."""
    head, _, body = received.partition(b"\r\n\r\n")
    found = _STATUS.match(head)
    lengths = _LENGTH.findall(head)
    if found is None or len(lengths) != 1 or _CHUNKED.search(head):
        return None
    if len(body) != int(lengths[0]) or len(body) > BODY_BYTES_MAX:
        return None
    return HttpAnswer(int(found[1]), body), ""


async def _answer(stream: trio.abc.Stream, target: HttpTarget, received: bytes) -> tuple[HttpAnswer, str]:
    """The answer to a request that was sent, of which this much has come."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    for said in _events(target):
        http.send(said)
    status, location, body, informational, came = 0, "", bytearray(), 0, 0
    while len(body) < BODY_BYTES_MAX:
        event = http.next_event()
        if event is h11.NEED_DATA:
            received = received or bytes(await stream.receive_some(RECEIVE_BYTES))
            if not received and not status:
                raise Unreachable("EOF")
            came += len(received)
            if came > RECEIVED_BYTES_MAX:
                raise h11.RemoteProtocolError("chunked encoding contains too much non-data")
            http.receive_data(received)
            received = b""
        elif isinstance(event, h11.Response):
            status = event.status_code
            location = next((_text(bytes(value)) for name, value in event.headers if name == b"location"), "")
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.InformationalResponse):
            informational += 1
            if informational > INFORMATIONAL_MAX:
                raise h11.RemoteProtocolError("net/http: too many 1xx informational responses")
        else:
            break  # the message has ended
    return HttpAnswer(status, bytes(body[:BODY_BYTES_MAX])), location


def _text(value: bytes) -> str:
    """A header's value, from which the same bytes are made again when it is asked for: bytes that are no UTF-8 are
    surrogates."""
    return value.decode(errors="surrogateescape")


async def _secured(connection: trio.SocketStream, host: str) -> trio.abc.Stream:
    """TLS over the connection. Raises Unreachable and NotTls."""
    first = _FirstBytes(connection)
    stream = trio.SSLStream(first, _tls(), server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        if first.received.startswith(b"HTTP/"):
            raise NotTls("http: server gave HTTP response to HTTPS client") from error
        raise Unreachable(f"tls: {message_of(error)}") from error
    return stream


@cache
def _tls() -> ssl.SSLContext:
    """A node cannot know who a container says it is, so any certificate will do. Made once: that is the expensive
    part."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _FirstBytes(trio.abc.Stream):
    """A stream that remembers how the answer began; TLS libraries do not say it in a way that lasts."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.received = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        self.received = self.received or bytes(data[:5])
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()
