"""The streaming server of the runtimes inside the agent: its URLs, its SPDY sessions, and clients that do not behave.
What it does for clients that do is in ``contract.streaming_suite``.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from contract.streaming_suite import LISTENS, SPEAKS
from trikubelet.core import spdy
from trikubelet.core.remote_command import PORT_FORWARD, V4, spdy_headers
from trikubelet.fake.echo import echo_process, open_echo
from trikubelet.httpd.messages import Request, Response, Upgrade
from trikubelet.model.runtime_errors import ResourceExhausted, RuntimeFailure
from trikubelet.streaming.ports import forward_ports
from trikubelet.streaming.process import Size, Talk, talk_to_process
from trikubelet.streaming.server import URL_SECONDS_MAX, URLS_MAX, StreamingServer
from trikubelet.streaming.session import STREAMS_MAX, STREAMS_SECONDS_MAX, Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from trio.testing import MockClock


class Client:
    """A client's end of a session: what it says, and what it heard on each stream."""

    def __init__(self, stream: trio.StapledStream) -> None:
        self.stream = stream
        self.writer = spdy.FrameWriter()
        self.reader = spdy.FrameReader()
        self.frames: list[spdy.Frame] = []

    async def open(self, *kinds: str, first: int = 1, **headers: str) -> None:
        for number, kind in enumerate(kinds):
            opening = self.writer.syn_stream(first + 2 * number, {"streamType": kind, **headers})
            await self.stream.send_all(opening)

    async def say(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def heard(self) -> dict[int, bytes]:
        """Return the data of each stream at the end of the connection."""
        said: dict[int, bytes] = {}
        while data := await self.stream.receive_some():
            for frame in self.reader.feed(data):
                self.frames.append(frame)
                if isinstance(frame, spdy.Data):
                    said[frame.stream_id] = said.get(frame.stream_id, b"") + frame.data
        return said


@asynccontextmanager
async def serving(serve: Callable[[Session], Awaitable[None]]) -> AsyncIterator[Client]:
    """A session that is served as the server does, in memory."""
    near, far = memory_stream_pair()
    session = Session(far)

    async def converse() -> None:
        async with far, trio.open_nursery() as both:
            both.start_soon(session.run)
            await serve(session)
            await session.finish()
            both.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse)
        yield Client(near)
        nursery.cancel_scope.cancel()


# ---- URLs ----


async def ask(server: StreamingServer, url: str, protocol: str = V4) -> Response | Upgrade:
    """The server's answer to somebody with a URL."""
    path = "/" + url.rpartition("/")[2]
    return await server.answer(Request("POST", path, headers=dict(spdy_headers(protocol))))


@pytest.mark.parametrize("protocols", [{}, {"sec-websocket-protocol": "v9.channel.k8s.io"}])
async def test_websocket_client_gets_the_protocols(protocols: dict[str, str]) -> None:
    async with trio.open_nursery() as nursery:
        server = StreamingServer(nursery)
        urls = [await server.process_url(SPEAKS, echo_process), await server.ports_url(open_echo)]
        bodies = []
        for url in urls:
            headers = {"connection": "Upgrade", "upgrade": "websocket", **protocols}
            refused = await server.answer(Request("GET", "/" + url.rpartition("/")[2], headers=headers))
            assert isinstance(refused, Response)
            assert isinstance(refused.body, bytes)
            bodies.append((refused.status, refused.body.decode().strip()))
        nursery.cancel_scope.cancel()

    assert [
        (403, "over WebSocket the protocols are v5.channel.k8s.io and v4.channel.k8s.io: ask the node's API with one"),
        (403, "over WebSocket the protocol is SPDY/3.1+portforward.k8s.io: ask the node's API with it"),
    ] == bodies


