"""One request to the runtime and its answers: one HTTP/2 stream of the client.

    asking ──headers──► answering ──message──► answering ──trailers OK──► done
       │                    │
       └────────────────────┴── trailers not OK · reset · connection lost · message rejected ──► failed(error)
                                abandon() by the caller ──► gone, the runtime gets RST_STREAM

``Connection`` creates one per call and passes received data to it, synchronously; one caller takes the messages. Taking
a message opens the stream's window again, so the window bounds the messages that are not taken.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import trio
from h2.errors import ErrorCodes
from h2.exceptions import FlowControlError

from trikubelet.core.grpc_messages import frame
from trikubelet.cri.errors import error_for, error_for_http
from trikubelet.cri.headers import CONTENT_TYPE, decode_message
from trikubelet.cri.http2 import StreamGone
from trikubelet.cri.wire import STREAM_WINDOW_BYTES, Wire
from trikubelet.model.runtime_errors import MessageTooLarge, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.core.frames import StreamData
    from trikubelet.kit.spans import Asking

# The limit of complete messages not taken yet; above it the window is not opened.
UNTAKEN_BYTES_MAX: Final = STREAM_WINDOW_BYTES // 2
MESSAGE_EXTRA_BYTES: Final = 64
"""The memory of a message in addition to its length, so that any number of empty messages counts, too."""


class NotProcessed(Exception):
    """The runtime has not processed this call (it was refused, or above GOAWAY's number): a retry is safe."""


class Exchange:
    """Owns the answers to one call; written by its connection's reader, read by one caller."""

    def __init__(
        self,
        wire: Wire,
        stream_id: int,
        forget: Callable[[int], None],
        waiters: trio.lowlevel.ParkingLot,
        span: Asking | None = None,
    ) -> None:
        """``waiters``: tasks woken by messages and by the end; may be shared with other exchanges. ``span`` ends with
        the call."""
        self.stream_id = stream_id
        self._wire = wire
        self._forget = forget
        self._midway = False  # in the middle of a message
        self._messages: deque[bytes] = deque()
        self._untaken_bytes = 0
        self._owed = 0
        self._said_all = False  # our side of the stream is closed
        self._answering = False
        self._ended = False
        self._error: Exception | None = None
        self._waiters = waiters
        self._span = span

    # ---- the caller's side ----

    async def say(self, message: bytes) -> None:
        """Send the request and close our side. ``take`` raises the errors."""
        try:
            await self._wire.send_body(self.stream_id, frame(message), end=True)
        except StreamGone:
            return
        self._said_all = True

    async def take(self) -> bytes | None:
        """Return the next message, or None once the runtime has ended the call with OK. Raises the errors of
        ``model.runtime_errors`` and NotProcessed."""
        while not self._messages:
            if self._ended:
                await trio.lowlevel.checkpoint()
                if self._error is not None:
                    raise self._error
                return None
            await self._waiters.park()
        message = self._messages.popleft()
        self._untaken_bytes -= len(message) + MESSAGE_EXTRA_BYTES
        self._open_window()
        return message

    @property
    def has_answered(self) -> bool:
        """True if there is a message to take."""
        return bool(self._messages)

    @property
    def is_decided(self) -> bool:
        """True if the result of a unary call is known: it has ended, or has more than one answer."""
        return self._ended or len(self._messages) > 1

    def sole(self, path: str) -> bytes:
        """Return the answer of a decided unary call; ``path`` is its method's, for errors. Raises the errors of
        ``model.runtime_errors`` and NotProcessed."""
        if len(self._messages) > 1:
            raise RuntimeFailure(f"{path}: the runtime answered more than once", "INTERNAL")
        if self._error is not None:
            raise self._error
        if not self._messages:
            raise RuntimeFailure(f"{path}: the runtime said OK and nothing else", "INTERNAL")
        return self._messages[0]

    def abandon(self) -> None:
        """End the call for the caller, answered or not. Must always be called."""
        if not self._ended:
            self._wire.reset(self.stream_id, ErrorCodes.CANCEL)
            self._close(None, failed=True)

    # ---- the connection's side, synchronous ----

    def on_headers(self, headers: dict[str, str], *, last: bool) -> None:
        """Handle HEADERS: the beginning of the answer, its trailers, or both in one."""
        if "grpc-status" in headers:
            self._on_status(headers, last=last)
        elif not self._answering and (status := headers.get(":status", "")) != "200":
            self.fail(error_for_http(_number(status) or 0))
        elif last:
            self.on_end()
        elif not headers.get("content-type", "").startswith(CONTENT_TYPE):
            self.fail(RuntimeFailure(f"the runtime's socket answered {headers.get('content-type')!r}, not gRPC"))
        else:
            self._answering = True

    def on_data(self, data: StreamData) -> None:
        """Handle DATA: messages, or parts of one. Raises h2's FlowControlError if it exceeds the window."""
        if self._ended:
            return
        if not self._answering:
            self.fail(RuntimeFailure("the runtime sent a message before its headers", "INTERNAL"))
            return
        self._owed += data.flow_bytes
        if self._owed > STREAM_WINDOW_BYTES:
            raise FlowControlError(f"{self._owed} bytes in a window of {STREAM_WINDOW_BYTES}")
        self._midway = data.midway
        if data.messages:
            self._messages.extend(data.messages)
            self._untaken_bytes += sum(map(len, data.messages)) + MESSAGE_EXTRA_BYTES * len(data.messages)
            if self._waiters:
                self._waiters.unpark_all()
        if data.refusal is not None:
            text, too_large = data.refusal
            self.fail(MessageTooLarge(text) if too_large else RuntimeFailure(text, "INTERNAL"))
        if data.ends:
            self.on_end()
        self._open_window()

    def on_end(self) -> None:
        """Handle END_STREAM without trailers, which would have closed the exchange already."""
        self.fail(RuntimeFailure("the runtime ended the call without saying how it went", "INTERNAL"))

    def fail(self, error: Exception, *, reset: bool = True) -> None:
        """End the call with ``error``, once. Reset the stream, unless ``reset`` is False because it is gone."""
        if self._ended:
            return
        if reset:
            self._wire.reset(self.stream_id, ErrorCodes.CANCEL)
        self._close(error)

    def _on_status(self, headers: dict[str, str], *, last: bool) -> None:
        status = _number(headers["grpc-status"])
        if status is None:
            self.fail(RuntimeFailure(f"the runtime ended the call with status {headers['grpc-status'][:40]!r}"))
        elif status != 0:
            self._done(error_for(status, decode_message(headers.get("grpc-message", ""))), last=last)
        elif self._midway:
            self._done(RuntimeFailure("the runtime ended the call in the middle of a message", "INTERNAL"), last=last)
        else:
            self._done(None, last=last)

    def _done(self, error: Exception | None, *, last: bool) -> None:
        if not (self._said_all and last):  # answered before the whole request was sent, or not really ended
            self._wire.reset(self.stream_id, ErrorCodes.NO_ERROR)
        self._close(error)

    def _close(self, error: Exception | None, *, failed: bool = False) -> None:
        self._ended, self._error = True, error
        if self._span is not None:
            self._span.end(failed=failed or error is not None)
        for waiting in (self._waiters, self._wire.room):
            if waiting:
                waiting.unpark_all()
        self._forget(self.stream_id)

    def _open_window(self) -> None:
        if self._ended or self._owed < STREAM_WINDOW_BYTES // 2 or self._untaken_bytes > UNTAKEN_BYTES_MAX:
            return
        self._wire.give_back_unseen(self.stream_id, self._owed)
        self._owed = 0

    def __repr__(self) -> str:
        if self._ended:
            state = f"failed: {self._error}" if self._error else "done"
        else:
            state = "answering" if self._answering else "asking"
        return f"<Exchange {self.stream_id} {state}, {len(self._messages)} messages untaken>"


def _number(text: str) -> int | None:
    """Parse a status of a few digits; None if it is invalid. Python raises for thousands of digits, and a header may
    have a million."""
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else None
