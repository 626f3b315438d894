"""The gRPC client: a channel to one runtime, kept connected by its own task; callers wait for the connection.

    closed ──open_channel──► connecting ──greeted──► connected
                               ▲      └─unreachable───┐   │ lost, or got GOAWAY (then the old one drains)
                               └──100 ms … 3 s─── waiting ◄┘

A call made while the channel is not connected waits until its caller's cancel scope ends; ``statistics`` reports the
reason. An outage is logged once per kind of problem, and once more when the runtime is back. A runtime that only
completes the handshake is not back; it must answer a call. Calls in progress when a connection breaks fail with
RuntimeLost, because only the caller knows if a retry is safe.

If there is no room for a call, because the runtime limits concurrent calls, the call joins a queue, and new room goes
to the first in it. A round of a thousand calls waits there like a single call.
"""

from __future__ import annotations

import enum
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio
from grpclib.const import Cardinality

from trikubelet.cri.call import Call, RawReplies
from trikubelet.cri.connection import CALLS_PER_CONNECTION_MAX, Connection
from trikubelet.cri.endpoint import connect_failure, socket_path
from trikubelet.cri.round import Round, UnaryCall
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.call_figures import CallFigures
from trikubelet.kit.unix_socket import connect_unix
from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import NotFound, RuntimeUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from trikubelet.cri.exchange import Exchange
    from trikubelet.cri.methods import Message
    from trikubelet.kit.spans import Spans

log = logging.getLogger(__name__)

MESSAGE_BYTES_MAX: Final = 16 * 2**20  # upstream's, and containerd's own limit for what it sends
HANDSHAKE_SECONDS_MAX: Final = 5.0
RUNTIME: Final = "runtime"
RECONNECT_SECONDS_FIRST: Final = 0.1
RECONNECT_SECONDS_MAX: Final = 1.0
"""The longest pause between tries. A try is one system call on a local socket, and containers that ended while the
runtime was away wait for it (upstream: 3 s)."""
STEADY_SECONDS: Final = 3.0
"""A connection that held so long was a good one: the next pause is the first again."""

_CONNECTED: Final = "connected"

CALL_SECONDS: Final = tuple(0.005 * 2.5**power for power in range(14))
"""Upper bounds of the histogram of call durations, like upstream's."""

Reply = TypeVar("Reply")


