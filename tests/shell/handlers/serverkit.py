"""Servers on loopback that say what a test wants, and note what they were asked."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Sequence


class Script:
    """A server that answers one connection after another with the next of its ``answers``, the last for good."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._answers = list(answers)
        self.port = 0
        self.requests: list[bytes] = []

    async def attend(self, stream: trio.abc.Stream) -> None:
        try:
            self.requests.append(bytes(await stream.receive_some(65536)))
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            await stream.send_all(answer.replace(b"PORT", str(self.port).encode()))
            await stream.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def serving(
    *answers: bytes, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncGenerator[Script, None]:
    """The script at ``script.port``, for the length of the block."""
    script = Script(answers)
    listeners = await trio.open_tcp_listeners(0, host=host)
    script.port = listeners[0].socket.getsockname()[1]
    accepting: Sequence[trio.abc.Listener] = listeners
    if tls is not None:
        accepting = [trio.SSLListener(one, tls, https_compatible=True) for one in listeners]
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, script.attend, accepting)
        yield script
        nursery.cancel_scope.cancel()


def answer(status: int = 200, body: bytes = b"", *headers: str) -> bytes:
    """An HTTP/1.1 answer with a length."""
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body
