"""A streaming call as used by the stubs, with the interface of grpclib's client stream: send a message, receive
messages, leave the block.

It waits for a connection before it is sent. It is retried automatically if the runtime certainly has not processed it
(a refused stream, or a stream above the number in a GOAWAY), a few times and only before the first answer. All other
failures are raised as errors of ``model.runtime_errors``. Leaving the block cancels an unfinished call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from trikubelet.cri.exchange import NotProcessed
from trikubelet.cri.methods import decoded
from trikubelet.cri.round import ASK_TIMES_MAX
from trikubelet.model.runtime_errors import RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from trikubelet.cri.exchange import Exchange
    from trikubelet.cri.methods import Message

Reply = TypeVar("Reply")


class Call(Generic[Reply]):
    """Owns one request from the first try to the last answer."""

    def __init__(self, name: str, open_exchange: Callable[[str], Awaitable[Exchange]], reply_type: Any) -> None:
        self._name = name
        self._open_exchange = open_exchange
        self._reply_type = reply_type
        self._exchange: Exchange | None = None
        self._request: bytes | None = None
        self._asked_times = 0
        self._answered = False

    async def __aenter__(self) -> Call[Reply]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._exchange is not None:
            self._exchange.abandon()

    async def send_message(self, message: Message, *, end: bool = True) -> None:
        """Send the only request (``end`` exists because grpclib has it). Waits for a connection."""
        assert end
        assert self._request is None, "a call has one request"
        self._request = message.SerializeToString()
        await self._ask(self._request)

    async def recv_raw(self) -> bytes | None:
        """Return the next answer, undecoded; None at the end of the stream. Raises the errors of
        ``model.runtime_errors``."""
        assert self._request is not None, "send_message must be called first"
        while True:
            assert self._exchange is not None
            try:
                reply = await self._exchange.take()
            except NotProcessed as refusal:
                if self._answered or self._asked_times >= ASK_TIMES_MAX:
                    raise RuntimeUnavailable(f"{self._name}: {refusal}") from refusal
                await self._ask(self._request)
            else:
                self._answered = True
                return reply

    async def recv_message(self) -> Reply | None:
        """Return the next answer; None at the end of a stream. Raises the errors of ``model.runtime_errors``."""
        raw = await self.recv_raw()
        return None if raw is None else decoded(self._name, self._reply_type, raw)

    def __aiter__(self) -> Call[Reply]:
        return self

    async def __anext__(self) -> Reply:
        await trio.lowlevel.checkpoint()  # many answers may have come at once
        reply = await self.recv_message()
        if reply is None:
            raise StopAsyncIteration
        return reply

    async def _ask(self, request: bytes) -> None:
        self._asked_times += 1
        self._exchange = await self._open_exchange(self._name)
        await self._exchange.say(request)

    def __repr__(self) -> str:
        return f"<Call {self._name} {self._exchange or 'waiting for a connection'}>"


class RawReplies:
    """The answers of a streaming call, undecoded, in order. Not an async generator, because those need cleanup when a
    loop is left early."""

    def __init__(self, call: Call[Any]) -> None:
        self._call = call

    def __aiter__(self) -> RawReplies:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()  # many answers may have come at once
        reply = await self._call.recv_raw()
        if reply is None:
            raise StopAsyncIteration
        return reply
