"""/exec, /attach, /portForward and /run of the node's API: over real TLS, before a runtime's streaming server whose
processes are written here; and, in memory and on virtual time, how a conversation ends.
"""

from __future__ import annotations

import base64
import json
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import h11
import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from contract.streaming_suite import SPEAKS, echo_server
from shell.localkit import pod
from shell.nodeapikit import Bench, rules
from shell.websocketkit import BINARY, CLOSE, PING, Refused, Socket, connect, masked, upgraded
from trikubelet.core import spdy
from trikubelet.core.remote_command import PROTOCOL_HEADER, TUNNEL, V4, V5
from trikubelet.httpd.read_ahead import ReadAhead
from trikubelet.model.runtime import ExecResult
from trikubelet.model.runtime_errors import NotFound, ResourceExhausted, RuntimeFailure
from trikubelet.model.standard_streams import StandardStreams
from trikubelet.server.copied_command import OPENING_BYTES_MAX, CopiedCommand
from trikubelet.server.node_view import RunningContainer
from trikubelet.server.relay import GOING_DOWN, UNSAID, relay
from trikubelet.server.remote_command import STATUS_BYTES_MAX, RemoteCommand
from trikubelet.server.web_socket import READ_BYTES, WebSocket
from trikubelet.streaming.server import StreamingServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from trio import StapledStream
    from trio.testing import MockClock

    from trikubelet.streaming.process import Talk

EXEC = "/exec/default/web-n1/app?command=a&command=b%20c&input=1&output=1&error=1"


@dataclass
class Runtime:
    """A runtime whose containers are what `talk` says. ``asked`` is what it was asked, ``wrong`` what it answers if
    not None."""

    streaming: StreamingServer
    asked: list[Any] = field(default_factory=list)
    wrong: Exception | None = None
    result: ExecResult = field(default_factory=lambda: ExecResult(0, b"out", b"err"))
    left: trio.Event = field(default_factory=trio.Event)
    port: int = 0
    runs: trio.Event | None = None

    async def exec_url(self, container_id: str, command: Sequence[str], streams: StandardStreams) -> str:
        await self._note("exec", container_id, list(command), streams)
        return await self.streaming.process_url(streams, self.talk)

    async def attach_url(self, container_id: str, streams: StandardStreams) -> str:
        await self._note("attach", container_id, streams)
        return await self.streaming.process_url(streams, self.talk)

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        await self._note("forward", sandbox_id, list(ports))
        return await self.streaming.ports_url(partial(trio.open_tcp_stream, "127.0.0.1"))

    async def exec_sync(self, container_id: str, command: Sequence[str], limit_seconds: int) -> ExecResult:
        await self._note("run", container_id, list(command), limit_seconds)
        if self.runs is not None:  # a command that does not end
            self.runs.set()
            try:
                await trio.sleep_forever()
            finally:
                self.left.set()
        return self.result

    async def _note(self, *asked: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.asked.append(asked)
        if self.wrong is not None:
            raise copy(self.wrong)  # pytest keeps the parameter, and that would keep the connection by its traceback

    async def talk(self, talk: Talk) -> int:
        """Say back what comes, a word on stderr, and end with 3."""
        assert talk.stdin is not None
        assert talk.stdout is not None
        try:
            while data := await talk.stdin.receive_some():
                await talk.stdout.send_all(data)
            if talk.stderr is not None:
                await talk.stderr.send_all(b"done")
        finally:
            self.left.set()
        return 3


@dataclass
class Node:
    """A node's API that is served, and the runtime behind it."""

    bench: Bench
    runtime: Runtime
    serving: trio.CancelScope

    @property
    def web_sockets(self) -> dict[str, int]:
        """Return the number of requests in the metrics."""
        assert self.bench.streams is not None
        return dict(self.bench.streams.web_sockets)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[trio.SSLStream[Any]]:
        """TLS to the node."""
        stream = await trio.open_ssl_over_tcp_stream(
            "127.0.0.1", self.bench.port, ssl_context=self.bench.trust(), https_compatible=True
        )
        async with stream:
            yield stream

    @asynccontextmanager
    async def socket(self, target: str, *protocols: str) -> AsyncIterator[Socket]:
        """A WebSocket to the node, of somebody who may."""
        async with self.connection() as stream:
            yield await connect(stream, target, *protocols, token=self.bench.token("ann"))


@pytest.fixture
async def node(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """Parametrised: with that ``streamingConnectionIdleTimeout``, in seconds."""
    idle = {"streaming_connection_idle_timeout": request.param} if hasattr(request, "param") else {}
    bench = Bench(tmp_path)
    bench.view.shown = [pod()]
    bench.allow("ann", "proxy", verb="create")
    async with trio.open_nursery() as nursery:
        runtime = Runtime(StreamingServer(nursery))
        bench.runtime = runtime  # type: ignore[assignment]
        serving = trio.CancelScope()

        async def serve(*, task_status: trio.TaskStatus[None]) -> None:
            with serving:
                async with bench.serving(rules(**idle)):
                    task_status.started()
                    await trio.sleep_forever()

        await nursery.start(serve)
        yield Node(bench, runtime, serving)
        nursery.cancel_scope.cancel()


# ---- what is asked of the runtime, and what is refused ----


async def test_a_command_is_asked_for_word_by_word(node: Node) -> None:
    async with node.socket(EXEC, V5):
        pass

    assert [("exec", "app", ["a", "b c"], SPEAKS)] == node.runtime.asked


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("input=1&output=1&tty=1", StandardStreams(True, True, False, True)),
        ("output=1&error=1&tty=1", StandardStreams(False, True, False, True)),
        ("input=true&output=1&error=0", StandardStreams(False, True, False)),
        ("error=1", StandardStreams(False, False, True)),
    ],
)
async def test_the_streams_are_those_the_query_has_as_1_and_a_terminal_has_no_stderr(
    node: Node, query: str, wanted: StandardStreams
) -> None:
    async with node.socket(f"/exec/default/web-n1/app?command=x&{query}", V5):
        pass

    assert [("exec", "app", ["x"], wanted)] == node.runtime.asked


