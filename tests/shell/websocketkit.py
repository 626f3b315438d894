"""A WebSocket client for tests: the other side of ``core.websocket``, written apart from it, over any Trio stream."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import h11

if TYPE_CHECKING:
    import trio

BINARY, CLOSE, PING, PONG = 2, 8, 9, 10


class Refused(Exception):
    """The server did not change the protocol: its status, its words and its headers."""

    def __init__(self, status: int, text: str, headers: dict[str, str]) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text
        self.headers = headers


def masked(opcode: int, data: bytes, *, final: bool = True) -> bytes:
    """A client's frame."""
    mask = os.urandom(4)
    size = len(data)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 65536:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    return bytes([(0x80 if final else 0) | opcode]) + length + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


@dataclass
class Socket:
    """A client's end. ``closed`` is what the server said last: code and reason."""

    stream: trio.abc.Stream
    protocol: str = ""
    held: bytes = b""
    closed: tuple[int, str] | None = None
    pongs: list[bytes] = field(default_factory=list)

    async def say(self, channel: int, data: bytes) -> None:
        await self.stream.send_all(masked(BINARY, bytes([channel]) + data))

    async def message(self) -> bytes | None:
        """The server's next message; None once it has closed."""
        while True:
            head = await self._exactly(2)
            if head is None:
                return None
            size = head[1]
            if size >= 126:
                size = int.from_bytes(await self._exactly(2 if size == 126 else 8) or b"", "big")
            data = await self._exactly(size) or b""
            opcode = head[0] & 15
            if opcode == BINARY:
                return data
            if opcode == PONG:
                self.pongs.append(data)
            if opcode == CLOSE:
                self.closed = int.from_bytes(data[:2], "big"), data[2:].decode()
                return None

    async def everything(self) -> dict[int, bytes]:
        """Return the data of each channel until the end."""
        told: dict[int, bytes] = {}
        while message := await self.message():
            told[message[0]] = told.get(message[0], b"") + message[1:]
        return told

    async def _exactly(self, size: int) -> bytes | None:
        while len(self.held) < size:
            more = await self.stream.receive_some(65536)
            if not more:
                return None
            self.held += more
        data, self.held = self.held[:size], self.held[size:]
        return data


async def upgraded(
    stream: trio.abc.Stream, target: str, headers: list[tuple[str, str]], method: str = "GET"
) -> tuple[dict[str, str], bytes]:
    """Ask for another protocol: the server's headers, and what it said already. Raises Refused."""
    http = h11.Connection(h11.CLIENT)
    request = h11.Request(method=method, target=target, headers=[("host", "n"), ("connection", "Upgrade"), *headers])
    await stream.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    status, text, told = 0, b"", dict[str, str]()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(65536)))
        elif isinstance(event, h11.InformationalResponse):
            return _text(event), http.trailing_data[0]
        elif isinstance(event, h11.Response):
            status, told = event.status_code, _text(event)
        elif isinstance(event, h11.Data):
            text += bytes(event.data)
        else:
            raise Refused(status, text.decode(), told)


async def connect(stream: trio.abc.Stream, target: str, *protocols: str, token: str = "") -> Socket:
    """A WebSocket over a connection. Raises Refused."""
    headers = [
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", base64.b64encode(os.urandom(16)).decode()),
        ("sec-websocket-protocol", ", ".join(protocols)),
    ]
    if token:
        headers.append(("authorization", f"Bearer {token}"))
    told, early = await upgraded(stream, target, headers)
    return Socket(stream, told.get("sec-websocket-protocol", ""), early)


def _text(event: h11.Response | h11.InformationalResponse) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in event.headers}
