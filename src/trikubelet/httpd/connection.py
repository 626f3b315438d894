"""One HTTP/1.1 connection, from its first byte to its last. ``httpd.server`` makes one per client.

    read a request ─► answer it ─► both sides done and alive? ─► again
          │               │
          │               ├ another protocol ─► 101 ─► the handler has the connection ─► close
          │               │                 └─► refused ─► the answer says so ─► close
          ├ silence, EOF ─┴─ client gone ─► close
          └ not HTTP, too large ─► 4xx ─► close

While a stream is being sent, a task must listen for the client's end, because the stream may be silent for hours (the
followed log of a quiet container); that is the watcher's job.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11
import trio

from trikubelet.httpd.connection_limit import ConnectionSlot
from trikubelet.httpd.messages import Response, Upgrade, text
from trikubelet.httpd.read_ahead import ReadAhead
from trikubelet.httpd.request_bytes import ConnectionShare, RequestByteBudget
from trikubelet.httpd.request_head import HEADERS_MAX, NotServed, extra_bytes, request_of, too_large
from trikubelet.httpd.tls import widen
from trikubelet.kit.barrier import Barrier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from trikubelet.httpd.messages import Handler, HttpLimits, Request
    from trikubelet.model.certificates import Certificate

log = logging.getLogger(__name__)

_RECEIVE_BYTES: Final = 16 * 1024
"""h11 reads without a pause what it was given."""
_BLOCKS_KEPT_MAX: Final = 16
_COMPLAINT_CHARACTERS_MAX: Final = 500  # h11 quotes what it cannot read
_LENGTH_DIGITS_MAX: Final = 18
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
_STATUSES: Final = frozenset(HTTPStatus)
_NO_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class HttpConnection:
    """Owns one client's stream and where the conversation stands."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        handler: Handler,
        limits: HttpLimits,
        certificate: Certificate | None = None,
        goes_on: Callable[[], bool] = lambda: True,
        budget: RequestByteBudget | None = None,
        slot: ConnectionSlot | None = None,
    ) -> None:
        """``certificate``: the client's; ``goes_on``: whether the connection is still good, see ``httpd.server``;
        ``budget``: what is shared with the server's other connections, where there are any; ``slot``: among its
        connections."""
        self._slot = slot or ConnectionSlot()
        self._stream = stream
        self._handler = handler
        self._limits = limits
        self._certificate = certificate
        self._goes_on = goes_on
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes_max)
        self._method = b""  # of the request that is being read
        self._share = ConnectionShare(budget or RequestByteBudget(limits.shared_bytes_max), limits.held_bytes_max)

    async def run(self) -> None:
        """Serve requests until either side has enough; the stream is closed then. Raises InvariantBroken."""
        try:
            while await self._one():
                self._h11.start_next_cycle()
        except (*_GONE, trio.TooSlowError):
            pass  # the client has gone, or does not read: no answer can reach it
        except (h11.LocalProtocolError, UnicodeEncodeError):
            log.exception("a handler's response cannot be sent")
        finally:
            self._share.hold(0)
            await trio.aclose_forcefully(self._stream)

    async def _one(self) -> bool:
        """One request and its response. Whether another may follow."""
        request, self._method = None, b""
        try:
            with trio.move_on_after(self._silent_seconds_max()):
                request = await self._request()
        except h11.RemoteProtocolError as wrong:
            wrong.__traceback__ = None  # h11 raises it where it is held, and so the two would hold one another, and us
            # What h11 quotes it quotes as Python.
            await self._complain(wrong.error_status_hint, str(wrong).partition(": bytearray(")[0])
        except NotServed as wrong:
            wrong.__traceback__ = None  # its frames hold what was read last
            await self._complain(wrong.status, str(wrong))
        if request is None or not self._goes_on():
            return False
        self._slot.asks()
        await self._answer(request)
        self._slot.waits()
        self._forget_request()
        if pause_seconds := self._slot.pause_seconds:
            await trio.sleep(pause_seconds)
        if _wants_upgrade(request) and self._h11.our_state is h11.MUST_CLOSE:
            await _drain(self._stream)  # it may have sent more already
        # After a stream that failed our side is not done.
        return self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE

    def _silent_seconds_max(self) -> float:
        idle = self._limits.idle_seconds_max
        return min(idle, self._limits.unauthenticated_seconds_max) if self._slot.is_unauthenticated else idle

    async def _request(self) -> Request | None:
        """The next request with its body, or None when the client has no more. Raises NotServed and h11's error."""
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        self._method = head.method
        request = request_of(head, self._limits.header_bytes_max, self._certificate)
        del head  # it would be held as long as the body takes
        self._hold(extra_bytes(request))
        length = request.headers.get("content-length", "").lstrip("0")
        if len(length) > _LENGTH_DIGITS_MAX or int(length or "0") > self._limits.body_bytes_max:
            raise self._too_much()
        body = bytearray()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            await trio.lowlevel.checkpoint()  # chunks may be as small as they are many
            if not isinstance(event, h11.Data):
                return None
            body += event.data
            if len(body) > self._limits.body_bytes_max:
                raise self._too_much()
        slot = self._slot
        return replace(request, body=bytes(body), gone=self._gone, network=slot.network, admit=slot.admit)

    def _too_much(self) -> NotServed:
        why = f"at most {self._limits.body_bytes_max} bytes of body are read"
        return NotServed(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        lines = 0
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            if lines > HEADERS_MAX:
                raise too_large()
            if self._h11.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
            data = bytes(await self._stream.receive_some(_RECEIVE_BYTES))
            lines += data.count(b"\n")  # if it is not enough for an event, all of it is lines of a head, or of a tail
            self._hold(len(data))
            self._h11.receive_data(data)
        # Only events and PAUSED remain, and only a client that pipelines during an upgrade could cause the latter.
        return event  # type: ignore[return-value]  # h11 types its sentinels as plain classes

    def _hold(self, more: int) -> None:
        """Reserve the bytes of a request until it is answered. Raises NotServed where there is no room."""
        if not self._share.hold(self._share.held + more):
            raise NotServed(HTTPStatus.SERVICE_UNAVAILABLE, "too much is being read from others; try again later")

    def _forget_request(self) -> None:
        """Release the bytes of the request; those that came behind it are still needed."""
        self._share.hold(len(self._h11.trailing_data[0]))

    async def _answer(self, request: Request) -> None:
        """Ask the handler and send what it says, unless it took the connection over."""
        response = await self._response(request)
        if response is None:
            return
        self._slot.was_answered(response.status)
        body = response.body
        if isinstance(body, bytes):
            headers = _answer_fields(response, request)
            if response.status not in _NO_BODY:
                headers.append((b"content-length", b"%d" % len(body)))
            data = h11.Data(data=b"" if request.method == "HEAD" else body)
            await self._send(_head(response.status, headers), data, h11.EndOfMessage())
            return
        self._forget_request()  # a stream may take hours
        try:
            await self._send(_head(response.status, _answer_fields(response, request)))
            if request.method == "HEAD" or await self._pour(body, request):
                await self._send(h11.EndOfMessage())
        finally:
            await _close(body)

    async def _response(self, request: Request) -> Response | None:
        def say(error: Exception) -> None:
            has_gone = self._has_switched and isinstance(error, (*_GONE, trio.TooSlowError))
            if not has_gone:
                log.error("%s %s failed", request.method, request.path, exc_info=error)

        with Barrier(say):
            answer = await self._handler(request)
            if isinstance(answer, Upgrade):
                return await answer.converse(self._accept)
            return answer
        if self._has_switched:
            return None
        return text("internal error; the agent's log has the details", HTTPStatus.INTERNAL_SERVER_ERROR)

    @property
    def _has_switched(self) -> bool:
        return self._h11.our_state is h11.SWITCHED_PROTOCOL

    async def _accept(self, headers: Mapping[str, str]) -> ReadAhead:
        """``messages.Accept``. Raises what says that the client has gone."""
        status = HTTPStatus.SWITCHING_PROTOCOLS
        self._forget_request()
        await self._send(h11.InformationalResponse(status_code=status, headers=_fields(headers), reason=status.phrase))
        widen(self._stream)
        return ReadAhead(self._stream, self._h11.trailing_data[0])

    async def _pour(self, body: AsyncIterator[bytes], request: Request) -> bool:
        """Send a stream's chunks. Whether it ended by itself, with the client still there."""

        # The response is half out; only a broken connection can still say that it is not whole.
        def say(error: Exception) -> None:
            if isinstance(error, OSError):  # of what is read to be sent, a log say; no bug
                log.warning("%s %s: cut in the middle of the answer: %s", request.method, request.path, error)
            else:
                log.error("%s %s failed while it was sent", request.method, request.path, exc_info=error)

        ended = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            with Barrier(say):
                try:
                    async for chunk in body:
                        if chunk:
                            await self._send(h11.Data(data=chunk), seconds_max=self._limits.stream_seconds_max)
                    ended = True
                except _GONE:
                    pass
                except trio.TooSlowError:
                    log.warning("%s %s: cut: the client does not read it", request.method, request.path)
            nursery.cancel_scope.cancel()
        return ended

    async def _watch(self, sending: trio.CancelScope) -> None:
        """Cancel the sending when the client ends its side."""
        await self._gone()
        sending.cancel()

    async def _gone(self) -> None:
        """Wait until the client ends its side. Data that it sends instead is kept for the next request; a client
        that sends more than a few blocks behind a request that is being answered is taken for gone, and so is one for
        whose data there is no room."""
        left = _BLOCKS_KEPT_MAX
        with suppress(*_GONE):
            while left and (data := await self._stream.receive_some(_RECEIVE_BYTES)):
                if not self._share.hold(self._share.held + len(data)):
                    await trio.aclose_forcefully(self._stream)
                    return
                self._h11.receive_data(bytes(data))
                left -= 1

    async def _complain(self, status: int, why: str) -> None:
        """Answer what was no request, or too much of one; nothing can follow it. Then read a little on, because
        closing over unread data would take the answer away again."""
        if self._h11.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = f"{why[:_COMPLAINT_CHARACTERS_MAX]}\n".encode()
        said = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), "connection": "close"}
        data = h11.Data(data=b"" if self._method == b"HEAD" else body)
        await self._send(_head(status, _fields(said)), data, h11.EndOfMessage())
        await _drain(self._stream)

    async def _send(self, *events: h11.Event, seconds_max: float | None = None) -> None:
        data = b"".join(self._h11.send(event) or b"" for event in events)
        if data:
            with trio.fail_after(seconds_max or self._limits.send_seconds_max):
                await self._stream.send_all(data)


