"""The runtime's end of a stream: a request to its URL to change the protocol, and then the stream's bytes.

    connect ─► request with Upgrade ─► 101: a stream
                                    └─► anything else: Declined, with a response for the client

The URL comes from the runtime, over the socket by which we trust it, and is on this machine.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import h11
import trio

from trikubelet.httpd.messages import Response, bare
from trikubelet.httpd.read_ahead import ReadAhead
from trikubelet.kit.wide_socket import WideSocket
from trikubelet.model.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

ANSWER_SECONDS_MAX: Final = 30.0
"""Time from connecting to the end of the answer, in seconds; slow work of a runtime comes after that."""

_RECEIVE_BYTES: Final = 64 * 1024
_REFUSAL_BYTES_MAX: Final = 64 * 1024
_ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Bytes before the change of protocol: heads, and the text of a refusal."""
_HEADERS_PASSED: Final[tuple[str, ...]] = (
    "connection",
    "upgrade",
    "x-stream-protocol-version",
    "sec-websocket-accept",
    "sec-websocket-protocol",
)


class Declined(Exception):
    """The runtime declines or cannot be reached; ``response`` is for the client."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.body)
        self.response = response


class RuntimeStream(Frozen):
    """The runtime's agreement: its headers, names in lower case, and the connection from there on."""

    headers: dict[str, str]
    stream: trio.abc.Stream


@asynccontextmanager
async def open_runtime_stream(
    url: str, method: str, headers: Sequence[tuple[str, str]]
) -> AsyncGenerator[RuntimeStream, None]:
    """Change to another protocol at ``url``, for the length of the block. Raises Declined."""
    where = urlsplit(url)
    if where.scheme != "http" or not where.hostname:
        raise _failed(f"the runtime streams at {url}: only http is supported (disable its TLS streaming)")
    try:
        with trio.fail_after(ANSWER_SECONDS_MAX):
            stream = WideSocket(await trio.open_tcp_stream(where.hostname, where.port or 80))
    except (OSError, trio.TooSlowError) as error:
        raise _failed(f"cannot reach the runtime's {url}: {error}") from error
    async with stream:
        target = f"{where.path or '/'}{'?' if where.query else ''}{where.query}"
        # A client's header may have any byte (``httpd`` decodes it as Latin-1), and h11 wants text to be ASCII.
        sent_headers = [(name.encode(), value.encode("latin-1")) for name, value in (("host", where.netloc), *headers)]
        request = h11.Request(method=method, target=target, headers=sent_headers)
        try:
            with trio.fail_after(ANSWER_SECONDS_MAX):
                agreed = await change_protocol(stream, request)
        except (h11.RemoteProtocolError, trio.BrokenResourceError, trio.TooSlowError) as error:
            raise _failed(f"no answer from the runtime's {url}: {error}") from error
        yield agreed


async def change_protocol(stream: trio.abc.Stream, request: h11.Request) -> RuntimeStream:
    """Change the protocol of a connection that is used for nothing else. Raises Declined, h11's RemoteProtocolError for
    an invalid answer, and the stream's errors."""
    http = h11.Connection(h11.CLIENT)
    await stream.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    body = bytearray()
    answer: h11.Response | None = None
    came = 0
    while True:
        match http.next_event():
            case h11.NEED_DATA:
                received = bytes(await stream.receive_some(_RECEIVE_BYTES))
                came += len(received)
                if came > _ANSWER_BYTES_MAX:
                    raise h11.RemoteProtocolError(f"more than {_ANSWER_BYTES_MAX} bytes")
                http.receive_data(received)
            case h11.InformationalResponse(status_code=101) as switching:
                said = {name.decode("latin-1"): value.decode("latin-1") for name, value in switching.headers}
                # Without empty ones: a client that offered no protocol is sent none (RFC 6455, 4.2.2), though
                # containerd always sends that header.
                kept = {name: said[name] for name in _HEADERS_PASSED if said.get(name)}
                # h11 may have read beyond the 101 already: those bytes are the stream's first.
                return RuntimeStream(kept, ReadAhead(stream, http.trailing_data[0]))
            case h11.Response() as answer:
                pass
            case h11.Data(data=data):
                body += data
                if len(body) > _REFUSAL_BYTES_MAX:
                    raise Declined(_refusal(answer, bytes(body[:_REFUSAL_BYTES_MAX])))
            case h11.EndOfMessage() | h11.ConnectionClosed():
                raise Declined(_refusal(answer, bytes(body)))


def _refusal(answer: h11.Response | None, body: bytes) -> Response:
    """Return the runtime's own refusal. A success that changes no protocol is an error."""
    if answer is None or answer.status_code < HTTPStatus.BAD_REQUEST:
        return bare("the runtime does not change the protocol", HTTPStatus.INTERNAL_SERVER_ERROR)
    return bare(body.decode(errors="replace"), answer.status_code)


def _failed(why: str) -> Declined:
    return Declined(bare(why, HTTPStatus.INTERNAL_SERVER_ERROR))
