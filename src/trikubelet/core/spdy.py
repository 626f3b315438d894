"""SPDY/3.1 frames without a connection, as far as Kubernetes' streaming protocols use them: decodes and encodes them.

    bytes ─► FrameReader.feed ─► SynStream · SynReply · Data (as it comes) · Rst · Ping · GoAway
    bytes to forward ─► WholeFrames.feed ─► the same in whole frames, and pings apart
    messages ─► FrameWriter ─► bytes

Both ends follow Go's moby/spdystream, which has no windows: a side that must wait is not read from. A header block
depends on all blocks before it in the same direction, so both ends of a connection own a writer and a reader. (The SPDY
protocol, draft 3.1; the dictionary is the one of its section 2.6.10.1.)
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROL_BYTES_MAX: Final = 64 * 1024
"""The limit for a control frame, and for its header block unpacked."""

_VERSION: Final = 0x8003
_FIN: Final = 0x01
_ID: Final = 0x7FFFFFFF
_HEAD: Final = struct.Struct(">II")  # of both kinds of frames: type and flags in the first word, length in the second


class _Kind(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8


_PING: Final = _VERSION << 16 | _Kind.PING
_PING_BYTES: Final = 4


_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(4, "big") + data


DICTIONARY: Final = b"".join(_counted(word.replace("_", " ")) for word in _WORDS.split(" ")) + _TAIL.encode()
"""The dictionary with which header blocks are compressed."""


class NotSpdy(ValueError):
    """The bytes are not SPDY/3.1; the message says why."""


class SynStream(msgspec.Struct, frozen=True):
    """Opens a stream; ``ends``: its opener sends nothing on it."""

    stream_id: int
    headers: Mapping[str, str]
    ends: bool


class SynReply(msgspec.Struct, frozen=True):
    """Accepts a stream."""

    stream_id: int


class Data(msgspec.Struct, frozen=True):
    """Some bytes of a stream; ``ends``: they are the sender's last."""

    stream_id: int
    data: bytes
    ends: bool


class Rst(msgspec.Struct, frozen=True):
    """Ends a stream in both directions, at once."""

    stream_id: int


class Ping(msgspec.Struct, frozen=True):
    """Must be returned unchanged by the side that did not send it first; a client's numbers are odd."""

    number: int


class GoAway(msgspec.Struct, frozen=True):
    """No new streams will be accepted."""


Frame = SynStream | SynReply | Data | Rst | Ping | GoAway


class _Under(msgspec.Struct):
    """The DATA frame under way."""

    stream_id: int
    fin: bool
    left: int


class FrameReader(msgspec.Struct):
    """Owns the position in the other end's frames. Frames of irrelevant kinds are left out."""

    _held: bytearray = msgspec.field(default_factory=bytearray)
    _under: _Under | None = None
    _unpacker: zlib._Decompress = msgspec.field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))

    def feed(self, data: bytes | bytearray) -> list[Frame]:
        """Return the frames in the next bytes, in order; DATA is forwarded as it comes. Raises NotSpdy; nothing can be
        read after that."""
        self._held += data
        frames: list[Frame] = []
        while True:
            if self._under is not None:
                if self._under.left and not self._held:
                    return frames
                frames.append(self._data(self._under))
                continue
            if len(self._held) < _HEAD.size:
                return frames
            first, second = _HEAD.unpack_from(self._held)
            flags, size = second >> 24, second & 0xFFFFFF
            if first <= _ID:
                del self._held[: _HEAD.size]
                self._under = _Under(first, bool(flags & _FIN), size)
                continue
            if first >> 16 != _VERSION:
                raise NotSpdy(f"a frame that begins with {first:#010x}")
            if size > CONTROL_BYTES_MAX:
                raise NotSpdy(f"a control frame of {size} bytes")
            if len(self._held) < _HEAD.size + size:
                return frames
            payload = bytes(self._held[_HEAD.size : _HEAD.size + size])
            del self._held[: _HEAD.size + size]
            frames += self._control(first & 0xFFFF, flags, payload)

    def _data(self, under: _Under) -> Data:
        size = min(under.left, len(self._held))
        data = bytes(self._held[:size])
        del self._held[:size]
        under.left -= size
        if not under.left:
            self._under = None
        return Data(under.stream_id, data, under.fin and not under.left)

    def _control(self, kind: int, flags: int, payload: bytes) -> list[Frame]:
        try:
            match kind:
                case _Kind.SYN_STREAM:
                    (stream_id,) = struct.unpack_from(">I", payload)
                    return [SynStream(stream_id & _ID, self._headers(payload[10:]), bool(flags & _FIN))]
                case _Kind.SYN_REPLY:
                    (stream_id,) = struct.unpack_from(">I", payload)
                    self._headers(payload[4:])
                    return [SynReply(stream_id & _ID)]
                case _Kind.RST_STREAM:
                    (stream_id,) = struct.unpack_from(">I", payload)
                    return [Rst(stream_id & _ID)]
                case _Kind.PING:
                    return [Ping(*struct.unpack_from(">I", payload))]
                case _Kind.GOAWAY:
                    return [GoAway()]
                case _Kind.HEADERS:  # unused, but the decompressor's state depends on it
                    self._headers(payload[4:])
        except struct.error as error:
            raise NotSpdy(f"a control frame of the kind {kind} that is too short") from error
        return []

    def _headers(self, block: bytes) -> dict[str, str]:
        """Return a header block with names in lower case; the last of repeated names counts."""
        try:
            plain = self._unpacker.decompress(block, CONTROL_BYTES_MAX)
        except zlib.error as error:
            raise NotSpdy(f"headers that cannot be unpacked: {error}") from error
        if self._unpacker.unconsumed_tail:
            raise NotSpdy(f"headers of more than {CONTROL_BYTES_MAX} bytes")
        (count,), at = struct.unpack_from(">I", plain), 4
        texts = []
        for _ in range(2 * count):
            (size,) = struct.unpack_from(">I", plain, at)
            at += 4
            if size > len(plain) - at:
                raise NotSpdy("a header that is longer than its block")
            texts.append(plain[at : at + size].decode("latin-1"))
            at += size
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


