"""Conversations with the node's API that begin as they should and are then damaged, each from a seed and its number.

    templates ─► one, two or three requests, or an upgrade and what is spoken after it ─► damage ─► pieces to be sent

The same seed and number make the same bytes, so one that did harm can be had again alone. Used by ``test_http_fuzz``
and, at length and against a real process, by bench/http_fuzz.py.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core import spdy
from trikubelet.core.remote_command import TUNNEL, V4, V5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATHS = (
    "/",
    "/healthz",
    "/healthz/ping",
    "/pods",
    "/runningpods/",
    "/configz",
    "/metrics",
    "/metrics/probes",
    "/metrics/slis",
    "/metrics/resource",
    "/metrics/cadvisor",
    "/stats/summary?only_cpu_and_memory=true",
    "/statusz",
    "/flagz",
    "/debug/pprof",
    "/debug/pprof/goroutine",
    "/logs/",
    "/logs/pods/../..",
    "/logs/?query=/0.log&tailLines=3&pattern=x",
    "/checkpoint/default/{pod}/{container}",
    "/containerLogs/default/{pod}/{container}",
    "/containerLogs/default/{pod}/{container}?follow=true&tailLines=10&timestamps=true&limitBytes=100",
    "/containerLogs/default/{pod}/{container}?sinceTime=2026-11-21T11:59:00Z&stream=stderr&previous=true",
    "/run/default/{pod}/{container}?cmd=ls%20-l",
    "/nothing",
)
STREAMS = (
    "/exec/default/{pod}/{container}?command=cat&input=1&output=1&error=1",
    "/exec/default/{pod}/{container}?command=sh&command=-c&command=true&input=1&output=1&tty=1",
    "/attach/default/{pod}/{container}?input=1&output=1",
    "/portForward/default/{pod}?port=80",
)
METHODS = ("GET",) * 6 + ("POST",) * 3 + ("HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT", "PRI")
PROTOCOLS = (V5, V4, "channel.k8s.io", "base64.channel.k8s.io", TUNNEL, "portforward.k8s.io", "")
WORDS = (
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b" ", b":", b"\xff\xfe", b"\xe2\x80\xae"),
    *(b"%00", b"%2f", b"/../", b"//", b"?", b"#", b"*", b"http://n/", b"HTTP/1.0", b"HTTP/2.0"),
    *(b"content-length: 5\r\n", b"Content-Length: 0\r\n", b"expect: 100-continue\r\n", b"host: n\r\n"),
    *(b"transfer-encoding: chunked\r\n", b"Transfer-Encoding: x\r\n", b" folded\r\n"),
    *(b"connection: close\r\n", b"connection: upgrade\r\n", b"upgrade: websocket\r\n", b"upgrade: SPDY/3.1\r\n"),
    *(b"sec-websocket-key: x\r\n", b"sec-websocket-version: 8\r\n"),
    *(b"GET /pods HTTP/1.1\r\nhost: n\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    *(b"0\r\n\r\n", b"ffffffffffffffffffff\r\n", b"-1", b"99999999999999999999", b"2147483648", b"1e9"),
    *(b"\x81\x00", b"\x82" + b"\xff" * 9, b"\x88\x80\0\0\0\0", b"\x80\x03\x00\x01", b"\x16\x03\x01"),
)


@dataclass(frozen=True)
class Target:
    """Whom to ask about: a pod and a container that there are, and a header that proves who asks, or none."""

    pod: str
    container: str
    proof: str = ""


def conversation(seed: int, number: int, target: Target) -> tuple[bytes, ...]:
    """The pieces in which one is sent."""
    chance = random.Random(f"{seed}/{number}")
    said = _upgraded(chance, target) if chance.random() < 0.3 else _requests(chance, target)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 5, 8))):
        said = chance.choice(_DAMAGES)(chance, said)
    return tuple(_cut(chance, said))


def _requests(chance: random.Random, target: Target) -> bytes:
    return b"".join(_request(chance, target) for _ in range(chance.choice((1, 1, 1, 2, 3))))


def _request(chance: random.Random, target: Target) -> bytes:
    path = chance.choice(PATHS + STREAMS).format(pod=target.pod, container=target.container)
    lines = [f"{chance.choice(METHODS)} {path} HTTP/1.1", "host: n", "accept: */*"]
    lines += [target.proof] if target.proof and chance.random() < 0.8 else []
    body = chance.randbytes(chance.choice((0, 0, 1, 5, 100))) if chance.random() < 0.5 else b""
    if body and chance.random() < 0.5:
        lines.append("transfer-encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    elif body:
        lines.append(f"content-length: {len(body)}")
    if chance.random() < 0.2:
        lines.append("expect: 100-continue")
    return _head(lines) + body


def _upgraded(chance: random.Random, target: Target) -> bytes:
    path = chance.choice(STREAMS).format(pod=target.pod, container=target.container)
    lines = [f"{chance.choice(('GET', 'GET', 'POST'))} {path} HTTP/1.1", "host: n", "connection: Upgrade"]
    lines += [target.proof] if target.proof and chance.random() < 0.9 else []
    if chance.random() < 0.3:
        protocol = chance.choice((V4, "portforward.k8s.io", "v9"))
        return _head([*lines, "upgrade: SPDY/3.1", f"x-stream-protocol-version: {protocol}"]) + _spdy(chance)
    offered = [chance.choice(PROTOCOLS) for _ in range(chance.randint(0, 3))]
    if chance.random() < 0.2:
        offered.append("base64url.bearer.authorization.k8s.io.bWFkZS11cA")
    lines += ["upgrade: websocket", "sec-websocket-version: 13", f"sec-websocket-protocol: {', '.join(offered)}"]
    lines.append(f"sec-websocket-key: {base64.b64encode(chance.randbytes(16)).decode()}")
    return _head(lines) + b"".join(_frame(chance) for _ in range(chance.randint(0, 6)))


def _head(lines: list[str]) -> bytes:
    return "\r\n".join((*lines, "", "")).encode()


def _frame(chance: random.Random) -> bytes:
    """A client's WebSocket frame, in its beginning as a rule what it should be."""
    first = chance.choice((0x82, 0x82, 0x82, 0x81, 0x02, 0x00, 0x80, 0x89, 0x8A, 0x88, 0x08, 0xC2, 0x83))
    data = chance.choice((b"\0", b"\xff\0", b'\4{"Width":80}', b"\0\x50", b"")) + chance.randbytes(
        chance.choice((0, 3, 200))
    )
    data = _spdy(chance) if chance.random() < 0.2 else data
    mask, size = chance.randbytes(4), len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([first]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


def _spdy(chance: random.Random) -> bytes:
    writer, said = spdy.FrameWriter(), b""
    for number in range(chance.randint(0, 5)):
        kind = chance.choice(("error", "stdin", "stdout", "data", "resize", ""))
        said += writer.syn_stream(2 * number + 1, {"streamtype": kind, "port": "80", "requestid": str(number)})
        said += spdy.data(2 * number + 1, chance.randbytes(chance.choice((0, 2, 50))), ends=chance.random() < 0.3)
    return said + chance.choice((b"", spdy.ping(1), spdy.go_away(1), spdy.rst_stream(1)))


# ---- damage ----


def _flip(chance: random.Random, said: bytes) -> bytes:
    at = chance.randrange(len(said) or 1)
    return said[:at] + bytes([chance.randrange(256)]) + said[at + 1 :]


def _leave_out(chance: random.Random, said: bytes) -> bytes:
    at = chance.randrange(len(said) or 1)
    return said[:at] + said[at + chance.choice((1, 2, 4, 20, 100)) :]


def _say_again(chance: random.Random, said: bytes) -> bytes:
    at = chance.randrange(len(said) or 1)
    some = said[at : at + chance.choice((1, 4, 20, 100))]
    return said[:at] + some * chance.choice((2, 2, 2, 10, 300)) + said[at + len(some) :]


def _put_in(chance: random.Random, said: bytes) -> bytes:
    at = chance.randrange(len(said) or 1)
    return said[:at] + chance.choice(WORDS) + said[at:]


def _put_in_line(chance: random.Random, said: bytes) -> bytes:
    """Where a line begins, as a header would."""
    at = said.find(b"\n", chance.randrange(len(said) or 1)) + 1
    return said[:at] + chance.choice(WORDS) + said[at:]


def _lines(chance: random.Random, said: bytes) -> bytes:
    at = said.find(b"\n") + 1
    return (
        said[:at] + chance.choice((b"a:\r\n", b"x-y: z\r\n", b"\n")) * chance.choice((10, 900, 1100, 5000)) + said[at:]
    )


def _blow_up(chance: random.Random, said: bytes) -> bytes:
    at = chance.randrange(len(said) or 1)
    return (
        said[:at]
        + chance.choice((b"a", b"%", b"&", b",", b"\0", b";")) * chance.choice((300, 5000, 70_000))
        + said[at:]
    )


def _break_off(chance: random.Random, said: bytes) -> bytes:
    return said[: chance.randrange(len(said) or 1)]


def _newlines(chance: random.Random, said: bytes) -> bytes:
    return said.replace(b"\r\n", chance.choice((b"\n", b"\r", b"\n\r", b"\r\r\n")), chance.randint(1, 5))


_DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_flip, _flip, _leave_out, _say_again, _put_in, _put_in, _put_in_line, _put_in_line, _put_in_line),
    *(_lines, _blow_up, _break_off, _newlines),
)


def _cut(chance: random.Random, said: bytes) -> Iterator[bytes]:
    size = chance.choice((len(said), len(said), 1000, 100, 7))
    size = max(1, size, len(said) // 50)
    for at in range(0, len(said), size):
        yield said[at : at + size]
