"""``trikubelet port-forward POD [LOCAL:]PORT…``: connections to local ports end at ports of a pod.

Each connection has a conversation of its own with the agent, so one that does not read holds up no other.
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.cli import asking, interruptible
from trikubelet.cli.client import AgentClient, AgentObjects
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.terminal import in_lines
from trikubelet.cli.words.port_forward import parser
from trikubelet.core import spdy
from trikubelet.core.remote_command import PORT_FORWARD, STREAM_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Pod

_PORTS: Final = re.compile(r"(?:(\d{0,5}):)?(\d{1,5})")
_BYTES: Final = 32 * 1024
_ERROR_ID, _DATA_ID = 1, 3
CONNECTIONS_MAX: Final = 32
"""At a time; the agent's socket takes twice as many. Others wait for their turn, which is printed."""


def read_ports(said: str) -> tuple[int, int]:
    """The local port, 0 for any, and the pod's. Raises ValueError."""
    found = _PORTS.fullmatch(said)
    local, port = (int(found[1] or 0) if found[1] is not None else int(found[2]), int(found[2])) if found else (0, 0)
    if not (0 < port < 65_536 and local < 65_536):
        raise ValueError(f"{said!r} is neither PORT nor LOCAL:PORT")
    return local, port


def run(argv: Sequence[str]) -> int:
    """Carry out ``port-forward``; the exit code. Raises CommandFailed."""
    args = parser().parse_args(argv)
    interruptible.run(_forward, args)
    return 0


async def _forward(args: argparse.Namespace) -> None:
    agent = asking.agent_of(args)
    pod = await _running_pod(agent, args.namespace, asking.bare_name(args.pod))
    turns = trio.CapacityLimiter(CONNECTIONS_MAX)
    async with trio.open_nursery() as nursery:
        for local, port in args.ports:
            listeners = await _listen(args.address, local)
            nursery.start_soon(trio.serve_listeners, partial(_attend, agent, pod, port, turns), listeners)
            for listener in listeners:
                here = listener.socket.getsockname()
                print(f"Forwarding from {here[0]}:{here[1]} -> {port}", flush=True)


async def _running_pod(agent: AgentClient, namespace: str, name: str) -> Pod:
    """The pod of that name. Raises CommandFailed with kubectl's text for one that does not run: it would otherwise only
    be noticed at the first connection."""
    pod = await asking.pod_named(agent, namespace, name)
    phase = (pod.status.phase if pod.status else "") or "Pending"
    if phase != "Running":
        raise CommandFailed(f"unable to forward port because pod is not running. Current status={phase}")
    return pod


async def _listen(address: str, port: int) -> list[trio.SocketListener]:
    """Raises CommandFailed."""
    try:
        return await trio.open_tcp_listeners(port, host=address)
    except OSError as error:
        raise CommandFailed(f"{address} port {port}: {error.strerror or error}") from error
    except UnicodeError as error:  # what can be no name, which nobody is asked about
        raise CommandFailed(f"{address} port {port}: {error}") from error


async def _attend(
    agent: AgentClient, pod: Pod, port: int, turns: trio.CapacityLimiter, client: trio.SocketStream
) -> None:
    """One connection. What goes wrong with it is printed and costs no other."""
    if not (turns.available_tokens or turns.statistics().tasks_waiting):  # once, until somebody has come in again
        said = f"{turns.total_tokens:g} connections are open; others wait until one of them ends"
        print(f"port {port}: {said}", file=sys.stderr, flush=True)
    meta = pod.metadata
    path = f"/portForward/{meta.namespace}/{meta.name}"
    async with turns:
        try:
            try:
                async with agent.upgraded(path, [("port", str(port))], PORT_FORWARD) as stream:
                    await _Forwarding(client, stream).run(port)
            except AgentObjects:
                await _running_pod(agent, meta.namespace, meta.name)  # one that has ended since is the reason
                raise
        except CommandFailed as error:
            print(f"error: port {port}: {in_lines(str(error))}", file=sys.stderr, flush=True)


class _Forwarding:
    """Owns one connection's two streams: its bytes, and what the runtime has against them."""

    def __init__(self, client: trio.SocketStream, stream: trio.abc.Stream) -> None:
        self._client = client
        self._stream = stream
        self._sending = trio.Lock()
        self._error = bytearray()

    async def run(self, port: int) -> None:
        """Copy until either side ends. Raises CommandFailed with the runtime's message."""
        writer = spdy.FrameWriter()
        said = {"port": str(port), "requestid": "0"}
        opening = writer.syn_stream(_ERROR_ID, {STREAM_TYPE: "error", **said}) + spdy.data(_ERROR_ID, b"", ends=True)
        try:
            await self._send(opening + writer.syn_stream(_DATA_ID, {STREAM_TYPE: "data", **said}))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._inwards)
                await self._outwards()
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, spdy.NotSpdy):
            pass  # either side has gone, and whoever is left sees it
        if self._error:
            raise CommandFailed(self._error.decode(errors="replace").strip())

    async def _send(self, said: bytes) -> None:
        async with self._sending:
            await self._stream.send_all(said)

    async def _inwards(self) -> None:
        while said := await self._client.receive_some(_BYTES):
            await self._send(spdy.data(_DATA_ID, bytes(said)))
        await self._send(spdy.data(_DATA_ID, b"", ends=True))

    async def _outwards(self) -> None:
        reader = spdy.FrameReader()
        while data := await self._stream.receive_some(_BYTES):
            for frame in reader.feed(data):
                match frame:
                    case spdy.Data(stream_id, said, ends) if stream_id == _DATA_ID:
                        await self._client.send_all(said)
                        if ends:
                            return
                    case spdy.Data(stream_id, said, _) if stream_id == _ERROR_ID:
                        self._error += said[:_BYTES]
                    case spdy.Rst(stream_id) if stream_id == _DATA_ID:
                        return
                    case spdy.Ping(number):
                        await self._send(spdy.ping(number))
