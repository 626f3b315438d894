"""One contract for talking to what runs, behind the three URLs of ``ports.Runtime``: what the node's server relies on.

The client is the node's own translator, so that a WebSocket of version 5 is what is tested against each runtime; ports
are forwarded over bare SPDY. ``EchoContract`` holds for every runtime with a streaming server, also where nothing runs:
there a process and a port are echoes. ``ProcessContract`` is for those that run programs.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import memory_stream_pair

from shell.websocketkit import Socket
from trikubelet.core import spdy
from trikubelet.core.remote_command import PORT_FORWARD, V4, spdy_headers
from trikubelet.model.runtime_errors import RuntimeCallError
from trikubelet.model.standard_streams import StandardStreams
from trikubelet.server.remote_command import RemoteCommand
from trikubelet.server.runtime_stream import Declined, open_runtime_stream
from trikubelet.server.web_socket import WebSocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from contract.runtime_suite import Subject

WAIT_SECONDS_MAX = 60
SPEAKS = StandardStreams(stdin=True)
LISTENS = StandardStreams(stdin=False)
TERMINAL = StandardStreams(stdin=True, stderr=False, tty=True)


@asynccontextmanager
async def talking(url: str, streams: StandardStreams) -> AsyncIterator[Socket]:
    """A client of what is behind a URL."""
    near, far = memory_stream_pair()
    with trio.fail_after(WAIT_SECONDS_MAX):
        async with open_runtime_stream(url, "POST", spdy_headers(V4)) as runtime, trio.open_nursery() as nursery:

            async def translate() -> None:
                async with WebSocket(far) as client:
                    await RemoteCommand(client, runtime.stream, streams).translate(0)

            nursery.start_soon(translate)
            yield Socket(near)
            await near.aclose()


async def told(url: str, streams: StandardStreams, said: bytes = b"") -> tuple[bytes, bytes, dict[str, Any]]:
    """Return the output of a process behind a URL for some input: stdout, stderr and status."""
    async with talking(url, streams) as socket:
        found: dict[int, bytes] = {}

        async def listen() -> None:
            found.update(await socket.everything())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            with suppress(trio.BrokenResourceError):  # it may have ended by itself
                for at in range(0, len(said), 50_000):
                    await socket.say(0, said[at : at + 50_000])
                if streams.stdin:
                    await socket.say(255, b"\0")
        assert (1000, "") == socket.closed
        return found.get(1, b""), found.get(2, b""), json.loads(found[3])


async def nobody(asked: Awaitable[str]) -> None:
    """No URL is given for what does not run; or, where the runtime looks only at who comes (CRI-O), a failure is."""
    with suppress(RuntimeCallError):
        assert "Failure" == (await told(await asked, LISTENS))[2]["status"]


async def forwarded(url: str, port: int, said: bytes) -> tuple[bytes, bytes]:
    """Return the answer of a port behind a URL, and its connection's error."""
    heard = {1: b"", 3: b""}
    over: set[int] = set()
    with trio.fail_after(WAIT_SECONDS_MAX):
        async with open_runtime_stream(url, "POST", spdy_headers(PORT_FORWARD)) as runtime:
            writer, reader = spdy.FrameWriter(), spdy.FrameReader()
            for stream_id, kind in ((1, "error"), (3, "data")):
                headers = {"streamType": kind, "port": str(port), "requestID": "0"}
                await runtime.stream.send_all(writer.syn_stream(stream_id, headers))
            await runtime.stream.send_all(spdy.data(1, b"", ends=True))
            await runtime.stream.send_all(spdy.data(3, said) + spdy.data(3, b"", ends=True) + spdy.ping(1))
            pinged = False
            while over < {1, 3} or not pinged:
                for frame in reader.feed(await runtime.stream.receive_some()):
                    if isinstance(frame, spdy.Data):
                        heard[frame.stream_id] += frame.data
                    if isinstance(frame, spdy.Rst) or (isinstance(frame, spdy.Data) and frame.ends):
                        over.add(frame.stream_id)
                    pinged = pinged or frame == spdy.Ping(1)
    return heard[3], heard[1]