async def test_whether_an_attached_process_has_a_terminal_the_pod_says(node: Node) -> None:
    node.bench.view.runs = RunningContainer("app", tty=True)
    async with node.socket("/attach/default/web-n1/app?input=1&output=1&error=1", V5):
        pass

    assert [("attach", "app", StandardStreams(True, True, False, True))] == node.runtime.asked


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        ("/exec/default/web-n1/app?command=x", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/default/other/app?output=1", 404, "pod does not exist"),
        ("/exec/other/web-n1/app?output=1", 404, "pod does not exist"),
        ("/exec/default/web-n1/nobody?output=1", 500, 'container not found ("nobody")'),
        ("/exec/default/web-n1/uid-2/app?output=1", 500, 'container not found ("app")'),
        ("/attach/default/web-n1/nobody?output=1", 500, 'container not found ("nobody")'),
        ("/portForward/default/other", 404, "pod does not exist"),
        ("/portForward/default/web-n1?port=http", 400, "port=http: write a whole number from 1 to 65535"),
        ("/portForward/default/web-n1?port=80,0", 400, "port=0: write"),
        ("/portForward/default/web-n1?port=65536", 400, "port=65536: write"),
    ],
)
async def test_what_cannot_be_had_is_refused_before_the_protocol_changes(
    node: Node, target: str, status: int, text: str
) -> None:
    with pytest.raises(Refused) as refused:
        async with node.socket(target, V5, TUNNEL):
            pass

    assert status == refused.value.status
    assert text in refused.value.text
    assert [] == node.runtime.asked


@pytest.mark.parametrize(
    ("wrong", "status"),
    [(NotFound("gone"), 404), (ResourceExhausted("too many"), 429), (RuntimeFailure("sick"), 500)],
)
async def test_a_runtime_that_says_no_is_quoted(node: Node, wrong: Exception, status: int) -> None:
    node.runtime.wrong = wrong
    with pytest.raises(Refused) as refused:
        async with node.socket(EXEC, V5):
            pass

    assert (status, str(wrong)) == (refused.value.status, refused.value.text)


async def test_request_without_upgrade_is_rejected(node: Node) -> None:
    async with node.bench.client(token=node.bench.token("ann")) as client:
        told = await client.post(EXEC)
        assert (400, "Upgrade request required") == (told.status_code, told.text)
        assert 405 == (await client.get("/run/default/web-n1/app")).status_code
    assert [] == node.runtime.asked


async def test_a_protocol_that_the_runtime_does_not_speak_is_refused_in_its_words(node: Node) -> None:
    with pytest.raises(Refused) as refused:
        async with node.socket(EXEC, "base64.channel.k8s.io"):
            pass

    assert (403, True) == (refused.value.status, "v5.channel.k8s.io" in refused.value.text)


async def test_read_only_client_is_rejected_by_any_method(node: Node) -> None:
    node.bench.cluster.rights.clear()
    node.bench.allow("ann", "proxy")
    with pytest.raises(Refused) as refused:
        async with node.socket(EXEC, V5):
            pass

    assert 403 == refused.value.status
    assert "verb=create" in refused.value.text


async def test_a_command_can_be_run_to_its_end(node: Node) -> None:
    async with node.bench.client(token=node.bench.token("ann")) as client:
        told = await client.post("/run/default/web-n1/uid-1/app?cmd=ls%20-l")
        assert (200, "outerr") == (told.status_code, told.text)
        node.runtime.result = ExecResult(7, b"", b"no")
        told = await client.post("/run/default/web-n1/app?cmd=ls%20-l")
        assert (500, "command 'ls -l' exited with 7: no") == (told.status_code, told.text)
    assert [("run", "app", ["ls", "-l"], 14400)] * 2 == node.runtime.asked


@pytest.mark.parametrize("query", ["", "?cmd=", "?cmd=%20ls"])
async def test_a_command_without_a_program_is_refused_before_the_runtime_is_asked(query: str, node: Node) -> None:
    async with node.bench.client(token=node.bench.token("ann")) as client:
        told = await client.post(f"/run/default/web-n1/app{query}")

    assert (400, "cmd: the command is empty") == (told.status_code, told.text.rstrip())
    assert [] == node.runtime.asked


@pytest.mark.parametrize(("limit", "node"), [(0, 0.0), (1, 0.5), (60, 60.0)], indirect=["node"])
async def test_a_command_may_run_for_whole_seconds_and_no_limit_is_none_only_where_none_is_wanted(
    limit: int, node: Node
) -> None:
    async with node.bench.client(token=node.bench.token("ann")) as client:
        await client.post("/run/default/web-n1/app?cmd=x")

    assert [("run", "app", ["x"], limit)] == node.runtime.asked


