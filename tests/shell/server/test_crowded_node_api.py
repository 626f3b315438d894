"""The node's API in a crowd: clients with made-up tokens hold every connection, reviews are slow, and others come.

Everything is in memory and on virtual time, TLS too; an API server's client lets eight reviews through at a time, as
``app.member`` has it.
"""

from __future__ import annotations

import itertools
import math
import re
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from shell.nodeapikit import Bench, rules
from trikubelet.app.member import REVIEW_CONNECTIONS_MAX
from trikubelet.app.node_api import LIMITS
from trikubelet.httpd.connection_limit import ConnectionLimit
from trikubelet.httpd.messages import HttpLimits, Request, Response
from trikubelet.httpd.server import serve_http
from trikubelet.kit.wide_socket import WideSocket
from trikubelet.model.certificates import Certificate
from trikubelet.server.authentication import NOBODYS_KEPT_MAX
from trikubelet.server.node_api import REVIEWS_SECONDS_MAX
from trikubelet.server.reviews import ANSWER_SECONDS_MAX, TOKEN_REVIEWS_MAX, TOKENS_WAITING_MAX
from trikubelet.server.serving_tls import ServingTls, TlsFiles, TlsRules

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.httpd.messages import Upgrade

CONNECTIONS_MAX = 16
STRANGERS = 24
REVIEW_SECONDS = 2.0
STRANGE = "192.0.2.7"
OTHER = "198.51.100.1"


class SlowApi:
    """An API server's client of which every review takes its time, and a place among its connections."""

    def __init__(self, below: Any, seconds: float = REVIEW_SECONDS) -> None:
        self._below = below
        self._seconds = seconds
        self._places = trio.Semaphore(REVIEW_CONNECTIONS_MAX)

    async def create(self, resource: object, review: object) -> Any:
        async with self._places:
            await trio.sleep(self._seconds)
            return await self._below.create(resource, review)


class Wire(trio.abc.Stream):
    """The server's end of a connection in memory, which has come from an address."""

    def __init__(self, below: trio.StapledStream[Any, Any], address: str) -> None:
        self._below = below
        self._address = address
        self.socket = self

    def setsockopt(self, *_: int) -> None:
        """There is nothing to set."""

    def getpeername(self) -> tuple[str, int]:
        return self._address, 4711

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._below.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._below.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._below.aclose()


class Door(trio.abc.Listener[Any]):
    """Where clients in memory connect."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._come, self._next = trio.open_memory_channel[Wire](1000)

    async def connect(self, address: str, trust: ssl.SSLContext) -> trio.SSLStream[Any]:
        """A client's end, after the handshake. Raises BrokenResourceError where it is closed before."""
        near, far = memory_stream_pair()
        await self._come.send(Wire(far, address))
        stream = trio.SSLStream(near, trust, server_hostname="127.0.0.1", https_compatible=True)
        await stream.do_handshake()
        return stream

    async def accept(self) -> trio.SSLStream[Any]:
        wire = WideSocket(await self._next.receive())  # type: ignore[arg-type]  # it is all of a socket that is used
        return trio.SSLStream(wire, self._context, server_side=True, https_compatible=True)

    async def aclose(self) -> None:
        await self._next.aclose()


async def asked(stream: trio.SSLStream[Any], token: str) -> int:
    """The status of the answer, or 0 where the connection ends without."""
    said = f"GET /pods HTTP/1.1\r\nhost: n\r\n{f'authorization: Bearer {token}' if token else 'x: y'}\r\n\r\n"
    await stream.send_all(said.encode())
    got = bytearray()
    while not (found := re.match(rb"HTTP/1\.1 (\d+) .*\r\ncontent-length: (\d+)\r\n\r\n", got, re.DOTALL)) or len(
        got
    ) < found.end() + int(found[2]):
        data = await stream.receive_some()
        if not data:
            return 0
        got += data
    return int(found[1])


