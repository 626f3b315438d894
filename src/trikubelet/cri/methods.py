"""The methods of the generated stubs, such as ``stub.Version``.

The generated ``api_grpc`` creates one of these per method of a service; calling it sends the request over the channel
and decodes the reply. ``raw`` leaves the reply undecoded, because a relist does not need a Python object per container.
Errors are those of ``model.runtime_errors``. There are no timeouts: the caller's cancel scope is the deadline, and is
sent with the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError
from grpclib.const import Cardinality

from trikubelet.model.runtime_errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager


class Message(Protocol):
    """The part of a generated protobuf message that this package uses."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """Return the serialised message."""

    @classmethod
    def FromString(cls, s: bytes, /) -> Any:  # noqa: N802 - protobuf's name
        """Parse a serialised message. Raises google.protobuf.message.DecodeError."""


Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)


class StubChannel(Protocol):
    """The interface of a stub's channel; implemented by ``cri.channel.Channel``."""

    def request(self, name: str, cardinality: Cardinality, request_type: type[Request], reply_type: type[Reply]) -> Any:
        """Return a call that has not been sent yet: a context manager with the interface of grpclib's client stream."""

    async def unary_raw(self, name: str, request: Message) -> bytes:
        """Send one request. Return its undecoded reply."""

    def stream_raw(self, name: str, request: Message) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Send one request. Return a stream of undecoded replies."""


def decoded(name: str, reply_type: type[Reply], raw: bytes) -> Reply:
    """Decode a reply of the method ``name``. Raises RuntimeFailure if it is invalid."""
    try:
        reply: Reply = reply_type.FromString(raw)
    except DecodeError as error:
        raise RuntimeFailure(f"{name}: the runtime's reply cannot be read: {error}", "INTERNAL") from error
    return reply


class Method(Generic[Request, Reply]):
    """One method of a service on one channel."""

    def __init__(self, channel: StubChannel, name: str, request_type: type[Request], reply_type: type[Reply]) -> None:
        self.channel = channel
        self.name = name
        self.request_type = request_type
        self.reply_type = reply_type

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class UnaryUnaryMethod(Method[Request, Reply]):
    """One request, one reply."""

    async def __call__(self, request: Request) -> Reply:
        """Return the runtime's reply. Raises the errors of ``model.runtime_errors``."""
        return decoded(self.name, self.reply_type, await self.raw(request))

    async def raw(self, request: Request) -> bytes:
        """Return the runtime's reply, undecoded. Raises the errors of ``model.runtime_errors``."""
        return await self.channel.unary_raw(self.name, request)


class UnaryStreamMethod(Method[Request, Reply]):
    """One request, any number of replies."""

    def open(self) -> Any:
        """Return a call that has not been sent yet: ``async with method.open() as call``. Leaving early cancels it."""
        return self.channel.request(self.name, Cardinality.UNARY_STREAM, self.request_type, self.reply_type)

    async def __call__(self, request: Request) -> list[Reply]:
        """Return all replies after the end of the stream. For an endless stream use ``open`` and iterate."""
        async with self.open() as call:
            await call.send_message(request, end=True)
            return [reply async for reply in call]

    def raw(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the undecoded replies: ``async with method.raw(request) as replies: async for reply in …``."""
        return self.channel.stream_raw(self.name, request)
