"""Connections to a pod's ports over SPDY, the runtime's side of ``portforward.k8s.io``.

the client opens two streams per connection, of one request id: data and error ─► the runtime connects ─► bytes
                                                                               └► why it could not, on error
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.remote_command import STREAM_TYPE
from trikubelet.streaming.session import STREAMS_SECONDS_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.streaming.session import Session, SpdyStream

CONNECT_SECONDS_MAX: Final = 30.0
_COPY_BYTES: Final = 32 * 1024
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


async def forward_ports(session: Session, connect: Callable[[int], Awaitable[trio.abc.HalfCloseableStream]]) -> None:
    """Forward connections until the client has gone. ``connect`` opens one to a port and may raise OSError."""
    halves: dict[str, SpdyStream] = {}
    async with trio.open_nursery() as nursery:
        async for stream in session.opened:
            if stream.headers.get(STREAM_TYPE) == "error":
                stream.deafen()
            request = stream.headers.get("requestid", "")
            other = halves.pop(request, None)
            if other is None:
                halves[request] = stream
                nursery.start_soon(_give_up, halves, request, stream)
                continue
            error, data = (stream, other) if stream.headers.get(STREAM_TYPE) == "error" else (other, stream)
            nursery.start_soon(_forward, data, error, connect)
        nursery.cancel_scope.cancel()


async def _give_up(halves: dict[str, SpdyStream], request: str, stream: SpdyStream) -> None:
    """End a half whose other one does not come; while it has no reader, nothing of the client is read."""
    await trio.sleep(STREAMS_SECONDS_MAX)
    if halves.get(request) is stream:
        del halves[request]
        await stream.aclose()


async def _forward(
    data: SpdyStream, error: SpdyStream, connect: Callable[[int], Awaitable[trio.abc.HalfCloseableStream]]
) -> None:
    async with data, error:
        said = data.headers.get("port", "")
        try:
            with trio.fail_after(CONNECT_SECONDS_MAX):
                there = await connect(int(said))
        except (OSError, ValueError, OverflowError, trio.TooSlowError) as failure:
            with suppress(*_GONE):
                await error.send_all(f"cannot connect to port {said}: {failure}".encode())
            return
        async with there, trio.open_nursery() as nursery:
            nursery.start_soon(_copy, data, there)
            nursery.start_soon(_copy, there, data)


async def _copy(source: trio.abc.ReceiveStream, sink: trio.abc.HalfCloseableStream) -> None:
    with suppress(*_GONE):
        while some := await source.receive_some(_COPY_BYTES):
            await sink.send_all(some)
    with suppress(*_GONE):
        await sink.send_eof()