async def test_command_is_cancelled_when_its_client_leaves(node: Node) -> None:
    node.runtime.runs = trio.Event()
    async with node.connection() as stream:
        token = node.bench.token("ann")
        asked = f"POST /run/default/web-n1/app?cmd=sleep HTTP/1.1\r\nhost: n\r\nauthorization: Bearer {token}\r\n"
        await stream.send_all(asked.encode() + b"content-length: 0\r\n\r\n")
        await node.runtime.runs.wait()
        assert not node.runtime.left.is_set()
    await node.runtime.left.wait()


# ---- how a WebSocket begins ----

KEY = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
NUMBER = ("sec-websocket-version", "13")
WANTED = ("upgrade", "websocket")
SPOKEN = ("sec-websocket-protocol", V5)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([WANTED, NUMBER, SPOKEN], "Sec-WebSocket-Key"),
        ([WANTED, NUMBER, SPOKEN, ("sec-websocket-key", "")], "Sec-WebSocket-Key"),
        ([WANTED, NUMBER, SPOKEN, ("sec-websocket-key", "c2hvcnQ=")], "Sec-WebSocket-Key"),
        ([WANTED, NUMBER, SPOKEN, ("sec-websocket-key", "no base64 at all")], "Sec-WebSocket-Key"),
        ([WANTED, NUMBER, SPOKEN, KEY, KEY], "Sec-WebSocket-Key"),
        ([WANTED, SPOKEN, KEY], "version 13"),
        ([WANTED, SPOKEN, KEY, ("sec-websocket-version", "8")], "version 13"),
        ([WANTED, SPOKEN, KEY, ("sec-websocket-version", "13, 8")], "version 13"),
        ([WANTED, SPOKEN, KEY, NUMBER, NUMBER], "version 13"),
    ],
)
@pytest.mark.parametrize("protocol", [V5, "base64.channel.k8s.io"])
async def test_what_is_no_handshake_is_refused_before_the_runtime_is_asked(
    node: Node, headers: list[tuple[str, str]], why: str, protocol: str
) -> None:
    token = ("authorization", f"Bearer {node.bench.token('ann')}")
    said = [(name, protocol if (name, value) == SPOKEN else value) for name, value in (token, *headers)]
    async with node.connection() as stream:
        with pytest.raises(Refused, match=why) as refused:
            await upgraded(stream, EXEC, said)

    assert (400, "13") == (refused.value.status, refused.value.headers["sec-websocket-version"])
    assert [] == node.runtime.asked


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/exec/default/zz/c?output=1", [WANTED, NUMBER, SPOKEN, KEY], 404),
        (EXEC, [WANTED, SPOKEN, KEY, ("sec-websocket-version", "12")], 400),
        ("/exec/default/zz/c?output=1", [("upgrade", "SPDY/3.1"), (PROTOCOL_HEADER, V4)], 404),
        ("/nothing", [WANTED, NUMBER, SPOKEN, KEY], 404),
        ("/healthz", [WANTED, NUMBER, SPOKEN, KEY], 200),
    ],
)
async def test_refused_upgrade_closes_the_connection(
    node: Node, target: str, headers: list[tuple[str, str]], status: int
) -> None:
    node.bench.allow("ann", "healthz", "proxy", verb="get")
    token = f"authorization: Bearer {node.bench.token('ann')}"
    said = [f"GET {target} HTTP/1.1", "host: n", "connection: Upgrade", *(": ".join(one) for one in headers), token]
    asked = ["", "GET /healthz HTTP/1.1", "host: n", "connection: close", token, "", ""]
    told = b""
    async with node.connection() as stream:
        await stream.send_all("\r\n".join([*said, *asked]).encode())
        while more := await stream.receive_some():
            told += bytes(more)

    assert (1, True) == (told.count(b"HTTP/1.1 "), told.startswith(b"HTTP/1.1 %d " % status))
    assert b"\r\nconnection: close\r\n" in told


async def test_a_web_socket_does_not_begin_with_a_post(node: Node) -> None:
    token = ("authorization", f"Bearer {node.bench.token('ann')}")
    async with node.connection() as stream:
        with pytest.raises(Refused, match="must be a GET"):
            await upgraded(stream, EXEC, [token, WANTED, NUMBER, SPOKEN, KEY], "POST")

    assert [] == node.runtime.asked


def token_protocol(token: str) -> str:
    """A token as browsers say it."""
    return "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


async def test_a_browsers_token_is_a_proof_and_no_protocol(node: Node) -> None:
    node.bench.token("ann", "token-with-ä")
    async with node.connection() as stream:
        socket = await connect(stream, EXEC, token_protocol("token-with-ä"), V5)
        assert V5 == socket.protocol
        await socket.say(255, b"\0")

        assert b"done" == (await socket.everything())[2]


async def test_runtime_gets_the_protocol_and_not_the_identity_of_a_client(node: Node) -> None:
    heard = bytearray()

    async def decline(stream: trio.SocketStream) -> None:
        heard.extend(await stream.receive_some())
        await stream.send_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno")

    async def exec_url(*_: Any) -> str:
        await trio.lowlevel.checkpoint()
        return f"http://127.0.0.1:{listener.socket.getsockname()[1]}/token"

    node.runtime.exec_url = exec_url  # type: ignore[method-assign]
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery, node.connection() as stream:
        nursery.start_soon(trio.serve_listeners, decline, [listener])
        protocols = ("a.k8s.io", token_protocol(node.bench.token("ann")), "b.k8s.io")
        with pytest.raises(Refused, match="no"):
            await connect(stream, EXEC, *protocols)
        nursery.cancel_scope.cancel()

    head = h11.Connection(h11.SERVER)
    head.receive_data(bytes(heard))
    request = head.next_event()
    assert isinstance(request, h11.Request)
    told = [(name.decode(), value.decode()) for name, value in request.headers]
    assert ["a.k8s.io", "b.k8s.io"] == [value for name, value in told if name == "sec-websocket-protocol"]
    wanted = {"host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol"}
    assert wanted == {name for name, _ in told}


