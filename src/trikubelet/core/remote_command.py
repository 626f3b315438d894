"""The names in Kubernetes' protocols for streams to a process, over WebSocket and over SPDY.

Over WebSocket each message begins with the number of its channel; over SPDY each stream has its type in a header.
Version 5 is version 4 with a way to end stdin while the rest continues, which SPDY always had. Last, the error stream
carries the exit of the process: a ``Status`` as JSON. (upstream-behaviour.md §1.21; the names are those of
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
"""Over SPDY: the client's versions, and the one that the server chooses."""

V4: Final = "v4.channel.k8s.io"
V5: Final = "v5.channel.k8s.io"
PORT_FORWARD: Final = "portforward.k8s.io"
TUNNEL: Final = f"{SPDY}+{PORT_FORWARD}"
"""Over WebSocket: the bytes of a SPDY connection, in binary messages."""

STREAM_TYPE: Final = "streamtype"
CLOSE_CHANNEL: Final = 255
"""Version 5: the client ends the channel whose number follows."""


class StreamChannel(IntEnum):
    """A message's first byte."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4

    @property
    def stream_type(self) -> str:
        """The channel's name over SPDY."""
        return self.name.lower()


def channels(streams: StandardStreams) -> tuple[StreamChannel, ...]:
    """Return the channels for these streams, in the order in which clients open them."""
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
    """Return the streams that the API server's request names, for a process with or without a terminal. Raises
    ValueError if it names none."""
    stdin, stdout, stderr = (query.get(name) == "1" for name in ("input", "output", "error"))
    if not (stdin or stdout or stderr):
        raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
    return StandardStreams(stdin, stdout, stderr and not tty, tty)


def failure(message: str) -> dict[str, Any]:
    """Return the ``Status`` of a process whose end is unknown."""
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}


def spdy_headers(protocol: str) -> tuple[tuple[str, str], ...]:
    """Return the headers with which a client requests SPDY and a protocol within it, or a server accepts both."""
    return (("connection", "Upgrade"), ("upgrade", SPDY), (PROTOCOL_HEADER, protocol))
