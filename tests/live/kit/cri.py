"""A CRI client for the tests' own use: a witness that shares nothing but the messages with the product's client.

It is grpclib as published, on asyncio, one connection per call; the live tests ask it what is really there while the
product's own client on Trio is the thing under test. Calls are synchronous and may be made from any thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from google.protobuf.message_factory import GetMessageClass
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod

from trikubelet.cri.v1 import api_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_METHODS = {
    method.name: (service.full_name, method)
    for service in api.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


class Cri:
    """Calls CRI methods by name on one socket. Any method of either service: ``cri.call("Version")``."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def call(self, method: str, seconds: float = 60, **fields: Any) -> Any:
        """The reply of one unary call, whose request has ``fields``. Raises grpclib's GRPCError with the status the
        runtime gave, TimeoutError after ``seconds``, and OSError when nobody listens."""
        return asyncio.run(self._unary(method, fields, seconds))

    def collect(
        self, method: str, enough: Callable[[Sequence[Any]], bool], meanwhile: Callable[[], None], seconds: float = 60
    ) -> list[Any]:
        """The messages of a server stream until ``enough`` says so of those that came; ``meanwhile`` runs in a
        thread once the stream is open. Raises like `call`."""
        return asyncio.run(self._stream(method, enough, meanwhile, seconds))

    async def _unary(self, method: str, fields: dict[str, Any], seconds: float) -> Any:
        path, request, reply = _shape(method)
        async with Channel(path=str(self.socket)) as channel:
            return await UnaryUnaryMethod(channel, path, request, reply)(request(**fields), timeout=seconds)

    async def _stream(
        self, method: str, enough: Callable[[Sequence[Any]], bool], meanwhile: Callable[[], None], seconds: float
    ) -> list[Any]:
        path, request, reply = _shape(method)
        came: list[Any] = []
        async with (
            Channel(path=str(self.socket)) as channel,
            asyncio.timeout(seconds),
            UnaryStreamMethod(channel, path, request, reply).open() as stream,
        ):
            await stream.send_message(request(), end=True)
            acting = asyncio.create_task(asyncio.to_thread(meanwhile))
            while not enough(came):
                message = await stream.recv_message()
                assert message is not None, f"{method} ended early, after {came}"
                came.append(message)
            await acting
            await stream.cancel()
        return came


def _shape(method: str) -> tuple[str, Any, Any]:
    service, described = _METHODS[method]
    return f"/{service}/{method}", GetMessageClass(described.input_type), GetMessageClass(described.output_type)