class Passed(NamedTuple):
    """The result of a reading: whole frames, and the numbers of the pings among them."""

    frames: bytes
    pings: list[int]


class WholeFrames(msgspec.Struct):
    """Owns the position in the other end's frames, of bytes that are forwarded unread in whole frames. The received
    part of a DATA frame becomes a frame of its own, so that the forwarder can insert its own frames after each."""

    watched: int = 0
    """A stream to watch, 0 for none; ``is_heard`` becomes true when it has sent anything."""
    is_heard: bool = False
    _held: bytes = b""  # an incomplete head or control frame
    _under: _Under | None = None

    def feed(self, data: bytes | bytearray) -> Passed:
        """Return the frames in the next bytes, in order, and the pings apart. Raises NotSpdy; nothing can be read after
        that."""
        came, at = memoryview(self._held + data), 0
        parts: list[bytes | memoryview] = []
        pings: list[int] = []
        while len(came) - at >= (1 if self._under is not None else _HEAD.size):
            if self._under is not None:
                piece = came[at : at + self._under.left]
                parts += self._begun(self._under, len(piece)), piece
                at += len(piece)
                continue
            first, second = _HEAD.unpack_from(came, at)
            size = second & 0xFFFFFF
            end = at + _HEAD.size + size
            if first <= _ID and size:
                self._under = _Under(first, bool(second >> 24 & _FIN), size)
                self.is_heard |= first == self.watched
                end = at + _HEAD.size
            elif size > CONTROL_BYTES_MAX:
                raise NotSpdy(f"a control frame of {size} bytes")
            elif end > len(came):
                break
            elif first == _PING and size == _PING_BYTES:
                pings.append(int.from_bytes(came[end - size : end], "big"))
            else:
                parts.append(came[at:end])
            at = end
        self._held = bytes(came[at:])
        return Passed(b"".join(parts), pings)

    def _begun(self, under: _Under, size: int) -> bytes:
        """Return the head for the part that was received; only the last part ends the stream."""
        under.left -= size
        if under.left:
            return _HEAD.pack(under.stream_id, size)
        self._under = None
        return _HEAD.pack(under.stream_id, (_FIN if under.fin else 0) << 24 | size)


class FrameWriter:
    """Owns the state of this end's header compression: frames must be sent in the order in which it returns them."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(zdict=DICTIONARY)

    def syn_stream(self, stream_id: int, headers: Mapping[str, str]) -> bytes:
        """Return the frame that opens a stream; a client's numbers are odd and grow."""
        return _control(_Kind.SYN_STREAM, struct.pack(">IIH", stream_id, 0, 0) + self._block(headers))

    def syn_reply(self, stream_id: int) -> bytes:
        """Return the frame that accepts a stream."""
        return _control(_Kind.SYN_REPLY, stream_id.to_bytes(4, "big") + self._block({}))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        plain = b"".join(_counted(name.lower()) + _counted(value) for name, value in headers.items())
        packed = self._packer.compress(len(headers).to_bytes(4, "big") + plain)
        return packed + self._packer.flush(zlib.Z_SYNC_FLUSH)


def data(stream_id: int, some: bytes, *, ends: bool = False) -> bytes:
    """Return a frame with bytes of a stream, fewer than 2²⁴."""
    return _HEAD.pack(stream_id, (_FIN if ends else 0) << 24 | len(some)) + some


def rst_stream(stream_id: int) -> bytes:
    """Return the frame that ends a stream at once (CANCEL)."""
    return _control(_Kind.RST_STREAM, struct.pack(">II", stream_id, 5))


def ping(number: int) -> bytes:
    """Return a ping, or the answer to one."""
    return _control(_Kind.PING, number.to_bytes(4, "big"))


def go_away(last_stream_id: int) -> bytes:
    """Return the frame after which no new streams are accepted (OK)."""
    return _control(_Kind.GOAWAY, struct.pack(">II", last_stream_id, 0))


def _control(kind: _Kind, payload: bytes) -> bytes:
    return _HEAD.pack(_VERSION << 16 | kind, len(payload)) + payload