async def stranger(door: Door, trust: ssl.SSLContext, numbers: itertools.count[int]) -> None:
    """Asks with a new made-up token as soon as it was answered, and comes again as soon as it was closed."""
    while True:
        with suppress(trio.BrokenResourceError):
            stream = await door.connect(STRANGE, trust)
            try:
                while await asked(stream, f"made-up-{next(numbers)}"):  # noqa: ASYNC110 - no event is waited for
                    await trio.sleep(0.1)
            finally:
                await trio.aclose_forcefully(stream)
        await trio.sleep(0.1)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.joined = SlowApi(made.api)  # type: ignore[assignment]  # reviews do nothing but create
    return made


@pytest.mark.parametrize(
    ("proof", "address"), [("certificate", STRANGE), ("known token", STRANGE), ("new token", OTHER)]
)
async def test_authorized_client_is_served_despite_invented_tokens(
    bench: Bench, autojump_clock: MockClock, proof: str, address: str
) -> None:
    bench.allow("ann", "pods")
    token = "" if proof == "certificate" else bench.token("ann")
    trust = bench.trust()
    anns = bench.trust(bench.authority.issue_cert("c.test", common_name="ann")) if proof == "certificate" else trust
    tls = ServingTls(TlsFiles(str(bench.pair_path), str(bench.pair_path), str(bench.authority_path)), TlsRules())
    context = tls.context()
    assert context is not None
    door, gate = Door(context), bench.gate(rules())
    limit = ConnectionLimit("the node's API", CONNECTIONS_MAX, needs_proof=True)
    serve = partial(
        serve_http, gate.answer, [door], limits=HttpLimits(connections_max=CONNECTIONS_MAX), connection_limit=limit
    )
    answers = []
    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        if proof == "known token":
            await gate.answer(Request("GET", "/pods", headers={"authorization": f"Bearer {token}"}))
        numbers = itertools.count()
        for _ in range(STRANGERS):
            nursery.start_soon(stranger, door, trust, numbers)
        await trio.sleep(5)
        for _ in range(5):
            try:
                stream = await door.connect(address, anns)
                answers.append(await asked(stream, token))
                await trio.aclose_forcefully(stream)
            except trio.BrokenResourceError:
                answers.append(0)
        nursery.cancel_scope.cancel()

    assert [200] * 5 == answers


async def test_valid_tokens_stay_cached_despite_invented_ones(bench: Bench, autojump_clock: MockClock) -> None:
    bench.joined = bench.api
    gate = bench.gate(rules("AlwaysAllow")).answer

    async def ask(token: str) -> tuple[int, int]:
        before = len(bench.api.requests)
        told = await gate(Request("GET", "/pods", headers={"authorization": f"Bearer {token}"}))
        assert isinstance(told, Response)
        return told.status, len(bench.api.requests) - before

    async def make_up() -> None:
        for _ in range(NOBODYS_KEPT_MAX + 1):
            assert (401, 1) == await ask(f"made-up-{next(numbers)}")

    numbers = itertools.count()
    assert (200, 1) == await ask(bench.token("ann"))
    await make_up()
    await trio.sleep(119)
    assert (200, 0) == await ask("token-of-ann")
    await trio.sleep(2)
    bench.cluster.tokens.clear()
    assert (401, 1) == await ask("token-of-ann")
    await trio.sleep(119)
    assert (401, 0) == await ask("token-of-ann"), "that it is nobody's is known, too"


