"""Takes GOAWAY out of the incoming bytes before h2 sees it.

GOAWAY means "no new calls; those up to this number will be answered". h2 takes it for the end: it closes its state
machine and refuses the answers that are still on their way. So each connection's bytes pass through here, where frames
are told apart by their nine-byte header only; GOAWAY is handed over as a record, everything else untouched.

The header also tells a frame that is too long at once; h2 would wait for all of it first, which with rubbish on the
line means up to 16 MiB and for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from h2.errors import ErrorCodes
from h2.exceptions import FrameTooLargeError
from hyperframe.frame import GoAwayFrame

_HEADER_BYTES: Final = 9
_GOAWAY: Final = 7
_GOAWAY_BYTES_MAX: Final = 4096  # 8 are needed, the rest is a debug text; a longer one goes to h2, which ends it all


@dataclass(frozen=True, slots=True)
class GoAway:
    """The other side will take no new calls; those with a number above ``last_stream_id`` it has not looked at."""

    last_stream_id: int
    error_code: int
    text: str

    def __str__(self) -> str:
        name = ErrorCodes(self.error_code).name if self.error_code in set(ErrorCodes) else str(self.error_code)
        return f"told to go away ({name}{': ' if self.text else ''}{self.text})"


def goaway_bytes(last_stream_id: int) -> bytes:
    """A GOAWAY frame that lets the calls up to ``last_stream_id`` end in peace."""
    frame: bytes = GoAwayFrame(0, last_stream_id=last_stream_id, error_code=0).serialize()
    return frame


class FrameTap:
    """Owns the knowledge of where in the incoming bytes the next frame begins."""

    def __init__(self, frame_bytes_max: int, *, skip_bytes: int = 0) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._skip = skip_bytes  # to the next frame's header; a server's first bytes are the client's preface
        self._held = b""  # the beginning of a header, or of a GOAWAY frame

    def feed(self, data: bytes) -> list[bytes | GoAway]:
        """What came, in order: bytes for h2, and GOAWAY frames. Raises h2's FrameTooLargeError."""
        if self._held:
            data, self._held = self._held + data, b""
        pieces: list[bytes | GoAway] = []
        start, position = 0, self._skip
        while position + _HEADER_BYTES <= len(data):
            length = int.from_bytes(data[position : position + 3], "big")
            if length > self._frame_bytes_max:
                raise FrameTooLargeError(f"a frame of {length} bytes")
            end = position + _HEADER_BYTES + length
            if data[position + 3] == _GOAWAY and 8 <= length <= _GOAWAY_BYTES_MAX:
                if end > len(data):
                    break
                if position > start:
                    pieces.append(data[start:position])
                pieces.append(_parse(data[position + _HEADER_BYTES : end]))
                start = end
            position = end
        if position < len(data):
            self._held = data[position:]
            self._skip = 0
            data = data[:position]
        else:
            self._skip = position - len(data)
        if len(data) > start:
            pieces.append(data[start:] if start else data)
        return pieces


def _parse(body: bytes) -> GoAway:
    last, code = int.from_bytes(body[:4], "big") & 0x7FFF_FFFF, int.from_bytes(body[4:8], "big")
    return GoAway(last, code, body[8:].decode("utf-8", "replace"))
