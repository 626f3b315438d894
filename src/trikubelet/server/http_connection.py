"""One HTTP/1.1 connection, from its first byte to its last. ``server.http`` makes one per client.

    read a request ─► answer it ─► both sides done and alive? ─► again
          │               │
          ├ silence, EOF ─┴─ client gone ─► close
          └ not HTTP, too large ─► 4xx ─► close

While a stream is being sent somebody must listen for the client's end, for the stream may be silent for hours (the
followed log of a quiet container); that is the watcher's job.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import h11
import trio

from trikubelet.model.errors import InvariantBroken
from trikubelet.server.http_messages import Request, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trikubelet.server.http_messages import Handler, HttpLimits

log = logging.getLogger(__name__)

_RECEIVE_BYTES: Final = 64 * 1024
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
_STATUSES: Final = frozenset(HTTPStatus)
_NO_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class HttpConnection:
    """Owns one client's stream and where the conversation stands."""

    def __init__(self, stream: trio.abc.Stream, handler: Handler, limits: HttpLimits) -> None:
        self._stream = stream
        self._handler = handler
        self._limits = limits
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes_max)

    async def run(self) -> None:
        """Serve requests until either side has enough; the stream is closed then. Raises InvariantBroken."""
        try:
            while await self._one():
                self._h11.start_next_cycle()
        except (*_GONE, trio.TooSlowError):
            pass  # the client has gone, or does not read; there is nobody to tell
        except h11.LocalProtocolError:
            log.exception("a handler's response cannot be sent")
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _one(self) -> bool:
        """One request and its response. Whether another may follow."""
        request = None
        try:
            with trio.move_on_after(self._limits.idle_seconds_max):
                request = await self._request()
        except h11.RemoteProtocolError as wrong:
            await self._complain(wrong.error_status_hint, str(wrong))
        except _Refused as wrong:
            await self._complain(wrong.status, str(wrong))
        if request is None:
            return False
        await self._answer(request)
        # After a stream that failed our side is not done.
        return self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE

    async def _request(self) -> Request | None:
        """The next request with its body, or None when the client has no more. Raises _Refused and h11's error."""
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        if (
            len(head.target) + sum(len(name) + len(value) for name, value in head.headers)
            > self._limits.header_bytes_max
        ):
            # h11 counts only what has not come to its end yet.
            raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's headers are too large")
        body = bytearray()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                return None
            body += event.data
            if len(body) > self._limits.body_bytes_max:
                raise _Refused(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {self._limits.body_bytes_max} bytes of body are read"
                )
        return _parsed(head, bytes(body))

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            if self._h11.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
            self._h11.receive_data(bytes(await self._stream.receive_some(_RECEIVE_BYTES)))
        # What remains are events and PAUSED, which only a client that pipelines during an upgrade could cause.
        return event  # type: ignore[return-value]  # h11 types its sentinels as plain classes

    async def _answer(self, request: Request) -> None:
        """Ask the handler and send what it says."""
        try:
            response = await self._handler(request)
        except Exception as error:
            if _is_invariant(error):
                raise
            log.exception("%s %s failed", request.method, request.path)
            response = text("internal error; the agent's log has the details", HTTPStatus.INTERNAL_SERVER_ERROR)
        headers = [(name.lower(), value) for name, value in response.headers.items()]
        body = response.body
        if isinstance(body, bytes):
            if response.status not in _NO_BODY:
                headers.append(("content-length", str(len(body))))
            data = h11.Data(data=b"" if request.method == "HEAD" else body)
            await self._send(_head(response.status, headers), data, h11.EndOfMessage())
            return
        try:
            await self._send(_head(response.status, headers))
            if request.method == "HEAD" or await self._pour(body, request):
                await self._send(h11.EndOfMessage())
        finally:
            await _close(body)

    async def _pour(self, body: AsyncIterator[bytes], request: Request) -> bool:
        """Send a stream's chunks. Whether it ended by itself, with the client still there."""
        failed: Exception | None = None
        ended = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            try:
                async for chunk in body:
                    if chunk:
                        await self._send(h11.Data(data=chunk))
                ended = True
            except (*_GONE, trio.TooSlowError):
                pass
            except Exception as error:  # kept out of the nursery, so that it leaves as itself and not in a group
                failed = error
            nursery.cancel_scope.cancel()
        if failed is not None:
            if _is_invariant(failed):
                raise failed
            # The response is half out; only a broken connection can still say that it is not whole.
            log.error("%s %s failed while it was sent", request.method, request.path, exc_info=failed)
        return ended

    async def _watch(self, sending: trio.CancelScope) -> None:
        """Cancel the sending when the client ends its side. What it sends instead is kept for the next request, one
        block of it: more will wait in the socket."""
        try:
            data = await self._stream.receive_some(_RECEIVE_BYTES)
        except _GONE:
            data = bytearray()
        if data:
            self._h11.receive_data(bytes(data))
        else:
            sending.cancel()

    async def _complain(self, status: int, why: str) -> None:
        """Answer what was no request, or too much of one; nothing can follow it. Then read a little on, because
        closing over unread data would take the answer away again."""
        if self._h11.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = f"{why}\n".encode()
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        await self._send(_head(status, headers), h11.Data(data=body), h11.EndOfMessage())
        await _drain(self._stream)

    async def _send(self, *events: h11.Event) -> None:
        data = b"".join(self._h11.send(event) or b"" for event in events)
        if data:
            with trio.fail_after(self._limits.send_seconds_max):
                await self._stream.send_all(data)


