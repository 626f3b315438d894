"""``trikubelet port-forward POD [LOCAL:]PORT…``: forward connections to local ports to ports of a pod.

Each connection has its own stream to the agent, so a slow reader delays no other.
"""

from __future__ import annotations

import argparse
import errno
import re
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.cli import asking, interruptible
from trikubelet.cli.client import AgentClient, AgentObjects
from trikubelet.cli.failed import CommandFailed
from trikubelet.cli.terminal import in_lines
from trikubelet.cli.words.port_forward import parser
from trikubelet.core import spdy
from trikubelet.core.names import all_containers
from trikubelet.core.remote_command import PORT_FORWARD, STREAM_TYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.cli.connection import Stream
    from trikubelet.model.k8s import Pod

_PORTS: Final = re.compile(r"(?:(\d{0,5}):)?(\d{1,5}|(?=.*[a-z])[a-z0-9-]{1,15})")
_PORT_MAX: Final = 65_535
_BYTES: Final = 32 * 1024
_ERROR_ID, _DATA_ID = 1, 3
CONNECTIONS_MAX: Final = 32
"""Connections at a time; the agent's socket accepts twice as many. Others wait, and that is printed."""


@dataclass(frozen=True, slots=True)
class Ports:
    """One argument. ``local``: 0 for any free port, None for the pod's; ``port``: a number, or the name of a
    container's port."""

    local: int | None
    port: int | str

    def of(self, pod: Pod) -> tuple[int, int]:
        """Return the local port, 0 for any, and the pod's. Raises CommandFailed for a name that the pod does not
        have."""
        port = self.port if isinstance(self.port, int) else _named(pod, self.port)
        return port if self.local is None else self.local, port


def read_ports(said: str) -> Ports:
    """Return the parsed argument. Raises ValueError."""
    found = _PORTS.fullmatch(said)
    if found is not None:
        local = None if found[1] is None else int(found[1] or 0)
        port = int(found[2]) if found[2].isdecimal() else found[2]
        if (local or 0) <= _PORT_MAX and (isinstance(port, str) or 0 < port <= _PORT_MAX):
            return Ports(local, port)
    raise ValueError(f"{said!r} is neither PORT nor LOCAL:PORT")


def _named(pod: Pod, name: str) -> int:
    """Return the number of a container's named port. Raises CommandFailed."""
    named = {port.name: port.container_port for one in all_containers(pod) for port in one.ports if port.name}
    if name not in named:
        known = f"it has {', '.join(sorted(named))}" if named else "none of its ports has a name: give a number"
        raise CommandFailed(f"pod {pod.metadata.name} has no port named {name!r}; {known}")
    return named[name]


def run(argv: Sequence[str]) -> int:
    """Run ``port-forward`` and return the exit code. Raises CommandFailed."""
    args = parser().parse_args(argv)
    interruptible.run(_forward, args)
    return 0


async def _forward(args: argparse.Namespace) -> None:
    agent = asking.agent_of(args)
    pod = await _running_pod(agent, args.namespace, asking.bare_name(args.pod))
    turns = trio.CapacityLimiter(CONNECTIONS_MAX)
    async with trio.open_nursery() as nursery:
        for ports in args.ports:
            local, port = ports.of(pod)
            listeners = await _listen(args.address, local, port, pod)
            nursery.start_soon(trio.serve_listeners, partial(_attend, agent, pod, port, turns), listeners)
            for listener in listeners:
                here = listener.socket.getsockname()
                print(f"Forwarding from {here[0]}:{here[1]} -> {port}", flush=True)


async def _running_pod(agent: AgentClient, namespace: str, name: str) -> Pod:
    """Return the pod of that name. Raises CommandFailed with kubectl's text if it does not run: otherwise the first
    connection would be the first to fail."""
    pod = await asking.pod_named(agent, namespace, name)
    phase = (pod.status.phase if pod.status else "") or "Pending"
    if phase != "Running":
        raise CommandFailed(f"unable to forward port because pod is not running. Current status={phase}")
    return pod


async def _listen(address: str, local: int, port: int, pod: Pod) -> list[trio.SocketListener]:
    """Listen on a local port for one of the pod. Raises CommandFailed."""
    try:
        return await trio.open_tcp_listeners(local, host=address)
    except OSError as error:
        hint = f" ({_another(local, port, pod)})" if error.errno == errno.EADDRINUSE else ""
        raise CommandFailed(f"{address} port {local}: {error.strerror or error}{hint}") from error
    except UnicodeError as error:  # an invalid name, for which no resolver is queried
        raise CommandFailed(f"{address} port {local}: {error}") from error


def _another(local: int, port: int, pod: Pod) -> str:
    """Return advice about a local port that is in use. If the pod has the host's network, it may be the pod's own."""
    status = pod.status
    is_ours = status is not None and bool(status.pod_ip) and status.pod_ip == status.host_ip
    free = f"write :{port} for any free local port, or LOCAL:{port}"
    if is_ours and local == port:
        return f"the pod's ports are this machine's own, and this may be the pod itself; else {free}"
    return free


async def _attend(
    agent: AgentClient, pod: Pod, port: int, turns: trio.CapacityLimiter, client: trio.SocketStream
) -> None:
    """Serve one connection. Its errors are printed and do not affect the others."""
    if not (turns.available_tokens or turns.statistics().tasks_waiting):  # once, until a connection was accepted again
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
                await _running_pod(agent, meta.namespace, meta.name)  # a pod that has ended since is the reason
                raise
        except CommandFailed as error:
            print(f"error: port {port}: {in_lines(str(error))}", file=sys.stderr, flush=True)


class _Forwarding:
    """Owns one connection's two streams: its bytes, and the runtime's errors."""

    def __init__(self, client: trio.SocketStream, stream: Stream) -> None:
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
        except* (trio.BrokenResourceError, ConnectionError, spdy.NotSpdy):
            pass  # either side has gone, and the other half sees it
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
