"""Damaged conversations with the node's API: whatever is said, it is answered in HTTP or not at all, nothing fails
inside, nobody waits, and nobody is let in. The long run of it, over TLS to a real process, is bench/http_fuzz.py.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import memory_stream_pair

from shell.httpfuzzkit import Target, conversation
from shell.localkit import pod
from shell.nodeapikit import Bench, rules
from shell.server.test_streams import Runtime
from trikubelet.app.node_api import LIMITS
from trikubelet.httpd.connection import HttpConnection
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.streaming.server import StreamingServer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trikubelet.httpd.messages import Handler
    from trikubelet.streaming.process import Talk

CONVERSATIONS = 1000
SEED = 1
ANN = "authorization: Bearer token-of-ann"


class Listening(Runtime):
    """Processes that say back what they are told, whatever streams they have."""

    async def talk(self, talk: Talk) -> int:
        while talk.stdin is not None and (data := await talk.stdin.receive_some()):
            if talk.stdout is not None:
                await talk.stdout.send_all(data)
        return 0

    async def checkpoint_container(self, *_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeFailure("not implemented")


async def told_to(handler: Handler, pieces: Iterable[bytes]) -> bytes:
    """All that is said to a client that says this and then no more."""
    near, far = memory_stream_pair()
    heard = bytearray()

    async def speak() -> None:
        try:
            for piece in pieces:
                await near.send_all(piece)
            await near.send_eof()
        except trio.BrokenResourceError:
            pass  # the server has heard enough

    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpConnection(far, handler, LIMITS).run)
        nursery.start_soon(speak)
        with trio.fail_after(20):
            async for data in near:
                heard += data
    return bytes(heard)


@pytest.mark.parametrize("proof", [ANN, "authorization: Bearer made-up"])
async def test_no_conversation_does_harm(tmp_path: Path, proof: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "0.log").write_text("2026-11-21T11:58:00Z stdout F one\n")
    bench = Bench(tmp_path)
    bench.view.shown = [pod()]
    bench.view.logs = {("default", "web-n1", "app", False): str(tmp_path / "0.log")}
    bench.token("ann")
    target, statuses = Target("web-n1", "app", proof), set()
    async with trio.open_nursery() as nursery:
        bench.runtime = Listening(StreamingServer(nursery))  # type: ignore[assignment]
        gate = bench.gate(rules("AlwaysAllow"))
        for number in range(CONVERSATIONS):
            told = await told_to(gate.answer, conversation(SEED, number, target))
            assert told == b"" or told.startswith(b"HTTP/1.1 "), (number, told[:200])
            statuses |= set(re.findall(rb"^HTTP/1\.1 (\d{3}) ", told))
            failed = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
            assert [] == failed, number
        nursery.cancel_scope.cancel()

    refusals = {b"400", b"413", b"414", b"431", b"501", b"505"}
    if proof == ANN:
        assert {b"101", b"200", b"404", b"405", *refusals} - {b"413", b"414", b"505"} <= statuses
    else:
        assert statuses <= {b"100", b"401", *refusals}