async def test_token_reviews_are_queued_by_network_and_bounded(bench: Bench, autojump_clock: MockClock) -> None:
    seconds = REVIEW_SECONDS / 2  # all who may wait have their turn in time
    bench.joined = SlowApi(bench.api, seconds)  # type: ignore[assignment]
    gate = bench.gate(rules("AlwaysAllow")).answer
    answers: dict[int, set[float]] = {}

    async def ask(token: str, network: str) -> Response | Upgrade:
        return await gate(Request("GET", "/pods", headers={"authorization": f"Bearer {token}"}, network=network))

    async def make_up(token: str) -> None:
        answer = await ask(token, STRANGE)
        assert isinstance(answer, Response)
        assert ("1" if answer.status == HTTPStatus.TOO_MANY_REQUESTS else None) == answer.headers.get("retry-after")
        answers.setdefault(answer.status, set()).add(trio.current_time())

    async with trio.open_nursery() as nursery:
        for number in range(TOKEN_REVIEWS_MAX + TOKENS_WAITING_MAX + 10):
            nursery.start_soon(make_up, f"made-up-{number}")
        await wait_all_tasks_blocked()
        told = await ask(bench.token("ann"), OTHER)
        assert isinstance(told, Response)
        assert (200, 2 * seconds) == (told.status, trio.current_time())

    assert {401, 429} == answers.keys()
    assert {0.0} == answers[429], "at once"


async def test_a_token_that_waits_too_long_for_its_review_is_told_to_come_again_and_not_that_it_is_bad(
    bench: Bench, autojump_clock: MockClock
) -> None:
    seconds = REVIEWS_SECONDS_MAX / 4 + 1
    bench.joined = SlowApi(bench.api, seconds)  # type: ignore[assignment]
    gate = bench.gate(rules("AlwaysAllow")).answer
    answers: dict[tuple[int, str], set[float]] = {}

    async def ask(token: str) -> None:
        answer = await gate(Request("GET", "/pods", headers={"authorization": f"Bearer {token}"}))
        assert isinstance(answer, Response)
        again = answer.headers.get("retry-after", "")
        answers.setdefault((answer.status, again), set()).add(trio.current_time())

    token = bench.token("ann")
    async with trio.open_nursery() as nursery:
        for number in range(TOKENS_WAITING_MAX):
            nursery.start_soon(ask, f"made-up-{number}")
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, token)
        nursery.start_soon(ask, token)

    reviewed = {seconds, 2 * seconds, 3 * seconds}
    assert {(401, ""): reviewed, (429, "1"): {REVIEWS_SECONDS_MAX - ANSWER_SECONDS_MAX}} == answers


async def test_a_review_that_is_asked_and_not_answered_is_none_as_upstream(
    bench: Bench, autojump_clock: MockClock
) -> None:
    bench.joined = SlowApi(bench.api, math.inf)  # type: ignore[assignment]
    headers = {"authorization": f"Bearer {bench.token('ann')}"}

    told = await bench.gate(rules("AlwaysAllow")).answer(Request("GET", "/pods", headers=headers))

    assert isinstance(told, Response)
    assert (401, ANSWER_SECONDS_MAX) == (told.status, trio.current_time())


def test_some_review_connections_are_kept_for_authenticated_clients() -> None:
    assert TOKEN_REVIEWS_MAX < REVIEW_CONNECTIONS_MAX
    assert TOKENS_WAITING_MAX < LIMITS.connections_max / 8


@pytest.mark.parametrize(
    ("proof", "path", "admitted", "status"),
    [
        ("certificate", "/pods", [False, True], 200),
        ("certificate", "/metrics", [False], 403),
        ("token", "/pods", [False, True], 200),
        ("made-up", "/pods", [], 401),
        ("none", "/pods", [False], 200),
        ("none", "/metrics", [], 403),
    ],
)
async def test_client_with_credentials_and_right_is_admitted_for_good(
    bench: Bench, autojump_clock: MockClock, proof: str, path: str, admitted: list[bool], status: int
) -> None:
    for user in ("ann", "system:anonymous"):
        bench.allow(user, "pods")
    token = bench.token("ann") if proof == "token" else "made-up"
    found: list[bool] = []

    def admit(*, for_good: bool) -> None:
        found.append(for_good)

    told = await bench.gate(rules(anonymous=True)).answer(
        Request(
            "GET",
            path,
            headers={"authorization": f"Bearer {token}"} if proof in ("token", "made-up") else {},
            certificate=Certificate("ann", (), 0, 2**63) if proof == "certificate" else None,
            admit=admit,
        )
    )

    assert isinstance(told, Response)
    assert (status, admitted) == (told.status, found)
