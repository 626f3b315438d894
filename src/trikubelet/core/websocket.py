"""WebSocket frames (RFC 6455) of a server, without a connection: decodes and encodes them.

    bytes ─► FrameReader.feed ─► Piece… (of a message, as it comes) · Ping · Close
    bytes to send ◄─ frame() ◄─ data

Messages are not assembled: their pieces are forwarded as they come, so memory is bounded. No extensions are negotiated.
The caller owns the connection and answers pings and close frames.
"""

from __future__ import annotations

import base64
import hashlib
from enum import IntEnum
from typing import Final

import msgspec

from trikubelet.model.frozen import Frozen

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTROL_BYTES_MAX: Final = 125
_REASON_BYTES_MAX: Final = 123
_LENGTH_MAX: Final = 2**63 - 1
_CODES: Final = (range(1000, 1004), range(1007, 1015), range(3000, 5000))
"""The codes that a close frame may have (RFC 6455, 7.4, and IANA's registry)."""
_FINAL, _RESERVED, _OPCODE, _MASKED = 0x80, 0x70, 0x0F, 0x80


class Opcode(IntEnum):
    """The kind of a frame."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    """The reasons with which the server closes a connection (RFC 6455, 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    INTERNAL_ERROR = 1011


class NotWebSocket(ValueError):
    """The bytes are no WebSocket frame of a client; the message says why."""


class Piece(Frozen):
    """Some of a message's bytes; empty for an empty message."""

    data: bytes
    begins: bool
    ends: bool


class Ping(Frozen):
    """Must be answered by a PONG with the same data."""

    data: bytes


class Close(Frozen):
    """The client's last frame; later bytes are ignored."""


Event = Piece | Ping | Close


class _Frame(msgspec.Struct):
    """The incomplete frame: how much of its payload was received, and how much is left."""

    opcode: Opcode
    final: bool
    mask: bytes
    left: int
    seen: int = 0


class FrameReader:
    """Owns the position in a client's frames and messages."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._frame: _Frame | None = None
        self._amid_message = False
        self._is_over = False

    def feed(self, data: bytes | bytearray) -> list[Event]:
        """Return the events in the next bytes, in order. Raises NotWebSocket; nothing can be read after that."""
        self._held += data
        events: list[Event] = []
        while not self._is_over:
            if self._frame is None:
                self._frame = self._head()
            if self._frame is None:
                return events
            if self._frame.opcode >= Opcode.CLOSE:
                if len(self._held) < self._frame.left:
                    return events
                events += self._control(self._frame)
            elif self._held or not self._frame.left:
                events.append(self._piece(self._frame))
            else:
                return events
        self._held.clear()
        return events

    def _head(self) -> _Frame | None:
        """Return the next frame's head; None until it is complete."""
        held = self._held
        if len(held) < 2:
            return None
        opcode, final = self._opcode(held[0]), bool(held[0] & _FINAL)
        length, start = held[1] & ~_MASKED, 2
        if not held[1] & _MASKED:
            raise NotWebSocket("a client's frame that is not masked")
        if opcode >= Opcode.CLOSE and (length > _CONTROL_BYTES_MAX or not final):
            raise NotWebSocket("a control frame that is too long or in parts")
        if length >= 126:
            start = 4 if length == 126 else 10
            length = int.from_bytes(held[2:start], "big")
        if len(held) < start + 4:
            return None
        if length > _LENGTH_MAX:
            raise NotWebSocket("a frame that is longer than frames can be")
        mask = bytes(held[start : start + 4])
        del held[: start + 4]
        return _Frame(opcode, final, mask, length)

    def _opcode(self, first: int) -> Opcode:
        if first & _RESERVED:
            raise NotWebSocket("a frame with an extension that was not agreed on")
        try:
            opcode = Opcode(first & _OPCODE)
        except ValueError:
            raise NotWebSocket(f"a frame of the unknown kind {first & _OPCODE}") from None
        if opcode < Opcode.CLOSE and self._amid_message != (opcode is Opcode.CONTINUATION):
            raise NotWebSocket("a message that begins amid another, or goes on without a beginning")
        return opcode

    def _control(self, frame: _Frame) -> list[Event]:
        data = self._take(frame)
        self._frame = None
        if frame.opcode is Opcode.PING:
            return [Ping(data)]
        if frame.opcode is not Opcode.CLOSE:
            return []
        self._is_over = True
        code = int.from_bytes(data[:2], "big")
        if data and (len(data) < 2 or not any(code in codes for codes in _CODES)):
            raise NotWebSocket("a close frame without a valid code")
        try:
            data[2:].decode()
        except UnicodeDecodeError:
            raise NotWebSocket("a close frame whose reason is not UTF-8") from None
        return [Close()]

    def _piece(self, frame: _Frame) -> Piece:
        begins = not self._amid_message
        data = self._take(frame)
        self._amid_message = not (frame.final and not frame.left)
        if not frame.left:
            self._frame = None
        return Piece(data, begins, not self._amid_message)

    def _take(self, frame: _Frame) -> bytes:
        """Return the received part of a frame's payload."""
        size = min(frame.left, len(self._held))
        turn = frame.seen % 4
        data = _masked(bytes(self._held[:size]), frame.mask[turn:] + frame.mask[:turn])
        del self._held[:size]
        frame.left -= size
        frame.seen += size
        return data


def frame(opcode: Opcode, data: bytes) -> bytes:
    """Return a whole frame of a server."""
    size = len(data)
    if size < 126:
        head = bytes((_FINAL | opcode, size))
    elif size < 1 << 16:
        head = bytes((_FINAL | opcode, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((_FINAL | opcode, 127)) + size.to_bytes(8, "big")
    return head + data


def close_frame(code: CloseCode, reason: str) -> bytes:
    """Return a close frame; the reason is cut to fit, by whole characters."""
    cut = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore").encode()
    return frame(Opcode.CLOSE, code.to_bytes(2, "big") + cut)


def accept_key(key: str) -> str:
    """Return the ``Sec-WebSocket-Accept`` for a ``Sec-WebSocket-Key``."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()  # noqa: S324 - no secret, the RFC's


def _masked(data: bytes, mask: bytes) -> bytes:
    """Return ``data`` masked by four bytes, or unmasked: the operation is its own inverse. Long integers do it in one
    step."""
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")
