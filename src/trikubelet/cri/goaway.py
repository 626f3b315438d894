"""Reads and writes GOAWAY: "no new calls; those up to this number will be answered".

It never reaches h2, which would end the whole connection (see ``core.frames``).
"""

from __future__ import annotations

from typing import Final

from h2.errors import ErrorCodes
from hyperframe.frame import GoAwayFrame

from trikubelet.model.frozen import Frozen

TEXT_BYTES_MAX: Final = 200
"""The limit of the peer's reason, which is logged and reported; a frame could contain 256 KiB of it."""


class GoAway(Frozen):
    """The peer accepts no new calls; it has not processed those with a number above ``last_stream_id``."""

    last_stream_id: int
    error_code: int
    text: str

    @classmethod
    def read(cls, payload: bytes) -> GoAway:
        """Parse a frame's payload of at least eight bytes; a long text is cut."""
        last, code = int.from_bytes(payload[:4], "big") & 0x7FFF_FFFF, int.from_bytes(payload[4:8], "big")
        return cls(last, code, payload[8 : 8 + TEXT_BYTES_MAX].decode("utf-8", "replace"))

    def __str__(self) -> str:
        name = ErrorCodes(self.error_code).name if self.error_code in set(ErrorCodes) else str(self.error_code)
        return f"received GOAWAY ({name}{': ' if self.text else ''}{self.text})"


def goaway_bytes(last_stream_id: int) -> bytes:
    """Return a GOAWAY frame that lets the calls up to ``last_stream_id`` finish."""
    frame: bytes = GoAwayFrame(0, last_stream_id=last_stream_id, error_code=0).serialize()
    return frame
