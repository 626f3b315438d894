"""The names of Kubernetes' protocols for talking to a process, over WebSocket and over SPDY, and what one wants of it.

Over WebSocket each message begins with the number of its channel; over SPDY each stream says in a header what it is.
Version 5 is version 4 with a way to end stdin while the rest goes on, which SPDY had from the beginning. The error
stream says, last, how the process ended: a ``Status`` as JSON. (upstream-behaviour.md §1.21; the names are those of
k8s.io/apimachinery's remotecommand and portforward.)
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from trikubelet.model.standard_streams import StandardStreams

if TYPE_CHECKING:
    from collections.abc import Mapping

SPDY: Final = "SPDY/3.1"
PROTOCOL_HEADER: Final = "x-stream-protocol-version"
"""Over SPDY: what the client offers, and what the server takes of it."""

V4: Final = "v4.channel.k8s.io"
V5: Final = "v5.channel.k8s.io"
PORT_FORWARD: Final = "portforward.k8s.io"
TUNNEL: Final = f"{SPDY}+{PORT_FORWARD}"
"""Over WebSocket: the bytes of a SPDY connection, in binary messages."""

STREAM_TYPE: Final = "streamtype"
CLOSE_CHANNEL: Final = 255
"""Version 5: the client says no more on the channel whose number follows."""


class StreamChannel(IntEnum):
    """A message's first byte."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4

    @property
    def stream_type(self) -> str:
        """What the channel is called over SPDY."""
        return self.name.lower()


def channels(streams: StandardStreams) -> tuple[StreamChannel, ...]:
    """Of what is wanted, the channels there are, in the order in which clients open streams for them."""
    found = [StreamChannel.ERROR]
    if streams.stdin:
        found.append(StreamChannel.STDIN)
    if streams.stdout:
        found.append(StreamChannel.STDOUT)
    if streams.stderr:
        found.append(StreamChannel.STDERR)
    if streams.tty:
        found.append(StreamChannel.RESIZE)
    return tuple(found)


def wanted_streams(query: Mapping[str, str], *, tty: bool) -> StandardStreams:
    """What the API server's request asks for, of a process with a terminal or without. Raises ValueError when that is
    nothing."""
    stdin, stdout, stderr = (query.get(name) == "1" for name in ("input", "output", "error"))
    if not (stdin or stdout or stderr):
        raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
    return StandardStreams(stdin, stdout, stderr and not tty, tty)


def failure(message: str) -> dict[str, Any]:
    """The ``Status`` of a process of which it is not known how it ended, or whether."""
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}


def spdy_headers(protocol: str) -> tuple[tuple[str, str], ...]:
    """The headers with which a client asks for SPDY and a protocol within it, or a server takes both."""
    return (("connection", "Upgrade"), ("upgrade", SPDY), (PROTOCOL_HEADER, protocol))
