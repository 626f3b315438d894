"""The runtime's end of a stream: its URL is asked to change the protocol, and what is spoken then is its bytes.

    connect ─► request with Upgrade ─► 101: a stream
                                    └─► anything else: Declined, with a response for whoever asked us

The URL comes from the runtime, over the socket we trust it by, and lies on this machine.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import h11
import trio

from trikubelet.httpd.messages import Response, bare
from trikubelet.httpd.read_ahead import ReadAhead
from trikubelet.kit.wide_socket import WideSocket

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

ANSWER_SECONDS_MAX: Final = 30.0
"""From the connection's beginning to the whole of the answer; what makes a runtime wait comes after that."""

_RECEIVE_BYTES: Final = 64 * 1024
_REFUSAL_BYTES_MAX: Final = 64 * 1024
_ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Of all that comes before the protocol is another: heads, and what is around a refusal's text."""
_HEADERS_PASSED: Final[tuple[str, ...]] = (
    "connection",
    "upgrade",
    "x-stream-protocol-version",
    "sec-websocket-accept",
    "sec-websocket-protocol",
)


class Declined(Exception):
    """The runtime does not want to, or cannot be asked; ``response`` is for the client."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.body)
        self.response = response


@dataclass(frozen=True, slots=True)
class RuntimeStream:
    """What the runtime has agreed to: the headers that say it, in lower case, and the connection from there on."""

    headers: dict[str, str]
    stream: trio.abc.Stream


@asynccontextmanager
async def open_runtime_stream(
    url: str, method: str, headers: Sequence[tuple[str, str]]
) -> AsyncGenerator[RuntimeStream, None]:
    """Ask ``url`` for another protocol, for the length of the block. Raises Declined."""
    where = urlsplit(url)
    if where.scheme != "http" or not where.hostname:
        raise _failed(f"the runtime streams at {url}: only http is spoken with it (turn its TLS streaming off)")
    try:
        with trio.fail_after(ANSWER_SECONDS_MAX):
            stream = WideSocket(await trio.open_tcp_stream(where.hostname, where.port or 80))
    except (OSError, trio.TooSlowError) as error:
        raise _failed(f"the runtime's {url} cannot be reached: {error}") from error
    async with stream:
        target = f"{where.path or '/'}{'?' if where.query else ''}{where.query}"
        # What a client said may hold any byte (``httpd`` reads it as Latin-1), and h11 wants text to be ASCII.
        sent_headers = [(name.encode(), value.encode("latin-1")) for name, value in (("host", where.netloc), *headers)]
        request = h11.Request(method=method, target=target, headers=sent_headers)
        try:
            with trio.fail_after(ANSWER_SECONDS_MAX):
                agreed = await change_protocol(stream, request)
        except (h11.RemoteProtocolError, trio.BrokenResourceError, trio.TooSlowError) as error:
            raise _failed(f"no answer from the runtime's {url}: {error}") from error
        yield agreed


async def change_protocol(stream: trio.abc.Stream, request: h11.Request) -> RuntimeStream:
    """Ask for another protocol, over a connection that is good for nothing else. Raises Declined, h11's
    RemoteProtocolError for what is no answer, and what the stream raises."""
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
                kept = {name: said[name] for name in _HEADERS_PASSED if name in said}
                # h11 may have read behind the 101 already: those bytes are the stream's first.
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
    """The runtime's own refusal, passed on. An answer that changes nothing is none."""
    if answer is None or answer.status_code < HTTPStatus.BAD_REQUEST:
        return bare("the runtime does not change the protocol", HTTPStatus.INTERNAL_SERVER_ERROR)
    return bare(body.decode(errors="replace"), answer.status_code)


def _failed(why: str) -> Declined:
    return Declined(bare(why, HTTPStatus.INTERNAL_SERVER_ERROR))