async def test_a_url_is_good_for_a_minute_and_for_its_own_protocol(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        server = StreamingServer(nursery)
        in_time, late, other = [await server.process_url(SPEAKS, echo_process) for _ in range(3)]
        ports = await server.ports_url(open_echo)
        assert 4 == len({in_time, late, other, ports})

        refused = await ask(server, other, PORT_FORWARD)
        assert isinstance(refused, Response)
        assert (403, True) == (refused.status, b"v4.channel.k8s.io" in bytes(refused.body))  # type: ignore[arg-type]
        assert isinstance(await ask(server, ports, PORT_FORWARD), Upgrade)
        await trio.sleep(URL_SECONDS_MAX - 1)
        assert isinstance(await ask(server, in_time), Upgrade)
        await trio.sleep(1)
        for gone in (in_time, late, other, "http://x/"):
            answer = await ask(server, gone)
            assert isinstance(answer, Response)
            assert 404 == answer.status
        nursery.cancel_scope.cancel()


async def test_too_many_unused_urls_are_rejected_until_they_expire(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        server = StreamingServer(nursery)
        for _ in range(URLS_MAX):
            await server.process_url(SPEAKS, echo_process)
        with pytest.raises(ResourceExhausted, match="maximum number of in-flight requests exceeded"):
            await server.process_url(SPEAKS, echo_process)
        await trio.sleep(URL_SECONDS_MAX)
        await server.process_url(SPEAKS, echo_process)
        nursery.cancel_scope.cancel()


# ---- processes ----


async def test_a_process_that_fails_is_told_as_the_runtime_says_it(autojump_clock: MockClock) -> None:
    async def fail(_: Talk) -> int:
        await trio.lowlevel.checkpoint()
        raise RuntimeFailure("no such container")

    async with serving(partial(talk_to_process, streams=LISTENS, talk=fail)) as client:
        await client.open("error", "stdout", "stderr")
        status = json.loads((await client.heard())[1])

    assert ("Failure", "no such container", "InternalError") == (status["status"], status["message"], status["reason"])


async def test_a_client_that_does_not_open_its_streams_is_left(autojump_clock: MockClock) -> None:
    async with serving(partial(talk_to_process, streams=LISTENS, talk=echo_process)) as client:
        await client.open("error", "stdout", "nonsense")
        begun = trio.current_time()
        assert not any((await client.heard()).values())

    assert 30 <= trio.current_time() - begun <= 32
    assert any(isinstance(frame, spdy.GoAway) for frame in client.frames)


async def test_what_a_process_did_not_read_does_not_keep_its_end_back(autojump_clock: MockClock) -> None:
    async def deaf(_: Talk) -> int:
        await trio.sleep(1)
        return 0

    async with serving(partial(talk_to_process, streams=SPEAKS, talk=deaf)) as client:
        await client.open("error", "stdin", "stdout", "stderr")
        await client.say(spdy.data(3, b"x" * 100_000))

        assert b"Success" in (await client.heard())[1]


async def test_sizes_come_however_they_are_cut_and_rubbish_is_passed_over(autojump_clock: MockClock) -> None:
    found: list[Size] = []

    async def resized(talk: Talk) -> int:
        async for size in talk.sizes():
            found.append(size)  # noqa: PERF401 - kept as far as it came
        return 0

    streams = type(SPEAKS)(stdin=False, stderr=False, tty=True)
    async with serving(partial(talk_to_process, streams=streams, talk=resized)) as client:
        await client.open("error", "stdout", "resize")
        said = b'{"Width":80,"Height":24}{"Width":1}\\n{"Width":"a"}\\n\\n{"Height":70000}'.replace(b"\\n", b"\n")
        for at in range(0, len(said), 7):
            await client.say(spdy.data(5, said[at : at + 7]))
        await client.say(spdy.data(5, b"", ends=True))
        await client.heard()

    assert [Size(80, 24), Size(1, 0), Size(0, 70000)] == found


# ---- sessions ----


async def test_a_stream_too_many_is_reset(autojump_clock: MockClock) -> None:
    async with serving(partial(forward_ports, connect=open_echo)) as client:
        await client.open(*["data"] * (STREAMS_MAX + 1), port="1", requestID="")
        await wait_all_tasks_blocked()
        await client.stream.send_eof()
        await client.heard()

    last = 2 * STREAMS_MAX + 1
    assert [spdy.Rst(last)] == [frame for frame in client.frames if isinstance(frame, spdy.Rst)]


async def test_unread_stream_blocks_no_other(autojump_clock: MockClock) -> None:
    async with serving(partial(talk_to_process, streams=SPEAKS, talk=echo_process)) as client:
        await client.open("error", "nonsense", "stdin", "stdin", "stdout", "stderr", "late", "late")
        for stream_id in (1, 3, 7, 9, 11, 13, 15):
            await client.say(spdy.data(stream_id, b"who hears?"))
        await wait_all_tasks_blocked()
        await client.open("later", first=17)
        await client.say(spdy.data(17, b"who hears?") + spdy.data(5, b"hello") + spdy.data(5, b"", ends=True))
        heard = await client.heard()

    assert (b"hello", True) == (heard[9], b"Success" in heard[1])
    assert trio.current_time() < STREAMS_SECONDS_MAX


async def test_half_a_connection_is_given_up_and_holds_up_the_others_no_longer(autojump_clock: MockClock) -> None:
    async with serving(partial(forward_ports, connect=open_echo)) as client:
        await client.open("data", port="80", requestID="1")
        await client.say(spdy.data(1, b"who hears?"))
        await client.open("error", "data", first=3, port="80", requestID="2")
        await client.say(spdy.data(3, b"who hears?") + spdy.data(5, b"hello") + spdy.data(5, b"", ends=True))
        await trio.sleep(STREAMS_SECONDS_MAX + 1)
        await wait_all_tasks_blocked()
        await client.stream.send_eof()

        assert b"hello" == (await client.heard())[5]


async def test_invalid_spdy_closes_the_connection(autojump_clock: MockClock) -> None:
    async with serving(partial(forward_ports, connect=open_echo)) as client:
        await client.say(b"\x80\x02\x00\x01\0\0\0\0")
        assert {} == await client.heard()


async def test_many_connections_share_a_session(autojump_clock: MockClock) -> None:
    async with serving(partial(forward_ports, connect=open_echo)) as client:
        for number in range(200):
            await client.open("error", "data", first=4 * number + 1, port="80", requestID=str(number))
            await client.say(spdy.data(4 * number + 3, b"%d" % number) + spdy.data(4 * number + 3, b"", ends=True))
        await wait_all_tasks_blocked()
        await client.stream.send_eof()
        heard = await client.heard()

    assert {4 * number + 3: b"%d" % number for number in range(200)} == {
        id_: some for id_, some in heard.items() if some
    }


async def test_a_port_that_is_none_is_told(autojump_clock: MockClock) -> None:
    async with serving(partial(forward_ports, connect=open_echo)) as client:
        await client.open("error", "data", port="http", requestID="1")
        await wait_all_tasks_blocked()
        await client.stream.send_eof()

        assert b"cannot connect to port http" in (await client.heard())[1]
