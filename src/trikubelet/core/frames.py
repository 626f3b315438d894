"""The receive path below HTTP/2: bytes from a socket in, gRPC messages out; all else is passed on to h2.

Lists of thousands of containers come in thousands of DATA frames, and h2 needs some 30 µs for each. So the compiled
``trikubelet._relist`` takes the DATA of streams that are opened here out of the incoming bytes and assembles it; this
module gives that a typed face. h2 still handles the rest: headers, settings and states. It must be notified when such
DATA ended a stream. It does not know how much of the flow-control windows such DATA used, so the caller must send the
WINDOW_UPDATE frames itself.

Headers of these streams that fit in a single frame are returned separately, so that callers can cache their decoding; a
caller that does not know a block must pass it to h2.

GOAWAY is taken out, too. It means "no new calls; those up to this number will be answered", but h2 treats it as the end
and rejects the answers that are still on their way. A frame that is too long is rejected by its header; h2 would wait
for all of it first, which for garbage can mean 16 MiB and forever.

If no binary can be loaded for this platform, the plain-Python twin does the same, slower; both must pass the same
tests.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from trikubelet.core import frames_twin
from trikubelet.core.compiled import BACKEND
from trikubelet.core.grpc_messages import Refusal

if BACKEND == "rust":
    from trikubelet import _relist

_MESSAGE_BYTES_MAX = 2**32 - 1  # gRPC has four bytes for a length
_HEADERS, _END_STREAM, _END_HEADERS = 1, 0x1, 0x4


class FrameError(ValueError):
    """The bytes violate HTTP/2 or the agreed settings."""


class StreamData(NamedTuple):
    """The result of DATA on one stream: the messages it completed. ``flow_bytes``: how much it used of the windows of
    the stream and the connection; ``midway``: a message would be cut if the stream ended here; after a ``refusal``
    nothing more can be read from the stream. ``ends``: it was the last of the stream."""

    stream_id: int
    flow_bytes: int
    messages: list[bytes]
    midway: bool
    refusal: Refusal | None
    ends: bool = False


class Block(NamedTuple):
    """A header block of one stream, undecoded. ``ends``: the stream ends with it."""

    stream_id: int
    ends: bool
    block: bytes

    def frame(self) -> bytes:
        """The HEADERS frame that contained it."""
        flags = _END_HEADERS | (_END_STREAM if self.ends else 0)
        return (
            len(self.block).to_bytes(3, "big")
            + bytes((_HEADERS, flags))
            + self.stream_id.to_bytes(4, "big")
            + self.block
        )


class Away(NamedTuple):
    """The payload of a GOAWAY frame, eight bytes or more."""

    payload: bytes


class Frames:
    """Owns the position of the next frame in one connection's bytes, and the incomplete messages."""

    def __init__(
        self,
        *,
        frame_bytes_max: int,
        message_bytes_max: int = 0,
        serving: bool = False,
        backend: Literal["rust", "python"] = BACKEND,
    ) -> None:
        """``serving``: this is a server's end, whose client begins with a preface and opens streams by headers."""
        make = _relist.Frames if backend == "rust" else frames_twin.Frames
        self._inner = make(frame_bytes_max, min(message_bytes_max, _MESSAGE_BYTES_MAX), serving)

    def open(self, stream_id: int) -> None:
        """Return, from the next frame on, DATA of this stream as StreamData and its short, complete headers as Blocks,
        until the stream ends or is closed."""
        self._inner.open(stream_id)

    def close(self, stream_id: int) -> None:
        """Pass all frames of this stream on to h2, from the next one on: its messages are no longer wanted."""
        self._inner.close(stream_id)

    def feed(self, data: bytes) -> list[bytes | StreamData | Block | Away]:
        """Return the content of the next bytes of the connection, in order, wherever they are cut. ``bytes`` are for
        h2, and so is the frame of a Block whose meaning is unknown. Raises FrameError for a frame that is too long or
        wrongly padded; nothing can be read after it. Releases the GIL for long work."""
        try:
            pieces = self._inner.feed(data)
        except ValueError as error:
            raise FrameError(str(error)) from error
        return [piece if isinstance(piece, bytes) else _typed(piece) for piece in pieces]


def _typed(raw: frames_twin.RawStreamData | frames_twin.RawBlock | frames_twin.RawAway) -> StreamData | Block | Away:
    if len(raw) == 3:
        return Block(*raw)
    if len(raw) == 1:
        return Away(raw[0])
    stream_id, flow_bytes, messages, midway, refusal, ends = raw
    return StreamData(stream_id, flow_bytes, messages, midway, None if refusal is None else Refusal(*refusal), ends)
