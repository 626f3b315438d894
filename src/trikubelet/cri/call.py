"""A streaming call as the stubs see it, shaped like grpclib's client stream: send a message, receive messages, leave.

It waits for a connection before it is sent, and asks again by itself when the runtime certainly has not looked at it
(a refused stream, or above the mark of a GOAWAY), a few times and only until the first answer. Everything else goes to
the caller as an error of ``model.runtime_errors``. Leaving the block cancels what is unfinished.
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
    """Holds one question from the first try to the last answer."""

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
        """Send the request, the only one there is (``end`` is for grpclib's sake). Waits for a connection."""
        assert end
        assert self._request is None, "a call has one request"
        self._request = message.SerializeToString()
        await self._ask(self._request)

    async def recv_raw(self) -> bytes | None:
        """The next answer, undecoded; None at the end of the stream. Raises the errors of ``model.runtime_errors``."""
        assert self._request is not None, "nothing has been asked yet"
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
        """The next answer; None at the end of a stream. Raises the errors of ``model.runtime_errors``."""
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
    """The answers to a streaming call, undecoded, in order. No async generator: those mind being left half-way."""

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
