"""The receive path below HTTP/2: bytes from a socket in, gRPC messages out, everything else left for h2.

Lists of thousands of containers come in thousands of DATA frames, and h2 spends some 30 µs on each. So DATA of the
streams that are opened here is taken out of the incoming bytes and put together in the compiled ``trikubelet._relist``;
this module gives that a typed face. h2 still has all the rest: headers, settings and states. It must be notified of
where such DATA has ended a stream, and knows nothing of what it used of the windows, so that must be given back by
frames it knows nothing of either.

Headers of these streams that fit in a frame with nothing else are returned by themselves, so that whoever knows what
such a block says need not ask h2; it must pass them to h2 if it does not.

GOAWAY is taken out, too. It means "no new calls; those up to this number will be answered", but h2 takes it for the end
and refuses the answers that are still on their way. And a frame that is too long is recognised by its header; h2 would
wait for all of it first, which with rubbish on the line means up to 16 MiB and for ever.

Where no binary can be loaded for this platform the plain-Python twin does the same, slower; both are held to the same
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
    """Bytes that are no HTTP/2 as agreed on."""


class StreamData(NamedTuple):
    """What DATA has brought on one stream: the messages it completed. ``flow_bytes`` is what it used of the windows of
    the stream and the connection; ``midway`` says that the stream would cut a message if it ended here; after a
    ``refusal`` nothing more can be read from it. ``ends``: it was the last of the stream."""

    stream_id: int
    flow_bytes: int
    messages: list[bytes]
    midway: bool
    refusal: Refusal | None
    ends: bool = False


class Block(NamedTuple):
    """A header block of one stream, as it came; the stream ``ends`` with it or goes on."""

    stream_id: int
    ends: bool
    block: bytes

    def frame(self) -> bytes:
        """The HEADERS frame that it came in."""
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
    """Owns the knowledge of where in one connection's bytes the next frame begins, and the messages arriving."""

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
        """From the next frame on DATA of this stream comes as News and its headers, where they are short and whole, as
        a Block, until the stream ends or is closed."""
        self._inner.open(stream_id)

    def close(self, stream_id: int) -> None:
        """This stream's messages are not wanted any more: from the next frame on h2 gets all there is of it."""
        self._inner.close(stream_id)

    def feed(self, data: bytes) -> list[bytes | StreamData | Block | Away]:
        """What the next bytes of the connection bring, in order, cut wherever they may be; ``bytes`` are for h2, and so
        is the frame of a Block whose meaning is not known. Raises FrameError for a frame that is too long or wrongly
        padded; nothing can be read after it. Releases the GIL for what takes long."""
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