@pytest.mark.parametrize("agreed", ["", "channel.k8s.io"])
async def test_a_client_is_told_a_protocol_only_where_the_runtime_names_one(node: Node, agreed: str) -> None:
    async def agree(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        said = "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: x\r\n"
        said += f"sec-websocket-protocol: {agreed}\r\n\r\n"  # containerd has the line in any case
        await stream.send_all(f"HTTP/1.1 101 Switching Protocols\r\n{said}".encode())

    async def exec_url(*_: Any) -> str:
        await trio.lowlevel.checkpoint()
        return f"http://127.0.0.1:{listener.socket.getsockname()[1]}/token"

    node.runtime.exec_url = exec_url  # type: ignore[method-assign]
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    token = ("authorization", f"Bearer {node.bench.token('ann')}")
    offered = [("sec-websocket-protocol", agreed)] if agreed else []
    async with trio.open_nursery() as nursery, node.connection() as stream:
        nursery.start_soon(trio.serve_listeners, agree, [listener])
        told, _ = await upgraded(stream, EXEC, [token, WANTED, NUMBER, KEY, *offered])
        nursery.cancel_scope.cancel()

    assert (agreed or None) == told.get("sec-websocket-protocol")


async def test_bytes_that_are_no_ascii_reach_the_runtime_as_they_are(node: Node) -> None:
    token = f"Bearer {node.bench.token('ann')}"
    async with node.connection() as stream:
        headers = [("upgrade", "SPDY/3.1"), (PROTOCOL_HEADER, V4), ("origin", b"\xb8"), ("authorization", token)]
        told, _ = await upgraded(stream, EXEC, headers, "POST")  # type: ignore[arg-type]

        assert "SPDY/3.1" == told["upgrade"]


# ---- the ways between ----


@pytest.mark.parametrize("protocol", [V4, V5])
async def test_a_web_socket_is_translated(node: Node, protocol: str) -> None:
    async with node.socket(EXEC, "v3.channel.k8s.io", V4, protocol) as socket:
        assert protocol == socket.protocol
        await socket.say(0, b"hello")
        assert [b"\1", b"\1hello"] == [await socket.message(), await socket.message()]
        await socket.stream.send_all(masked(PING, b"there?"))
        await socket.say(255, b"\0")
        told = await socket.everything()

        assert ({2: b"done"}, "NonZeroExitCode") == ({2: told[2]}, json.loads(told[3])["reason"])
        assert ((1000, ""), [b"there?"]) == (socket.closed, socket.pongs)
        assert {"exec": 1} == node.web_sockets


@dataclass
class Process:
    """A client's end of SPDY to a process: its streams are 1, error, 3, stdin, 5, stdout, and 7, stderr."""

    stream: trio.abc.Stream
    said: dict[int, bytes] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    reader: spdy.FrameReader = field(default_factory=spdy.FrameReader)

    async def open(self) -> None:
        """Cut where nobody would."""
        writer = spdy.FrameWriter()
        for number, name in enumerate(("error", "stdin", "stdout", "stderr")):
            opening = writer.syn_stream(2 * number + 1, {"streamType": name})
            await self.stream.send_all(opening[:9])
            await self.stream.send_all(opening[9:])

    def hear(self, data: bytes | bytearray) -> None:
        for frame in self.reader.feed(data):
            if isinstance(frame, spdy.Data):
                self.said[frame.stream_id] = self.said.get(frame.stream_id, b"") + frame.data
                self.ended |= {frame.stream_id} if frame.ends else set()

    async def until(self, enough: Callable[[], bool]) -> None:
        """Read until there is enough, or no more."""
        while not enough() and (data := await self.stream.receive_some()):
            self.hear(data)


@asynccontextmanager
async def executed(node: Node) -> AsyncIterator[Process]:
    """A process asked for by SPDY."""
    token = node.bench.token("ann")
    headers = [
        ("upgrade", "SPDY/3.1"),
        (PROTOCOL_HEADER, f"v5.x, {V4}"),
        ("authorization", f"Bearer {token}"),
    ]
    async with node.connection() as stream:
        told, early = await upgraded(stream, EXEC, headers, "POST")
        assert ("SPDY/3.1", V4) == (told["upgrade"], told["x-stream-protocol-version"])
        process = Process(stream)
        process.hear(early)
        await process.open()
        yield process


async def test_spdy_goes_through_as_it_is(node: Node) -> None:
    async with executed(node) as process:
        await process.stream.send_all(spdy.data(3, b"hello", ends=True))
        await process.until(lambda: 1 in process.ended)

    assert (b"hello", b"done", b'"3"' in process.said[1]) == (process.said[5], process.said[7], True)
    assert {} == node.web_sockets


async def test_ports_are_forwarded_by_spdy_within_a_web_socket(node: Node) -> None:
    async with trio.open_nursery() as nursery:
        port = await nursery.start(echo_server)
        async with node.socket("/portForward/default/web-n1/uid-1", TUNNEL) as socket:
            writer, reader = spdy.FrameWriter(), spdy.FrameReader()
            said = b"".join(
                writer.syn_stream(stream_id, {"streamType": kind, "port": str(port), "requestID": "7"})
                for stream_id, kind in ((1, "error"), (3, "data"))
            )
            said += spdy.data(3, b"hello", ends=True)
            for byte in range(0, len(said), 10):  # messages may begin and end anywhere
                await socket.stream.send_all(masked(BINARY, said[byte : byte + 10]))
            heard, ended = b"", False
            while not ended:
                for frame in reader.feed(await socket.message() or b""):
                    if isinstance(frame, spdy.Data) and frame.stream_id == 3:
                        heard, ended = heard + frame.data, frame.ends
        nursery.cancel_scope.cancel()

    assert b"hello" == heard
    assert [("forward", "sandbox", [])] == node.runtime.asked
    assert {"portforward": 1} == node.web_sockets


async def test_two_hundred_connections_are_forwarded_at_once(node: Node) -> None:
    count, heard, ended = 200, dict[int, bytes](), set[int]()
    async with trio.open_nursery() as nursery:
        port = await nursery.start(echo_server)
        async with node.socket("/portForward/default/web-n1", TUNNEL) as socket:
            writer, reader = spdy.FrameWriter(), spdy.FrameReader()

            async def hear(enough: Callable[[], bool]) -> None:
                while not enough():
                    for frame in reader.feed(await socket.message() or b""):
                        if isinstance(frame, spdy.Data) and frame.stream_id % 4 == 3:
                            heard[frame.stream_id] = heard.get(frame.stream_id, b"") + frame.data
                            ended.update({frame.stream_id} if frame.ends else ())

            for number in range(count):
                named = {"port": str(port), "requestID": str(number)}
                said = writer.syn_stream(4 * number + 1, {"streamType": "error", **named})
                said += writer.syn_stream(4 * number + 3, {"streamType": "data", **named})
                await socket.stream.send_all(masked(BINARY, said + spdy.data(4 * number + 3, b"%d" % number)))
            await hear(lambda: len(heard) == count)
            assert set() == ended  # so they are all there together
            for number in range(count):
                await socket.stream.send_all(masked(BINARY, spdy.data(4 * number + 3, b"!", ends=True)))
            await hear(lambda: len(ended) == count)
        nursery.cancel_scope.cancel()

    assert {4 * number + 3: b"%d!" % number for number in range(count)} == heard


# ---- how it ends ----


async def test_when_the_client_goes_the_process_is_left(node: Node) -> None:
    async with node.socket(EXEC, V5) as socket:
        await socket.say(0, b"hello")
        await socket.message()
    await node.runtime.left.wait()


async def test_when_the_server_goes_down_the_client_is_told(node: Node) -> None:
    async with node.socket(EXEC, V5) as socket:
        await socket.say(0, b"hello")
        await socket.message()
        node.serving.cancel()
        await socket.everything()

        assert (1001, "the node's agent is stopping") == socket.closed


async def test_when_the_server_goes_down_amid_a_command_copied_by_spdy_that_is_a_failure(node: Node) -> None:
    async with executed(node) as process:
        await process.stream.send_all(spdy.data(3, b"hello"))
        await process.until(lambda: 5 in process.said)
        node.serving.cancel()
        await process.until(lambda: 1 in process.ended)

    assert ({1, 3, 5, 7}, b"hello") == (process.ended, process.said[5])
    status = json.loads(process.said[1])
    assert ("Failure", "the node's agent is stopping") == (status["status"], status["message"])


@pytest.mark.parametrize("node", [60], indirect=True)
async def test_the_configured_silence_ends_what_goes_through_this_node(node: Node, mock_clock: MockClock) -> None:
    async with executed(node) as process, node.socket(EXEC, V5) as socket:
        await process.stream.send_all(spdy.data(3, b"hello"))
        await process.until(lambda: 5 in process.said)
        await socket.say(0, b"hello")
        assert [b"\1", b"\1hello"] == [await socket.message(), await socket.message()]
        mock_clock.jump(60)
        await process.until(lambda: 1 in process.ended)
        await socket.everything()

    assert "no data was sent for 60 s" == json.loads(process.said[1])["message"]
    assert (1001, "no data was sent for 60 s") == socket.closed


class Reading(ReadAhead):
    """A stream that calls ``then`` when something was read."""

    then: Callable[[], object] | None = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await super().receive_some(max_bytes)
        if self.then is not None:
            self.then()
        return data


class Copying(NamedTuple):
    """A client, the runtime's end and what we read it by, and what ends the copying."""

    process: Process
    runtime: StapledStream
    reading: Reading
    scope: trio.CancelScope


@asynccontextmanager
async def copied(
    idle: float = 0, pair: Callable[[], tuple[StapledStream, StapledStream]] = memory_stream_pair
) -> AsyncIterator[Copying]:
    """Bytes copied from a client, over such a ``pair``, to a runtime."""
    (near, far), (ours, its) = pair(), memory_stream_pair()
    scope, reading = trio.CancelScope(), Reading(ours, b"")

    async def copy() -> None:
        with scope:
            async with ours, CopiedCommand(far, reading, SPEAKS) as client:
                if await relay(client, client.runtime, idle, client.sender.finishes):
                    await client.has_ended()
                else:
                    client.ends_by_silence(idle)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(copy)
        yield Copying(Process(near), its, reading, scope)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("cut", "told"),
    [(0, {}), (3, {}), (8, {}), (11, {5: b"out"}), (19, {5: b"output"}), (24, {5: b"output", 7: b"er"})],
)
@pytest.mark.parametrize("is_cut_by_us", [True, False])
async def test_the_last_word_comes_after_what_there_was_of_the_frame_under_way(
    autojump_clock: MockClock, cut: int, told: dict[int, bytes], is_cut_by_us: bool
) -> None:
    """However the stream is torn: a client that is told nothing takes the end for a success, and so would kubectl."""
    async with copied() as (process, runtime, _, scope):
        await process.open()
        await runtime.send_all((spdy.data(5, b"output") + spdy.data(7, b"errors"))[:cut])
        await wait_all_tasks_blocked()
        if is_cut_by_us:
            scope.cancel()
        else:
            runtime.send_stream.close()  # type: ignore[attr-defined]
        await process.until(lambda: 1 in process.ended)

    why = GOING_DOWN if is_cut_by_us else UNSAID
    assert ("Failure", why) == itemgetter("status", "message")(json.loads(process.said[1]))
    assert {1, 3, 5, 7} == process.ended
    assert told == {number: said for number, said in process.said.items() if number != 1 and said}