class _Refused(Exception):
    """A request that is not served: the status and, as the message, why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def refuse(stream: trio.abc.Stream, why: str, limits: HttpLimits) -> None:
    """Tell a client, whatever it wants, that it cannot be served now, and close."""
    body = f"{why}\n"
    answer = f"HTTP/1.1 503 Service Unavailable\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
    try:
        with trio.move_on_after(limits.send_seconds_max), suppress(*_GONE):
            await stream.send_all(answer.encode())
            await _drain(stream)
    finally:
        await trio.aclose_forcefully(stream)


async def _drain(stream: trio.abc.Stream, bytes_max: int = 1024 * 1024, seconds_max: float = 1.0) -> None:
    """Read what a client still sends, within bounds, after saying that this was all."""
    if isinstance(stream, trio.abc.HalfCloseableStream):
        await stream.send_eof()
    with trio.move_on_after(seconds_max), suppress(*_GONE):
        while bytes_max > 0 and (data := await stream.receive_some(_RECEIVE_BYTES)):
            bytes_max -= len(data)


async def _close(body: AsyncIterator[bytes]) -> None:
    """Close a response's iterator if it can be closed, as async generators can. Closing must not wait for anything
    outside, so it is not cancelled with the connection."""
    aclose = getattr(body, "aclose", None)
    if aclose is not None:
        with trio.CancelScope(deadline=trio.current_time() + 1.0, shield=True):
            try:
                await aclose()
            except Exception as error:
                if _is_invariant(error):
                    raise
                log.exception("closing a response's stream failed")


def _is_invariant(error: BaseException) -> bool:
    """Whether an invariant was broken: nothing to answer and go on with, see ``model.errors``."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(InvariantBroken) is not None
    return isinstance(error, InvariantBroken)


def _head(status: int, headers: list[tuple[str, str]]) -> h11.Response:
    reason = HTTPStatus(status).phrase if status in _STATUSES else ""
    return h11.Response(status_code=status, headers=headers, reason=reason)


def _parsed(head: h11.Request, body: bytes) -> Request:
    """The request as handlers see it. Raises _Refused for a target that cannot be read."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    try:
        target = urlsplit(head.target.decode("ascii"))
    except ValueError as wrong:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"the request's target cannot be read: {wrong}") from wrong
    query: dict[str, str] = {}
    try:
        for key, value in parse_qsl(target.query, keep_blank_values=True, max_num_fields=100):
            query.setdefault(key, value)
    except ValueError as wrong:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"the query cannot be read: {wrong}") from wrong
    return Request(head.method.decode("ascii"), unquote(target.path) or "/", query, headers, body)
