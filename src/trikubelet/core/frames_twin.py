"""The receive path below HTTP/2 in plain Python: the same as the frames of ``trikubelet._relist``, slower.

The oracle of the tests, and the fallback where the binary cannot be loaded. It works on whole frames, which are held
until they are complete; the caller sees no difference, since h2 does the same with what it is given.
"""

from __future__ import annotations

from typing import Final

from trikubelet.core.grpc_messages import Assembler

RawStreamData = tuple[int, int, list[bytes], bool, tuple[str, bool] | None, bool]
RawBlock = tuple[int, bool, bytes]
RawAway = tuple[bytes]

_PREFACE_BYTES: Final = 24
_HEADER_BYTES: Final = 9
_GOAWAY_BYTES_MIN: Final = 8  # the rest is a text; a shorter one goes to h2, which refuses it
_BLOCK_BYTES_MAX: Final = 256  # longer header blocks hardly come twice
_DATA, _HEADERS, _RST_STREAM, _PUSH_PROMISE, _GOAWAY, _CONTINUATION = 0, 1, 3, 5, 7, 9
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8


class Frames:
    """Owns the same as ``core.frames.Frames``."""

    def __init__(self, frame_bytes_max: int, message_bytes_max: int, serving: bool) -> None:
        """A reader for the beginning of a connection, as ``core.frames.Frames`` describes it; limits in bytes."""
        self._frame_bytes_max = frame_bytes_max
        self._message_bytes_max = message_bytes_max
        self._serving = serving
        self._skip = _PREFACE_BYTES if serving else 0
        self._held = bytearray()
        self._in_headers = False  # the next frame must continue a header block; h2 reports it if it does not
        self._open: dict[int, Assembler] = {}
        self._out: list[bytes | RawStreamData | RawBlock | RawAway] = []

    def open(self, stream_id: int) -> None:
        """Take DATA and short headers of this stream, from the next frame on, until it ends or is closed."""
        self._open[stream_id] = Assembler(self._message_bytes_max)

    def close(self, stream_id: int) -> None:
        """Pass all of this stream on to h2, from the next frame on."""
        self._open.pop(stream_id, None)

    def feed(self, data: bytes) -> list[bytes | RawStreamData | RawBlock | RawAway]:
        """Return the content of the next bytes, in order. Raises ValueError for bytes that violate HTTP/2 or the
        settings."""
        skipped, held = data[: self._skip], self._held
        self._skip -= len(skipped)
        if skipped:
            self._out.append(skipped)
        held += data[len(skipped) :]
        position = 0
        while position + _HEADER_BYTES <= len(held):
            length = int.from_bytes(held[position : position + 3], "big")
            if length > self._frame_bytes_max:
                raise ValueError(f"a frame of {length} bytes")
            end = position + _HEADER_BYTES + length
            if end > len(held):
                break
            self._take(bytes(held[position:end]))
            position = end
        del held[:position]
        out, self._out = self._out, []
        return out

    def _take(self, frame: bytes) -> None:
        kind, flags, length = frame[3], frame[4], len(frame) - _HEADER_BYTES
        stream_id = int.from_bytes(frame[5:9], "big") & 0x7FFF_FFFF
        if self._serving and kind == _HEADERS and not self._in_headers and stream_id not in self._open:
            self.open(stream_id)
        if kind == _DATA and not self._in_headers and stream_id in self._open:
            self._take_data(stream_id, flags, frame)
            return
        if kind == _GOAWAY and not self._in_headers and length >= _GOAWAY_BYTES_MIN:
            self._out.append((frame[_HEADER_BYTES:],))
            return
        is_whole_block = kind == _HEADERS and not self._in_headers and flags & ~_END_STREAM == _END_HEADERS
        is_block = is_whole_block and length <= _BLOCK_BYTES_MAX and stream_id in self._open
        if kind == _RST_STREAM or (kind == _HEADERS and flags & _END_STREAM):
            self._open.pop(stream_id, None)
        if kind in (_HEADERS, _PUSH_PROMISE, _CONTINUATION):
            self._in_headers = not flags & _END_HEADERS
        self._out.append((stream_id, bool(flags & _END_STREAM), frame[_HEADER_BYTES:]) if is_block else frame)

    def _take_data(self, stream_id: int, flags: int, frame: bytes) -> None:
        start, end = _HEADER_BYTES, len(frame)
        if flags & _PADDED:
            start, end = start + 1, end - (frame[start] if start < end else 0)
            if end < start:
                raise ValueError("a frame with more padding than it has bytes")
        assembler = self._open[stream_id]
        messages = assembler.feed(frame[start:end])
        flow_bytes, ends = len(frame) - _HEADER_BYTES, bool(flags & _END_STREAM)
        if flow_bytes or ends:
            midway = not assembler.between_messages
            self._out.append((stream_id, flow_bytes, messages, midway, assembler.refusal, ends))
        if ends:
            del self._open[stream_id]