async def test_what_was_read_when_the_end_came_is_reported_before_the_last_word(autojump_clock: MockClock) -> None:
    async with copied() as (process, runtime, reading, scope):
        await process.open()
        await runtime.send_all(spdy.data(5, b"first"))
        await wait_all_tasks_blocked()
        reading.then = scope.cancel
        await runtime.send_all(spdy.data(5, b"second")[:11])
        await process.until(lambda: 1 in process.ended)

    assert (b"firstsec", "Failure") == (process.said[5], json.loads(process.said[1])["status"])


@pytest.mark.parametrize(("is_cut_by_us", "seconds"), [(True, 1), (False, 30)])
async def test_a_client_that_does_not_leave_delays_the_end_by_a_second_if_it_is_ours_and_by_half_a_minute_otherwise(
    autojump_clock: MockClock, is_cut_by_us: bool, seconds: float
) -> None:
    """Its data may still be in transit, and a ping to a closed socket would discard it."""
    async with copied() as (process, runtime, _, scope):
        await process.open()
        await runtime.send_all(spdy.data(5, b"output"))
        await wait_all_tasks_blocked()
        if is_cut_by_us:
            scope.cancel()
        else:
            await runtime.send_all(spdy.data(1, b"{}", ends=True))
            runtime.send_stream.close()  # type: ignore[attr-defined]
        await process.until(lambda: False)

        assert seconds == trio.current_time()
        assert b"output" == process.said[5]