async def refuse(stream: trio.abc.Stream, why: str, limits: HttpLimits) -> None:
    """Answer a client, whatever it wants, that it cannot be served now, and close."""
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
        with (
            Barrier(lambda error: log.error("closing a response's stream failed", exc_info=error)),
            trio.CancelScope(deadline=trio.current_time() + 1.0, shield=True),
        ):
            await aclose()


def _wants_upgrade(request: Request) -> bool:
    """True if an upgrade may be meant: the header alone is enough for some, though it takes two
    (``Request.upgrade``)."""
    return "upgrade" in request.headers


def _answer_fields(response: Response, request: Request) -> list[tuple[bytes, bytes]]:
    """The headers of an answer. One that refuses another protocol ends the connection: a proxy between the client and
    us may take it for upgraded, whatever we answer, and pass on as the client's bytes what would be requests to us,
    made in the name of that one (CVE-2018-1002105)."""
    fields = _fields(response.headers)
    if not _wants_upgrade(request):
        return fields
    return [field for field in fields if field[0] != b"connection"] + [(b"connection", b"close")]


def _fields(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """As they are sent: h11 takes text for ASCII, and a runtime whose answer is passed on may say anything."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def _head(status: int, headers: list[tuple[bytes, bytes]]) -> h11.Response:
    reason = HTTPStatus(status).phrase if status in _STATUSES else ""
    return h11.Response(status_code=status, headers=headers, reason=reason)
