"""One call at the server: the handler's interface, and the state of its HTTP/2 stream.

    arriving ──END_STREAM──► asked ──first message or headers──► answering ──trailers──► ended
        └───────────────────────┴── RST_STREAM, connection lost, deadline: the handler is cancelled ──► ended

``Stream`` has the methods of grpclib's server stream that unary and server-streaming methods need, and in addition
``send_raw`` and ``send_pieces`` for serialised replies.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio
from google.protobuf.message import DecodeError
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from h2.errors import ErrorCodes

from trikubelet.core.grpc_messages import frame
from trikubelet.cri.bulk import BulkMessage
from trikubelet.cri.headers import CONTENT_TYPE, encode_message
from trikubelet.cri.http2 import StreamGone
from trikubelet.cri.wire import STREAM_WINDOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trikubelet.core.frames import StreamData
    from trikubelet.core.grpc_messages import Refusal
    from trikubelet.cri.wire import Wire

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Stream(Generic[Request, Reply]):
    """Owns one call from its headers to its trailers; used by its handler and its connection."""

    def __init__(
        self,
        wire: Wire,
        stream_id: int,
        request_type: Any,
        *,
        deadline: float,
        metadata: dict[str, str],
    ) -> None:
        self.deadline = deadline  # Trio's clock; infinite if the client sent none
        self.metadata = metadata
        self.scope = trio.CancelScope(deadline=deadline)
        self._wire = wire
        self.stream_id = stream_id
        self._request_type = request_type
        self._requests: deque[bytes] = deque()
        self._refusal: Refusal | None = None
        self._owed = 0
        self.is_asked = False  # the client has closed its side
        self._answering = False
        self.ended = False
        self._waiters = trio.lowlevel.ParkingLot()

    # ---- for the handler ----

    async def recv_message(self) -> Request | None:
        """Return the request; None if there is no more. Raises GRPCError for a request that is too large or invalid."""
        while not self._requests:
            if refusal := self._refusal:
                status = Status.RESOURCE_EXHAUSTED if refusal.too_large else Status.UNIMPLEMENTED
                raise GRPCError(status, refusal.text)
            if self.is_asked:
                await trio.lowlevel.checkpoint()
                return None
            await self._waiters.park()
        try:
            request: Request = self._request_type.FromString(self._requests.popleft())
        except DecodeError as error:
            raise GRPCError(Status.INTERNAL, f"the request cannot be read: {error}") from error
        return request

    async def send_message(self, message: Reply) -> None:
        """Send one reply, as fast as the client reads."""
        await self.send_raw(message.SerializeToString())  # type: ignore[attr-defined] # every protobuf message has it

    async def send_raw(self, message: bytes) -> None:
        """Send one serialised reply, as fast as the client reads."""
        await self._send(partial(self._wire.send_body, self.stream_id, frame(message), end=False))

    async def answer(self, message: bytes) -> None:
        """Send the only, serialised reply of a unary call; the handler must not send anything after it."""
        await trio.lowlevel.checkpoint()
        if not self.answered(message):
            await self.send_raw(message)

    async def send_pieces(self, pieces: Sequence[bytes]) -> None:
        """Send one large reply, serialised in pieces, in frames of 16 KiB, as fast as the client reads."""
        await self._send(partial(self._wire.send_bulk, BulkMessage(self.stream_id, pieces)))

    async def _send(self, send: Callable[[], Awaitable[None]]) -> None:
        await trio.lowlevel.checkpoint()  # a loop of small replies must let other tasks run
        self._begin()
        try:
            await send()
        except StreamGone as gone:
            # The client has left, and the handler is being cancelled; this error ends a handler that shields itself.
            await trio.lowlevel.checkpoint()
            raise GRPCError(Status.CANCELLED, "the client has left") from gone

    async def written(self) -> None:
        """Wait until all sent data is written to the socket, or the client has gone."""
        await self._wire.emptied()

    async def send_initial_metadata(self) -> None:
        """Send the headers before the first reply of a long stream, so that the client knows that the call works."""
        await trio.lowlevel.checkpoint()
        self._begin()

    def __aiter__(self) -> Stream[Request, Reply]:
        return self

    async def __anext__(self) -> Request:
        request = await self.recv_message()
        if request is None:
            raise StopAsyncIteration
        return request

    # ---- for the connection, synchronous ----

    @property
    def question(self) -> bytes | None:
        """Return the undecoded request once it is complete and the client has closed its side; None until then."""
        return self._requests[0] if self.is_asked and len(self._requests) == 1 else None

    def answered(self, message: bytes) -> bool:
        """Send the only reply of a unary call if all of it can be sent at once. Return True if it was sent."""
        if self._answering or self.ended or not self.is_asked:
            return False
        try:
            self.ended = self._wire.answer(self.stream_id, frame(message))
        except StreamGone:
            return False
        return self.ended

    def on_data(self, data: StreamData) -> None:
        """Handle DATA from the client."""
        self._owed += data.flow_bytes
        if self._owed >= STREAM_WINDOW_BYTES // 2:
            self._wire.give_back_unseen(self.stream_id, self._owed)
            self._owed = 0
        self._requests.extend(data.messages)
        self._refusal = data.refusal
        self.is_asked = data.ends
        self._waiters.unpark_all()

    def on_end(self) -> None:
        """Handle END_STREAM in the client's headers or trailers."""
        self.is_asked = True
        self._waiters.unpark_all()

    def on_gone(self) -> None:
        """Handle RST_STREAM or the connection's end: no client waits for the answer."""
        self.ended = True
        self.scope.cancel()

    def end(self, status: Status, text: str = "") -> None:
        """Send the trailers, once. Does nothing if the client is gone."""
        if self.ended:
            return
        self.ended = True
        trailers = [("grpc-status", str(status.value))]
        if text:
            trailers.append(("grpc-message", encode_message(text)))
        if not self._answering:
            trailers = [(":status", "200"), ("content-type", CONTENT_TYPE), *trailers]
        self._wire.say_headers(self.stream_id, trailers, end=True)
        if not self.is_asked:  # the client need not send the rest of its request
            self._wire.reset(self.stream_id, ErrorCodes.NO_ERROR)

    def _begin(self) -> None:
        if self._answering or self.ended:
            return
        self._answering = True
        self._wire.say_headers(self.stream_id, [(":status", "200"), ("content-type", CONTENT_TYPE)], end=False)