async def test_client_with_a_status_gets_no_second_one_when_the_agent_stops(
    autojump_clock: MockClock,
) -> None:
    async with copied() as (process, runtime, _, scope):
        await process.open()
        await wait_all_tasks_blocked()
        await runtime.send_all(spdy.data(1, b"{}", ends=True))
        runtime.send_stream.close()  # type: ignore[attr-defined]
        await process.until(lambda: 1 in process.ended)
        await trio.sleep(0.5)
        scope.cancel()
        await process.until(lambda: False)

        assert {1: b"{}"} == process.said


async def test_client_that_leaves_with_its_status_is_not_waited_for(autojump_clock: MockClock) -> None:
    async with copied() as (process, runtime, *_):
        await process.open()
        await wait_all_tasks_blocked()
        await runtime.send_all(spdy.data(5, b"output") + spdy.data(1, b"{}", ends=True))
        runtime.send_stream.close()  # type: ignore[attr-defined]
        await process.until(lambda: 1 in process.ended)
        await process.stream.send_eof()  # type: ignore[attr-defined]
        await process.until(lambda: False)

        assert 0 == trio.current_time()
        assert {5: b"output", 1: b"{}"} == process.said


async def test_slow_reader_gets_the_send_in_progress_and_the_closing_message(
    autojump_clock: MockClock,
) -> None:
    async with copied(pair=lockstep_stream_pair) as (process, runtime, _, scope):
        await process.open()
        await runtime.send_all(spdy.data(5, bytes(10_000)))
        process.hear(await process.stream.receive_some(1024))
        await wait_all_tasks_blocked()
        scope.cancel()
        while 1 not in process.ended and (data := await process.stream.receive_some(1024)):
            process.hear(data)
            await trio.sleep(0.05)

    assert "the node's agent is stopping" == json.loads(process.said[1])["message"]
    assert bytes(10_000) == process.said[5]


@pytest.mark.parametrize("taken", [0, 1024, 9999])
async def test_non_reading_client_delays_the_end_by_a_second(autojump_clock: MockClock, taken: int) -> None:
    async with copied(pair=lockstep_stream_pair) as (process, runtime, _, scope):
        await process.open()
        await runtime.send_all(spdy.data(5, bytes(10_000)))
        await wait_all_tasks_blocked()
        scope.cancel()
        begun = trio.current_time()
        await trio.sleep(0.5)
        if taken:
            await process.stream.receive_some(taken)
        while await runtime.receive_some():
            pass

        assert 1 == trio.current_time() - begun


OPENING = spdy.FrameWriter().syn_stream(1, {"streamType": "error"})


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"no SPDY, but sixteen and more",
        spdy.data(3, b"too early"),
        spdy.data(3, b"") * (OPENING_BYTES_MAX // 8) + OPENING,  # too late: not all is read for a stream's opening
        spdy.data(3, bytes(OPENING_BYTES_MAX)) + OPENING,
    ],
)
async def test_client_without_an_error_stream_gets_no_status(autojump_clock: MockClock, first: bytes) -> None:
    async with copied(60) as (process, *_):
        if first:
            await process.stream.send_all(first)
        await process.until(lambda: False)
        assert 60 == trio.current_time()
        assert {} == process.said


