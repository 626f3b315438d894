"""One client's connection at the server, and its calls.

    greeting ──► open ──drain()──► leaving ──last call ended──► ended
                   └──────── closed, broken, not HTTP/2 ───────────┘

Each call is one task in the connection's nursery, so no handler outlives its client. A call that a ``Prompt`` can
answer at once needs no task, which halves the cost of a short call. A handler's exception becomes the call's status and
does not propagate: GRPCError and the errors of ``model.runtime_errors`` as their status, anything else as UNKNOWN, with
the traceback in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio
from google.protobuf.message import DecodeError
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from h2.errors import ErrorCodes
from h2.events import RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes

from trikubelet.core.frames import Block, StreamData
from trikubelet.cri.errors import status_for
from trikubelet.cri.goaway import goaway_bytes
from trikubelet.cri.header_blocks import HeaderBlocks
from trikubelet.cri.headers import CONTENT_TYPE, decode_timeout, to_dict
from trikubelet.cri.server_call import Stream
from trikubelet.cri.wire import Wire
from trikubelet.model.runtime_errors import RuntimeCallError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpclib.const import Handler
    from h2.events import Event

    from trikubelet.cri.goaway import GoAway

log = logging.getLogger(__name__)

Prompt = Callable[[bytes], bytes | None]
"""Returns the reply to a request at once, both serialised, or None if the handler must be called."""

_PSEUDO: Final = (":", "grpc-", "content-type", "te", "user-agent")


class ServerConnection:
    """Owns the calls of one client."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        methods: Mapping[str, Handler],
        prompts: Mapping[str, Prompt],
        *,
        message_bytes_max: int,
        calls_max: int,
    ) -> None:
        self.calls: dict[int, Stream[Any, Any]] = {}
        self._methods = methods
        self._prompts = prompts
        self._held: dict[int, str] = {}  # the paths of calls for a prompt whose request is incomplete
        self._calls_max = calls_max
        self._leaving = False
        self._last_stream_id = 0
        self._wire = Wire(stream, self._on_event, client=False, message_bytes_max=message_bytes_max)
        self._meanings = HeaderBlocks[bytes, dict[str, str]](self._wire.h2.decoder.header_table)
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Serve until the connection ends; then its handlers are cancelled."""
        self._wire.greet({SettingCodes.MAX_CONCURRENT_STREAMS: self._calls_max})
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await self._wire.run()
            finally:
                self._nursery = None  # a drain from now on could not be sent
            for call in self.calls.values():
                call.on_gone()
            nursery.cancel_scope.cancel()

    def drain(self) -> None:
        """Accept no new calls; end once the running ones have ended."""
        if not self._leaving:
            self._leaving = True
            self._wire.flush(goaway_bytes(self._last_stream_id))
            self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        if self._leaving and not self.calls and self._nursery is not None:
            self._nursery.start_soon(self._close_when_written)

    async def _close_when_written(self) -> None:
        await self._wire.emptied()
        self._wire.close()

    # ---- what arrives, synchronous ----

    def _on_event(self, event: Event | StreamData | Block | GoAway) -> None:
        if isinstance(event, StreamData):
            if call := self.calls.get(event.stream_id):
                call.on_data(event)
                self._go_on(event.stream_id, call)
        elif isinstance(event, Block):
            self._on_block(event)
        elif isinstance(event, RequestReceived):
            assert event.stream_id is not None
            self._on_request(event.stream_id, to_dict(event.headers), ends=event.stream_ended is not None)
        elif isinstance(event, StreamEnded):
            if call := self._find(event):
                call.on_end()
                self._go_on(call.stream_id, call)
        elif isinstance(event, StreamReset) and (call := self._find(event)):
            call.on_gone()
            if self._held.pop(call.stream_id, None) is not None:
                del self.calls[call.stream_id]
                self._leave_if_idle()

    def _on_block(self, block: Block) -> None:
        """Handle headers, mostly of a new call. They bypass h2: they are decoded here, or taken from the cache."""
        if not self._wire.h2.stream_received(block.stream_id, last=block.ends):
            self._wire.read(block.frame())
            return
        fields = self._meanings.recall(block.block)
        if fields is None:
            fields = to_dict(self._wire.h2.fields_of(block.block))
            self._meanings.remember(block.block, fields)
        self._on_request(block.stream_id, fields, ends=block.ends)

    def _find(self, event: StreamEnded | StreamReset) -> Stream[Any, Any] | None:
        assert event.stream_id is not None
        return self.calls.get(event.stream_id)

    def _on_request(self, stream_id: int, headers: dict[str, str], *, ends: bool) -> None:
        if self._leaving or len(self.calls) >= self._calls_max:
            self._wire.reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        self._last_stream_id = stream_id
        if headers.get(":method") != "POST" or not headers.get("content-type", "").startswith(CONTENT_TYPE):
            self._wire.say_headers(stream_id, [(":status", "415")], end=True)
            if not ends:
                self._wire.reset(stream_id, ErrorCodes.NO_ERROR)
            return
        path = headers.get(":path", "")
        handler = self._methods.get(path)
        try:
            seconds = decode_timeout(headers["grpc-timeout"]) if "grpc-timeout" in headers else float("inf")
            refusal = None if handler else (Status.UNIMPLEMENTED, f"unknown method {path}")
        except ValueError as error:
            seconds, refusal = 0.0, (Status.INTERNAL, str(error))
        call: Stream[Any, Any] = Stream(
            self._wire,
            stream_id,
            handler.request_type if handler else None,
            deadline=trio.current_time() + seconds,
            metadata={name: value for name, value in headers.items() if not name.startswith(_PSEUDO)},
        )
        if ends:
            call.on_end()
        if refusal is not None or handler is None:
            call.end(*(refusal or (Status.UNIMPLEMENTED, "")))
            return
        self.calls[stream_id] = call
        if path in self._prompts:
            self._held[stream_id] = path
            self._go_on(stream_id, call)
        else:
            self._start(stream_id, call, path)

    def _go_on(self, stream_id: int, call: Stream[Any, Any]) -> None:
        """Answer a held call whose request is complete now, or start its handler."""
        if not call.is_asked or (path := self._held.pop(stream_id, None)) is None:
            return
        try:
            reply = None if call.question is None else self._prompts[path](call.question)
        except DecodeError:
            reply = None  # the handler is called, and reports the error
        if reply is not None and call.answered(reply):
            del self.calls[stream_id]
            self._leave_if_idle()
        else:
            self._start(stream_id, call, path)

    def _start(self, stream_id: int, call: Stream[Any, Any], path: str) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._handle, stream_id, call, self._methods[path], name=path)

    async def _handle(self, stream_id: int, call: Stream[Any, Any], handler: Handler) -> None:
        status, text = Status.OK, ""
        try:
            with call.scope:
                await handler.func(call)
        except GRPCError as error:
            status, text = error.status, error.message or ""
        except RuntimeCallError as error:
            status, text = status_for(error)
        except Exception as error:  # an unexpected error of one handler must not end the connection
            log.exception("handler of stream %d failed", stream_id)
            status, text = Status.UNKNOWN, repr(error)
        else:
            if call.scope.cancelled_caught:
                status, text = Status.DEADLINE_EXCEEDED, "the deadline sent with the call has passed"
        finally:
            del self.calls[stream_id]
        call.end(status, text)
        self._leave_if_idle()

    def __repr__(self) -> str:
        state = self._wire.ended or ("leaving" if self._leaving else "open")
        return f"<ServerConnection {state}, {len(self.calls)} calls>"