class EchoContract:
    """What every runtime with a streaming server does."""

    async def test_a_process_hears_all_that_is_said_and_its_end(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stoppable)
        said = bytes(range(256)) * 4000

        url = await subject.runtime.exec_url(container_id, ["cat"], SPEAKS)
        out, err, status = await told(url, SPEAKS, said)

        assert (said, b"", "Success") == (out, err, status["status"])

    async def test_a_url_is_good_once(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stoppable)
        url = await subject.runtime.exec_url(container_id, ["cat"], SPEAKS)
        await told(url, SPEAKS)

        with pytest.raises(Declined) as declined:
            async with talking(url, SPEAKS):
                pass
        assert 404 == declined.value.response.status

    async def test_stopped_containers_have_no_streams(self, subject: Subject, clock: object) -> None:
        exited = await subject.started(subject.exits(0))
        await subject.exited(exited)
        sandbox = (await subject.listed_containers())[exited].pod_sandbox_id
        await subject.runtime.stop_sandbox(sandbox)

        for id_ in (exited, "f" * 64):
            await nobody(subject.runtime.exec_url(id_, ["true"], LISTENS))
            await nobody(subject.runtime.attach_url(id_, LISTENS))
        for id_ in (sandbox, "f" * 64):
            with suppress(RuntimeCallError):
                answer, error = await forwarded(await subject.runtime.port_forward_url(id_, []), 1, b"hello")
                assert (b"", True) == (answer, bool(error))

    async def test_a_port_answers(self, subject: Subject, clock: object) -> None:
        sandbox = await subject.sandbox()
        async with trio.open_nursery() as nursery:
            port = await nursery.start(echo_server)

            url = await subject.runtime.port_forward_url(sandbox, [])
            assert (b"hello" * 10_000, b"") == await forwarded(url, port, b"hello" * 10_000)
            nursery.cancel_scope.cancel()


class ProcessContract:
    """What every runtime does whose containers are programs."""

    async def test_a_command_says_both_streams_and_how_it_ended(self, subject: Subject, clock: object) -> None:
        container_id = await subject.started(subject.stoppable)

        url = await subject.runtime.exec_url(container_id, ["sh", "-c", "echo out; echo err >&2; exit 9"], LISTENS)
        out, err, status = await told(url, LISTENS)

        assert (b"out\n", b"err\n", "Failure", "NonZeroExitCode") == (out, err, status["status"], status["reason"])
        assert [{"reason": "ExitCode", "message": "9"}] == status["details"]["causes"]

    async def test_a_command_that_cannot_be_run_is_a_failure_that_names_it(
        self, subject: Subject, clock: object
    ) -> None:
        container_id = await subject.started(subject.stoppable)

        url = await subject.runtime.exec_url(container_id, ["no-such-program"], LISTENS)
        _, err, status = await told(url, LISTENS)

        assert "Failure" == status["status"]
        assert "no-such-program" in status["message"] + err.decode()  # CRI-O shows what its runc said, and its code

    async def test_a_terminal_has_the_clients_size_and_its_keys_are_signals(
        self, subject: Subject, clock: object
    ) -> None:
        container_id = await subject.started(subject.stoppable)
        sized = 'until [ "$(stty size)" = "40 100" ]; do sleep 0.05; done'  # the size comes after the beginning
        script = f"trap 'stty size; exit 5' INT; {sized}; echo ready; while :; do sleep 0.05; done"

        url = await subject.runtime.exec_url(container_id, ["sh", "-c", script], TERMINAL)
        async with talking(url, TERMINAL) as socket:
            await socket.say(4, b'{"Width":100,"Height":40}')
            said = b""
            while b"ready" not in said:
                said += (await socket.message() or b"")[1:]
            await socket.say(0, b"\x03")
            rest = await socket.everything()

        assert b"40 100" in rest[1]
        assert '"5"' in rest[3].decode()

    async def test_attached_client_gets_the_output_from_then_on_and_the_end(
        self, subject: Subject, clock: object
    ) -> None:
        talks = "trap 'exit 143' TERM; while :; do echo here; sleep 0.05; done"
        container_id = await subject.started(("sh", "-c", talks))

        url = await subject.runtime.attach_url(container_id, LISTENS)
        async with talking(url, LISTENS) as socket:
            while b"here" not in (await socket.message() or b""):
                pass  # connected, which CRI-O says before it has looked for the container
            await subject.runtime.stop_container(container_id, 5)
            assert "Success" == json.loads((await socket.everything())[3])["status"]

    async def test_nothing_listens_at_a_port_and_that_is_reported(self, subject: Subject, clock: object) -> None:
        sandbox = await subject.sandbox()
        (ears,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = ears.socket.getsockname()[1]
        await ears.aclose()

        answer, error = await forwarded(await subject.runtime.port_forward_url(sandbox, []), port, b"hello")

        assert b"" == answer
        assert str(port).encode() in error


async def echo_server(*, task_status: trio.TaskStatus[int]) -> None:
    """Says back what it is told, to the end of that."""

    async def answer(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data)
        await stream.send_eof()

    (ears,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    task_status.started(ears.socket.getsockname()[1])
    await trio.serve_listeners(answer, [ears])