async def test_a_client_that_has_ended_it_gets_no_last_word(autojump_clock: MockClock) -> None:
    async with copied() as (process, *_):
        await process.open()
        await wait_all_tasks_blocked()
        await process.stream.send_eof()  # type: ignore[attr-defined]
        await process.until(lambda: False)

    assert {} == process.said


@asynccontextmanager
async def translated(streams: StandardStreams, idle: float = 0) -> AsyncIterator[tuple[Socket, trio.StapledStream]]:
    """A client, and the runtime's end."""
    (near, far), (ours, its) = memory_stream_pair(), memory_stream_pair()

    async def translate() -> None:
        async with ours, WebSocket(far) as client:
            await RemoteCommand(client, ours, streams).translate(idle)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(translate)
        socket = Socket(near)
        assert b"\1" == await socket.message()
        yield socket, its
        nursery.cancel_scope.cancel()


async def test_a_web_socket_that_is_cancelled_amid_a_message_tells_its_rest_and_the_end(
    autojump_clock: MockClock,
) -> None:
    (near, far), (ours, its) = lockstep_stream_pair(), memory_stream_pair()
    socket, scope = Socket(near), trio.CancelScope()

    async def translate() -> None:
        with scope:
            async with WebSocket(far) as client:
                await RemoteCommand(client, ours, SPEAKS).translate(0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(translate)
        assert b"\1" == await socket.message()
        await its.send_all(spdy.data(5, bytes(10_000)))
        socket.held = bytes(await near.receive_some(1))
        await wait_all_tasks_blocked()
        scope.cancel()

        assert {1: bytes(10_000)} == await socket.everything()
        assert (1001, "the node's agent is stopping") == socket.closed


async def test_frames_that_say_nothing_are_read_a_few_thousand_at_a_time(autojump_clock: MockClock) -> None:
    """Each takes a moment, which is not for others to wait for: between two readings it is their turn."""
    near, far = memory_stream_pair()
    client, empty = WebSocket(far), masked(BINARY, b"")
    await near.send_all(empty * 20_000)
    await near.send_eof()
    read = []
    while pieces := await client.pieces():
        read.append(len(pieces))

    assert 20_000 == sum(read)
    assert max(read) <= READ_BYTES // len(empty) + 1


async def test_a_conversation_in_which_nothing_is_said_is_ended(autojump_clock: MockClock) -> None:
    async with translated(SPEAKS, idle=60) as (socket, runtime):
        for _ in range(3):
            await trio.sleep(59)
            await socket.say(0, b"x")
            await trio.sleep(59)
            await runtime.send_all(spdy.data(5, b"y"))
        begun = trio.current_time()
        await trio.sleep(30)
        await runtime.send_all(spdy.ping(2))
        await socket.everything()

        assert (1001, "no data was sent for 60 s") == socket.closed
        assert 60 == trio.current_time() - begun


async def test_copied_bytes_end_by_silence_or_by_either_end(autojump_clock: MockClock) -> None:
    (near, far), (ours, its) = memory_stream_pair(), memory_stream_pair()
    assert not await relay(far, ours, 60)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay, far, ours, 60)
        await near.send_all(b"hello")
        assert b"hello" == await its.receive_some()
        await its.aclose()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "without saying how the process ended"),
        (spdy.rst_stream(1), "without saying how the process ended"),
        (spdy.data(1, b"", ends=True), "without saying how the process ended"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 2, "without saying"),
        (b"\x80\x02\x00\x01\0\0\0\0", "does not speak SPDY/3.1"),
        (spdy.data(1, b"x" * (STATUS_BYTES_MAX + 1)), "does not speak SPDY/3.1: a status of more than 65536 bytes"),
    ],
)
async def test_a_runtime_that_ends_without_a_status_is_an_error(
    autojump_clock: MockClock, said: bytes, why: str
) -> None:
    async with translated(SPEAKS) as (socket, runtime), trio.open_nursery() as nursery:

        async def say() -> None:
            await runtime.send_all(said)
            if said != spdy.rst_stream(1):
                await runtime.send_eof()

        nursery.start_soon(say)
        assert {} == await socket.everything()
        assert socket.closed is not None
        assert 1011 == socket.closed[0]
        assert why in socket.closed[1]


@pytest.mark.parametrize("end", [spdy.data(1, b"", ends=True), spdy.rst_stream(1), b""])
async def test_a_status_counts_however_its_stream_ends(autojump_clock: MockClock, end: bytes) -> None:
    async with translated(SPEAKS) as (socket, runtime):
        await runtime.send_all(spdy.data(5, b"last words") + spdy.data(1, b"{}") + end)
        if not end:
            await runtime.send_eof()

        assert {1: b"last words", 3: b"{}"} == await socket.everything()
        assert (1000, "") == socket.closed


async def test_what_a_runtime_says_last_counts_though_it_takes_no_more(autojump_clock: MockClock) -> None:
    async with translated(SPEAKS) as (socket, runtime):
        runtime.receive_stream.close()  # type: ignore[attr-defined]
        await socket.say(0, b"unwanted")
        await wait_all_tasks_blocked()
        await runtime.send_all(spdy.data(5, b"enough") + spdy.data(1, b"{}", ends=True))

        assert {1: b"enough", 3: b"{}"} == await socket.everything()
    (near, far), (ours, its) = memory_stream_pair(), memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(relay, far, ours, 60)
        its.receive_stream.close()  # type: ignore[attr-defined]
        await near.send_all(b"unwanted")
        await wait_all_tasks_blocked()
        await its.send_all(b"enough")
        assert b"enough" == await near.receive_some()
        await its.send_eof()


