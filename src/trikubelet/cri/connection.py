"""One HTTP/2 connection to the runtime, and the calls on it.

    greeting ──the other side's SETTINGS──► open ──GOAWAY, or used up──► draining ──last call ended──► ended
        └──────────────── closed, broken, not HTTP/2 ───────────────────────┴──────────────────────────────┘

``Channel`` owns it: it starts ``run``, asks while the connection is open, and makes the next one when it is not. Every
call still there when the connection ends fails with RuntimeLost; one the runtime has not looked at, with NotProcessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes
from hpack import NeverIndexedHeaderTuple

from trikubelet.cri.errors import error_for_reset
from trikubelet.cri.exchange import Exchange, NotProcessed
from trikubelet.cri.goaway import GoAway
from trikubelet.cri.headers import CONTENT_TYPE, USER_AGENT, encode_timeout, to_dict
from trikubelet.cri.wire import Wire
from trikubelet.model.runtime_errors import RuntimeLost, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from h2.events import Event

# HTTP/2 has 2**30 calls for a client and no way to begin again; at a hundred a second that is four months.
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
        self.reason = ""  # why it takes no more calls
        self._message_bytes_max = message_bytes_max
        self._calls_left = calls_max
        self._on_change = on_change  # more or less room, or none any more
        self._greeted = trio.Event()
        self._wire = Wire(stream, self._on_event, client=True, on_room=on_change)

    @property
    def open(self) -> bool:
        """Whether new calls belong here."""
        return self._greeted.is_set() and not self.reason and self._wire.ended is None

    @property
    def has_room(self) -> bool:
        """Whether a call can be sent now: neither the runtime's limit nor the outbox is full."""
        limit: int = self._wire.h2.remote_settings.max_concurrent_streams
        return self.open and len(self.exchanges) < limit and not self._wire.crowded

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the connection to its end; ``started`` means greeted. Raises RuntimeUnavailable if that never came."""
        self._wire.greet({SettingCodes.ENABLE_PUSH: 0})
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell_when_greeted, task_status)
                await self._wire.run()
                nursery.cancel_scope.cancel()
        finally:
            self._over(self._wire.ended or "closed by us")
        if not self._greeted.is_set():
            raise RuntimeUnavailable(self.reason)

    def ask(self, path: str) -> Exchange:
        """Begin a call, now; there must be room. The caller's cancel scope becomes its deadline."""
        assert self.has_room
        h2 = self._wire.h2
        stream_id = h2.get_next_available_stream_id()
        headers: list[tuple[str, str] | NeverIndexedHeaderTuple] = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", CONTENT_TYPE),
            ("user-agent", USER_AGENT),
        ]
        deadline = trio.current_effective_deadline()
        if deadline != float("inf"):
            timeout = encode_timeout(deadline - trio.current_time())
            headers.append(NeverIndexedHeaderTuple("grpc-timeout", timeout))
        h2.send_headers(stream_id, headers)
        self._wire.flush()
        exchange = Exchange(self._wire, stream_id, self._message_bytes_max, self._forget)
        self.exchanges[stream_id] = exchange
        self._calls_left -= 1
        if self._calls_left == 0:
            self._drain("used up: it has carried as many calls as it may")
        return exchange

    # ---- what arrives, synchronous ----

    def _on_event(self, event: Event | GoAway) -> None:
        if isinstance(event, DataReceived):
            self._wire.received(event.flow_controlled_length)
            if exchange := self._find(event):
                exchange.on_data(event.data, event.flow_controlled_length)
        elif isinstance(event, ResponseReceived | TrailersReceived):
            if exchange := self._find(event):
                last = event.stream_ended is not None
                exchange.on_headers(to_dict(event.headers), last=last)
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

    def _find(
        self, event: DataReceived | ResponseReceived | TrailersReceived | StreamEnded | StreamReset
    ) -> Exchange | None:
        assert event.stream_id is not None
        return self.exchanges.get(event.stream_id)

    def _on_goaway(self, event: GoAway) -> None:
        self._drain(str(event))
        for exchange in [e for e in self.exchanges.values() if e.stream_id > event.last_stream_id]:
            exchange.fail(NotProcessed(str(event)))

    def _drain(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._on_change()
        if not self.exchanges:
            self._wire.close()

    def _forget(self, stream_id: int) -> None:
        self.exchanges.pop(stream_id, None)
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

    async def _tell_when_greeted(self, task_status: trio.TaskStatus[None]) -> None:
        await self._greeted.wait()
        task_status.started()

    def __repr__(self) -> str:
        state = self.reason or ("open" if self.open else "greeting")
        return f"<Connection {state}, {len(self.exchanges)} calls in flight>"


def _reset_error(code: int | ErrorCodes | None) -> Exception:
    if code == ErrorCodes.REFUSED_STREAM:
        return NotProcessed("the runtime refused the call for now")
    return error_for_reset(int(code or 0))