class State(enum.Enum):
    """The state of a channel, named for operators."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting to try again"


class Statistics(Frozen):
    """A snapshot of a channel. ``last_error`` is kept after a reconnect."""

    endpoint: str
    state: State
    calls_in_flight: int
    calls_waiting: int
    reconnects: int
    last_error: str


class Channel:
    """Owns the connections to the runtime; only ``run`` creates them."""

    def __init__(
        self,
        endpoint: str,
        *,
        peer: str = RUNTIME,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        connector: Callable[[], Awaitable[trio.abc.Stream]] | None = None,
        backoff: Backoff | None = None,
        calls_per_connection_max: int = CALLS_PER_CONNECTION_MAX,
        quiet: bool = False,
        spans: Spans | None = None,
    ) -> None:
        """``peer``: the name of the server, for the log; ``quiet``: callers report failures, so they are not logged
        here; ``spans``: traces each call, if given."""
        self._peer = peer
        self._endpoint = endpoint
        self._path = endpoint if connector else socket_path(endpoint)
        self._connector = connector or self._connect_socket
        self._message_bytes_max = message_bytes_max
        self._calls_per_connection_max = calls_per_connection_max
        self._backoff = backoff or Backoff(RECONNECT_SECONDS_FIRST, RECONNECT_SECONDS_MAX, jitter=0.2)
        self._connections: list[Connection] = []  # the last one is in use, the earlier ones drain
        self._state = State.WAITING
        self._connects = 0
        self._last_error = ""
        self._quiet = quiet
        self._logged: set[str] = set()  # the kinds of problems and connects logged since the last answer
        self._logged_last = ""  # the last of these
        self._line: dict[trio.lowlevel.ParkingLot, None] = {}  # the callers that wait for room, the longest first
        self._replaced = trio.lowlevel.ParkingLot()
        self.figures: Final = CallFigures(CALL_SECONDS)
        self._spans = spans

    # ---- calls ----

    def request(
        self,
        name: str,
        cardinality: Cardinality,
        request_type: type[Any],
        reply_type: type[Reply],
        *,
        timeout: None = None,
        metadata: None = None,
    ) -> Call[Reply]:
        """Return a call that has not been sent yet, for the generated stubs. ``timeout`` and ``metadata`` exist only
        because grpclib's stubs have them: the deadline is the caller's cancel scope, and CRI has no metadata."""
        assert timeout is None
        assert metadata is None
        assert cardinality is Cardinality.UNARY_STREAM, "unary methods use ``unary_raw``, and CRI has no other kinds"
        return Call(name, self._open_exchange, reply_type)

    async def unary_raw(self, name: str, request: Message) -> bytes:
        """Send one request. Return its undecoded reply; ``name`` is like ``/runtime.v1.RuntimeService/Version``. Raises
        the errors of ``model.runtime_errors``."""
        [answer] = await self.round([UnaryCall(name, request.SerializeToString())])
        if isinstance(answer, NotFound):
            raise answer
        return answer

    async def round(self, calls: Sequence[UnaryCall]) -> list[bytes | NotFound]:
        """Send many unary requests concurrently. Return the undecoded replies in the order of the calls. Raises the
        first error of ``model.runtime_errors`` other than NotFound, as soon as it occurs."""
        return await Round(self, calls).answers()

    @asynccontextmanager
    async def stream_raw(self, name: str, request: Message) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Send one request. Yield an iterator of its undecoded replies. Raises the errors of
        ``model.runtime_errors``."""
        async with Call[Any](name, self._open_exchange, None) as call:
            await call.send_message(request)
            yield RawReplies(call)

    async def wait_connected(self) -> None:
        """Wait until the channel is connected. Raises RuntimeUnavailable if it is closed."""
        await trio.lowlevel.checkpoint()
        waiters = trio.lowlevel.ParkingLot()
        try:
            while self._usable() is None:
                self._line[waiters] = None
                await waiters.park()
        finally:
            self.leave(waiters)

    def statistics(self) -> Statistics:
        """Return the state of the channel."""
        return Statistics(
            endpoint=self._endpoint,
            state=self._state,
            calls_in_flight=sum(len(connection.exchanges) for connection in self._connections),
            calls_waiting=len(self._line),
            reconnects=max(self._connects - 1, 0),
            last_error=self._last_error,
        )

    def __repr__(self) -> str:
        now = self.statistics()
        problem = f", last error: {now.last_error}" if now.last_error else ""
        return (
            f"<Channel to {now.endpoint} {now.state.value}, {now.calls_in_flight} calls in flight, "
            f"{now.calls_waiting} waiting, {now.reconnects} reconnects{problem}>"
        )

    # ---- the connection ----

    async def run(self) -> None:
        """Keep the channel connected until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    await self._keep_one(nursery)
        finally:
            self._state = State.CLOSED
            for waiters in self._line:
                waiters.unpark_all()

    async def _keep_one(self, nursery: trio.Nursery) -> None:
        """Make a connection, keep it until new calls need another one, and back off."""
        self._state = State.CONNECTING
        since = trio.current_time()
        connection = await self._connect(nursery)
        if connection is not None:
            while connection.open:
                await self._replaced.park()
            self._note("lost", connection.reason)
        # Only a connection that lasted resets the backoff: otherwise one that breaks at once would be retried in a
        # loop.
        if trio.current_time() - since > STEADY_SECONDS:
            self._backoff.reset()
        self._state = State.WAITING
        await trio.sleep(self._backoff.next_seconds())

    async def _connect(self, nursery: trio.Nursery) -> Connection | None:
        kind, reason = "silent", f"no answer at {self._path} within {HANDSHAKE_SECONDS_MAX:g} s"
        with trio.move_on_after(HANDSHAKE_SECONDS_MAX):
            try:
                connection = Connection(
                    await self._connector(),
                    message_bytes_max=self._message_bytes_max,
                    on_change=self._on_change,
                    calls_max=self._calls_per_connection_max,
                )
                # In the channel's nursery, because a replaced connection lives on until its calls are answered.
                await nursery.start(self._hold, connection)
            except OSError as error:
                kind = reason = connect_failure(self._path, error)
            except RuntimeUnavailable as error:
                kind, reason = "no gRPC", f"no gRPC at {self._path}: {error}"
            else:
                return connection
        self._note(kind, reason)
        return None

    async def _hold(self, connection: Connection, *, task_status: trio.TaskStatus[None]) -> None:
        self._connections.append(connection)
        try:
            await connection.run(task_status=task_status)
        finally:
            self._connections.remove(connection)
            self._on_change()

    async def _connect_socket(self) -> trio.abc.Stream:
        return await connect_unix(self._path)

    def begin(self, path: str, waiters: trio.lowlevel.ParkingLot) -> Exchange | None:
        """Begin a call now, whose answers wake the tasks in ``waiters``. Return None if there is no connection, no room
        on it, or an older waiter. Then ``waiters`` are queued, woken when it is their turn, and stay first until they
        have begun a call or called ``leave``. Raises RuntimeUnavailable if the channel is closed."""
        connection = self._usable()
        if connection is None or next(iter(self._line), waiters) is not waiters:
            self._line[waiters] = None
            return None
        exchange = connection.ask(path, waiters, None if self._spans is None else self._spans.call(path))
        self.leave(waiters)
        return exchange

    def note(self, path: str, seconds: float, *, failed: bool) -> None:
        """Count a unary call that has ended. Streams are not counted, because their readers determine their
        duration."""
        self.figures.note(path, seconds, failed=failed)

    def leave(self, waiters: trio.lowlevel.ParkingLot) -> None:
        """Remove ``waiters`` from the queue; the next in it is woken if there is room."""
        self._line.pop(waiters, None)
        self._call_first()

    def _call_first(self) -> None:
        """Wake the first in the queue. Each one that begins a call wakes the next, because there may be room for
        many."""
        if self._line and self._connections and self._connections[-1].has_room:
            next(iter(self._line)).unpark_all()

    async def _open_exchange(self, path: str) -> Exchange:
        waiters = trio.lowlevel.ParkingLot()
        try:
            while (exchange := self.begin(path, waiters)) is None:
                await waiters.park()
        finally:
            self.leave(waiters)
        return exchange

    def _usable(self) -> Connection | None:
        if self._state is State.CLOSED:
            raise RuntimeUnavailable(f"the channel to {self._endpoint} is closed")
        connection = self._connections[-1] if self._connections else None
        return connection if connection is not None and connection.has_room else None

    def _on_change(self) -> None:
        connection = self._connections[-1] if self._connections else None
        # In other states the connection is an earlier one, which drains and proves nothing about the next.
        if self._state is State.CONNECTED and connection is not None and connection.has_answered:
            self._note_answered()
        if connection is None or not connection.open:
            self._replaced.unpark_all()
            return
        if self._state is State.CONNECTING:
            self._note_connected()
        self._call_first()

    def _note_connected(self) -> None:
        self._state = State.CONNECTED
        self._connects += 1
        if _CONNECTED not in self._logged:
            self._log_connected()

    def _log_connected(self) -> None:
        self._logged.add(_CONNECTED)
        self._logged_last = _CONNECTED
        if not self._quiet:
            log.info("connected to the %s at %s", self._peer, self._endpoint)

    def _note_answered(self) -> None:
        """Record that the runtime answered: log its return if an outage was logged, and log the next problem anew."""
        if self._logged and self._logged_last != _CONNECTED:
            self._log_connected()
        self._logged.clear()

    def _note(self, kind: str, reason: str) -> None:
        """Log a problem, unless its kind was logged since the runtime last answered. The kind counts and not the text,
        because a peer that is no gRPC server may return a different text each time."""
        self._last_error = reason
        if kind in self._logged:
            return
        self._logged.add(kind)
        self._logged_last = kind
        if not self._quiet:
            log.warning("%s at %s: %s; retrying until it answers", self._peer, self._endpoint, reason)


@asynccontextmanager
async def open_channel(
    endpoint: str,
    *,
    peer: str = RUNTIME,
    message_bytes_max: int = MESSAGE_BYTES_MAX,
    connector: Callable[[], Awaitable[trio.abc.Stream]] | None = None,
    quiet: bool = False,
    spans: Spans | None = None,
) -> AsyncGenerator[Channel, None]:
    """Yield a channel, open within the block. Its task is shielded: after a cancellation the channel stays usable until
    the block ends, so that pods can be stopped. Raises ValueError for an invalid endpoint."""
    limit = message_bytes_max
    channel = Channel(endpoint, peer=peer, message_bytes_max=limit, connector=connector, quiet=quiet, spans=spans)
    try:
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope(shield=True)  # its owner is the block, which always cancels it
            nursery.start_soon(_run_within, scope, channel)
            try:
                yield channel
            finally:
                scope.cancel()
    except BaseExceptionGroup as group:
        # The caller does not know about this nursery, so its group is unwrapped: errors of the block stay as raised.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


async def _run_within(scope: trio.CancelScope, channel: Channel) -> None:
    with scope:
        await channel.run()