async def test_channels_the_client_may_not_write_say_nothing_and_stdin_ends_once(autojump_clock: MockClock) -> None:
    async with translated(StandardStreams(stdin=True, stderr=False)) as (socket, runtime):
        for channel, data in [(1, b"a"), (3, b"b"), (4, b"c"), (9, b"d"), (255, b"\1"), (255, b"\4"), (0, b"")]:
            await socket.say(channel, data)
        await socket.stream.send_all(masked(BINARY, b""))
        await socket.say(0, b"word")
        for _ in range(2):
            await socket.say(255, b"\0")
        await socket.say(0, b"too late")
        await wait_all_tasks_blocked()
        await socket.stream.aclose()
        reader, heard = spdy.FrameReader(), []
        while data := await runtime.receive_some():
            heard += [frame for frame in reader.feed(data) if isinstance(frame, spdy.Data)]

    assert [spdy.Data(3, b"word", False), spdy.Data(3, b"", True)] == heard


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (masked(BINARY | 0x40, b"\0x"), 1002),
        (masked(3, b"x"), 1002),
        (masked(0, b"x"), 1002),
        (masked(BINARY, b"\0x", final=False) + masked(BINARY, b"\0x"), 1002),
        (masked(PING, b"x" * 126), 1002),
        (masked(PING, b"x", final=False), 1002),
        (b"\x82\xff\x80" + bytes(7) + b"mask", 1002),
        (masked(CLOSE, b"\3"), 1002),
        (masked(CLOSE, b"\3\xed"), 1002),
        (masked(CLOSE, b"\3\xe8\xff"), 1002),
        (b"GET / HTTP/1.1\r\n\r\n", 1002),
        (masked(CLOSE, b""), 1000),
        (masked(CLOSE, b"\3\xe9bye") + masked(BINARY, b"\0late"), 1000),
    ],
)
async def test_a_client_is_told_what_its_end_came_of(autojump_clock: MockClock, said: bytes, code: int) -> None:
    async with translated(SPEAKS) as (socket, runtime):
        await socket.stream.send_all(said)
        await socket.everything()
        assert socket.closed is not None
        assert code == socket.closed[0]
        reader, heard = spdy.FrameReader(), []
        while data := await runtime.receive_some():
            heard += [frame for frame in reader.feed(data) if isinstance(frame, spdy.Data)]

    assert b"late" not in b"".join(frame.data for frame in heard)


async def test_pings_are_answered_while_both_sides_speak(autojump_clock: MockClock) -> None:
    async with translated(SPEAKS) as (socket, runtime):
        parts = [b"\0a", b"b" * 70_000, b"c"]
        for number, part in enumerate(parts):
            opcode, final = (BINARY if number == 0 else 0), number == len(parts) - 1
            await socket.stream.send_all(masked(opcode, part, final=final) + masked(PING, b"%d" % number))
        await wait_all_tasks_blocked()
        await runtime.send_all(spdy.data(5, b"out") + spdy.data(1, b"{}", ends=True))
        assert {1: b"out", 3: b"{}"} == await socket.everything()
        assert [b"0", b"1", b"2"] == socket.pongs
        reader, heard = spdy.FrameReader(), b""
        while data := await runtime.receive_some():
            heard += b"".join(one.data for one in reader.feed(data) if isinstance(one, spdy.Data))

    assert b"a" + b"b" * 70_000 + b"c" == heard


async def test_a_runtime_that_pings_while_it_takes_no_input_is_read_on(autojump_clock: MockClock) -> None:
    """It may wait for us to take its output, and take its input only then."""
    (near, far), (ours, its) = memory_stream_pair(), lockstep_stream_pair()
    socket = Socket(near)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(RemoteCommand(WebSocket(far), ours, SPEAKS).translate, 0)
        await its.receive_some()  # its streams are opened
        assert b"\1" == await socket.message()
        await socket.say(0, b"input that is not taken")
        await wait_all_tasks_blocked()
        with trio.fail_after(1):
            await its.send_all(spdy.ping(2))
            await its.send_all(spdy.data(5, b"output"))
            assert b"\1output" == await socket.message()
        nursery.cancel_scope.cancel()


async def test_a_client_that_speaks_no_web_socket_is_told_so(autojump_clock: MockClock) -> None:
    async with translated(SPEAKS) as (socket, _):
        await socket.stream.send_all(b"\x82\x01a")
        await socket.everything()

    assert (1002, "a client's frame that is not masked") == socket.closed


async def test_non_reading_client_slows_the_runtime_without_buffering(autojump_clock: MockClock) -> None:
    (near, far), (ours, its) = lockstep_stream_pair(), lockstep_stream_pair()
    socket, sent = Socket(near), 0

    async def speak() -> None:
        nonlocal sent
        for _ in range(20):
            await its.send_all(spdy.data(5, b"x" * 50_000))
            sent += 1
        await its.send_all(spdy.data(1, b"{}", ends=True))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(RemoteCommand(WebSocket(far), ours, SPEAKS).translate, 0)
        assert b"" != await its.receive_some()  # its streams are opened
        assert b"\1" == await socket.message()
        nursery.start_soon(speak)
        await wait_all_tasks_blocked()
        assert 2 >= sent
        told = b""
        while len(told) < 20 * 50_000:
            told += (await socket.message() or b"")[1:]
        nursery.cancel_scope.cancel()
