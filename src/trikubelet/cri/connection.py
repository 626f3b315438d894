"""One HTTP/2 connection to the runtime, and the calls on it.

    greeting ──the other side's SETTINGS──► open ──GOAWAY, or used up──► draining ──last call ended──► ended
        └──────────────── closed, broken, not HTTP/2 ───────────────────────┴──────────────────────────────┘

``Channel`` owns it: it starts ``run``, begins calls while the connection is open, and then makes the next connection. A
call that is unfinished when the connection ends fails with RuntimeLost; one that the runtime certainly has not
processed, with NotProcessed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio
from h2.errors import ErrorCodes
from h2.events import (
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes

from trikubelet.core.frames import Block, StreamData
from trikubelet.cri.errors import error_for_reset
from trikubelet.cri.exchange import Exchange, NotProcessed
from trikubelet.cri.goaway import GoAway
from trikubelet.cri.header_blocks import HeaderBlocks
from trikubelet.cri.headers import CONTENT_TYPE, USER_AGENT, encode_timeout, to_dict
from trikubelet.cri.short import literal_field
from trikubelet.cri.wire import Wire
from trikubelet.model.runtime_errors import RuntimeLost, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from h2.events import Event

    from trikubelet.kit.spans import Asking

# HTTP/2 allows a client 2**30 streams per connection, and their numbers never restart; at a hundred calls a second that
# is four months.
CALLS_PER_CONNECTION_MAX: Final = 2**29


class Connection:
    """Owns the calls on one HTTP/2 connection."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        message_bytes_max: int,
        on_change: Callable[[], None],
        calls_max: int = CALLS_PER_CONNECTION_MAX,
    ) -> None:
        self.exchanges: dict[int, Exchange] = {}
        self.reason = ""  # why it accepts no more calls
        self.has_answered = False  # a call: SETTINGS alone do not prove that the runtime works
        self._calls_left = calls_max
        self._on_change = on_change  # the room for calls has changed, or the connection has ended
        self._greeted = trio.Event()
        self._wire = Wire(stream, self._on_event, client=True, message_bytes_max=message_bytes_max, on_room=on_change)
        h2 = self._wire.h2
        self._blocks = HeaderBlocks[str, bytes](h2.encoder.header_table)  # of a method's path
        self._meanings = HeaderBlocks[tuple[bytes, bool], dict[str, str]](h2.decoder.header_table)

    @property
    def open(self) -> bool:
        """True if the connection accepts new calls."""
        return self._greeted.is_set() and not self.reason and self._wire.ended is None

    @property
    def has_room(self) -> bool:
        """True if a call can be sent now: neither the runtime's limit is reached nor the outbox full."""
        limit: int = self._wire.h2.remote_settings.max_concurrent_streams
        return self.open and len(self.exchanges) < limit and not self._wire.crowded

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the connection to its end; ``started`` after the peer's SETTINGS. Raises RuntimeUnavailable if they
        never come."""
        self._wire.greet({SettingCodes.ENABLE_PUSH: 0})
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._start_when_greeted, task_status)
                await self._wire.run()
                nursery.cancel_scope.cancel()
        finally:
            self._over(self._wire.ended or "closed by us")
        if not self._greeted.is_set():
            raise RuntimeUnavailable(self.reason)

    def ask(self, path: str, waiters: trio.lowlevel.ParkingLot, span: Asking | None = None) -> Exchange:
        """Begin a call now; there must be room. The caller's cancel scope becomes its deadline; its messages and its
        end wake the tasks in ``waiters``. ``span`` ends with the call."""
        assert self.has_room
        block = self._header_block(path)
        deadline = trio.current_effective_deadline()
        if deadline != math.inf:  # a literal field, because it differs for each call and would fill HPACK's table
            block += literal_field("grpc-timeout", encode_timeout(deadline - trio.current_time()))
        if span is not None:
            block += b"".join(literal_field(name, value) for name, value in span.headers.items())
        stream_id = self._wire.open_stream(block)
        self._wire.frames.open(stream_id)
        exchange = Exchange(self._wire, stream_id, self._forget, waiters, span)
        self.exchanges[stream_id] = exchange
        self._calls_left -= 1
        if self._calls_left == 0:
            self._drain("used up: it has carried as many calls as it may")
        return exchange

    def _header_block(self, path: str) -> bytes:
        block = self._blocks.recall(path)
        if block is None:
            block = self._wire.h2.encoder.encode(
                [
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":path", path),
                    (":authority", "localhost"),
                    ("te", "trailers"),
                    ("content-type", CONTENT_TYPE),
                    ("user-agent", USER_AGENT),
                ]
            )
            self._blocks.remember(path, block)
        return block

    # ---- what arrives, synchronous ----

    def _on_event(self, event: Event | StreamData | Block | GoAway) -> None:
        if isinstance(event, StreamData):
            if exchange := self._find(event):
                exchange.on_data(event)
        elif isinstance(event, Block):
            self.has_answered = True
            self._on_block(event)
        elif isinstance(event, ResponseReceived | TrailersReceived):
            self.has_answered = True
            if exchange := self._find(event):
                headers, last = to_dict(event.headers), event.stream_ended is not None
                exchange.on_headers(headers, last=last)
        elif isinstance(event, StreamEnded):
            if exchange := self._find(event):
                exchange.on_end()
        elif isinstance(event, StreamReset):
            if exchange := self._find(event):
                exchange.fail(_reset_error(event.error_code), reset=False)
        elif isinstance(event, RemoteSettingsChanged):
            self._greeted.set()
            self._on_change()
        elif isinstance(event, GoAway):
            self._on_goaway(event)

    def _on_block(self, block: Block) -> None:
        """Handle headers or trailers. h2 decodes them, unless it has decoded the same block before."""
        key, h2 = (block.block, block.ends), self._wire.h2
        fields, exchange = self._meanings.recall(key), self.exchanges.get(block.stream_id)
        if fields is not None and exchange is not None and h2.headers_received(block.stream_id, last=block.ends):
            exchange.on_headers(fields, last=block.ends)
            return
        for event in self._wire.read(block.frame()):
            if isinstance(event, ResponseReceived | TrailersReceived):
                self._meanings.remember(key, to_dict(event.headers))

    def _find(
        self, event: StreamData | ResponseReceived | TrailersReceived | StreamEnded | StreamReset
    ) -> Exchange | None:
        assert event.stream_id is not None
        return self.exchanges.get(event.stream_id)

    def _on_goaway(self, event: GoAway) -> None:
        self._drain(str(event))
        # The server has not begun these (RFC 9113, 6.8), so their callers may safely retry.
        for exchange in [e for e in self.exchanges.values() if e.stream_id > event.last_stream_id]:
            exchange.fail(NotProcessed(str(event)))

    def _drain(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._on_change()
        if not self.exchanges:
            self._wire.close()

    def _forget(self, stream_id: int) -> None:
        self.exchanges.pop(stream_id, None)
        self._wire.frames.close(stream_id)
        if self.reason and not self.exchanges:
            self._wire.close()
        self._on_change()

    def _over(self, reason: str) -> None:
        self.reason = self.reason or reason
        for exchange in list(self.exchanges.values()):
            exchange.fail(
                RuntimeLost(f"the connection to the runtime was lost before its answer: {reason}"), reset=False
            )
        self._on_change()

    async def _start_when_greeted(self, task_status: trio.TaskStatus[None]) -> None:
        await self._greeted.wait()
        task_status.started()

    def __repr__(self) -> str:
        state = self.reason or ("open" if self.open else "greeting")
        return f"<Connection {state}, {len(self.exchanges)} calls in flight>"


def _reset_error(code: int | ErrorCodes | None) -> Exception:
    if code == ErrorCodes.REFUSED_STREAM:
        return NotProcessed("the runtime refused the call for now")
    return error_for_reset(int(code or 0))
