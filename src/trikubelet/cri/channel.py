"""The client's end of gRPC: a channel to one runtime, kept up by a task of its own and waited for by its callers.

    closed ──open_channel──► connecting ──greeted──► connected
                               ▲      └─unreachable───┐   │ lost, or got GOAWAY (then the old one drains)
                               └──100 ms … 3 s─── waiting ◄┘

A call made while the channel is not connected waits, until its caller's cancel scope ends; ``statistics`` says what it
waits for. That a runtime is away is logged once for each kind of problem, when it comes back once more; until it has
answered a call, one that greets and goes away is not back. Calls in flight when a connection breaks fail with
RuntimeLost, since only the caller can know whether asking twice does harm.

A call that finds no room, because the runtime takes only so many calls at a time, joins a queue; while there is one,
new room is for its first. A round of a thousand calls waits there with one at a time, like all others.
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
"""Upper bounds of how long calls take: upstream's."""

Reply = TypeVar("Reply")


class State(enum.Enum):
    """The state of a channel, in a word for an operator."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting to try again"


class Statistics(Frozen):
    """A channel at one moment. ``last_error`` is kept when the channel is connected again."""

    endpoint: str
    state: State
    calls_in_flight: int
    calls_waiting: int
    reconnects: int
    last_error: str


class Channel:
    """Owns which connection to the runtime is in use; only ``run`` makes one."""

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
        """``peer``: the name of the other end, for the log; ``quiet``: failures are reported by the callers, not in the
        log; ``spans``: makes a span of each call, if traces are wanted."""
        self._peer = peer
        self._endpoint = endpoint
        self._path = endpoint if connector else socket_path(endpoint)
        self._connector = connector or self._connect_socket
        self._message_bytes_max = message_bytes_max
        self._calls_per_connection_max = calls_per_connection_max
        self._backoff = backoff or Backoff(RECONNECT_SECONDS_FIRST, RECONNECT_SECONDS_MAX, jitter=0.2)
        self._connections: list[Connection] = []  # the last one is in use, those before it drain
        self._state = State.WAITING
        self._connects = 0
        self._last_error = ""
        self._quiet = quiet
        self._logged: set[str] = set()  # the kinds of problems, and the connecting, since the runtime last answered
        self._logged_last = ""  # the last of these
        self._line: dict[trio.lowlevel.ParkingLot, None] = {}  # of those who wait for room, the longest first
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
        """A call that has not been sent yet, for the generated stubs. ``timeout`` and ``metadata`` are there because
        grpclib's own stubs name them: the deadline is the caller's cancel scope, and CRI has no metadata."""
        assert timeout is None
        assert metadata is None
        assert cardinality is Cardinality.UNARY_STREAM, (
            "unary methods are asked by ``unary_raw``, and CRI has no others"
        )
        return Call(name, self._open_exchange, reply_type)

    async def unary_raw(self, name: str, request: Message) -> bytes:
        """One request and its reply, undecoded; ``name`` is like ``/runtime.v1.RuntimeService/Version``. Raises the
        errors of ``model.runtime_errors``."""
        [answer] = await self.round([UnaryCall(name, request.SerializeToString())])
        if isinstance(answer, NotFound):
            raise answer
        return answer

    async def round(self, calls: Sequence[UnaryCall]) -> list[bytes | NotFound]:
        """The undecoded replies to many unary requests, asked side by side, in the order of the calls. Raises the
        first error of ``model.runtime_errors`` but NotFound, as soon as it is there."""
        return await Round(self, calls).answers()

    @asynccontextmanager
    async def stream_raw(self, name: str, request: Message) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """One request and an iterator of its replies, undecoded. Raises the errors of ``model.runtime_errors``."""
        async with Call[Any](name, self._open_exchange, None) as call:
            await call.send_message(request)
            yield RawReplies(call)

    async def wait_connected(self) -> None:
        """Return once the channel is connected, at once if it is. Raises RuntimeUnavailable when it is closed."""
        await trio.lowlevel.checkpoint()
        waiters = trio.lowlevel.ParkingLot()
        try:
            while self._usable() is None:
                self._line[waiters] = None
                await waiters.park()
        finally:
            self.leave(waiters)

    def statistics(self) -> Statistics:
        """The state of the channel, in words and numbers."""
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
        """Make a connection, hold it until new calls need another, and wait as long as is decent."""
        self._state = State.CONNECTING
        since = trio.current_time()
        connection = await self._connect(nursery)
        if connection is not None:
            while connection.open:
                await self._replaced.park()
            self._note("lost", connection.reason)
        # A connection that has held for a while was a good one; one that breaks at once must not be made in a loop.
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
                # In the channel's nursery, for a connection that is replaced lives on until its calls are answered.
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
        """Begin a call now, whose answers wake those in ``waiters``. None where there is no connection, no room on it,
        or others have waited longer: then those in ``waiters`` stand in line, are woken when it is their turn, and
        stay the first until they have begun a call or left. Raises RuntimeUnavailable when the channel is closed."""
        connection = self._usable()
        if connection is None or next(iter(self._line), waiters) is not waiters:
            self._line[waiters] = None
            return None
        exchange = connection.ask(path, waiters, None if self._spans is None else self._spans.call(path))
        self.leave(waiters)
        return exchange

    def note(self, path: str, seconds: float, *, failed: bool) -> None:
        """Count a unary call that has ended. Streams are not counted: they take as long as their readers listen."""
        self.figures.note(path, seconds, failed=failed)

    def leave(self, waiters: trio.lowlevel.ParkingLot) -> None:
        """Wait for room no longer, if they did; the next in the queue is woken if there is room."""
        self._line.pop(waiters, None)
        self._call_first()

    def _call_first(self) -> None:
        """Each who begins calls the next, since room may have come for many at once."""
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
        # In another state it is an earlier one, which drains, and says nothing about the next.
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
        """The runtime is there, and what is said of it next is news. A log must not end with its being away."""
        if self._logged and self._logged_last != _CONNECTED:
            self._log_connected()
        self._logged.clear()

    def _note(self, kind: str, reason: str) -> None:
        """Say what went wrong, unless the like was said since the runtime last answered: what rubbish says of itself is
        never the same twice."""
        self._last_error = reason
        if kind in self._logged:
            return
        self._logged.add(kind)
        self._logged_last = kind
        if not self._quiet:
            log.warning("%s at %s: %s; trying until it is there", self._peer, self._endpoint, reason)


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
    """A channel for the length of the block. Its task is shielded: cancelling the block's caller leaves the channel
    usable until the block is left, so that farewells can be said. Raises ValueError for an impossible endpoint."""
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
        # The nursery is ours and not the caller's business: an error of the block leaves it as it was raised.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


async def _run_within(scope: trio.CancelScope, channel: Channel) -> None:
    with scope:
        await channel.run()
