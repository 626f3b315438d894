"""A bus that does not do what a bus does is an error in words, in time, and leaves nothing open."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.host.logind import CALL_SECONDS_MAX, Logind
from trikubelet.kit.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from trio.testing import MockClock

    Peer = Callable[[trio.SocketStream], Awaitable[None]]

AGREES = (b"OK 1234deadbeef\r\n", b"AGREE_UNIX_FD\r\n")


async def hangs_up(_: trio.SocketStream) -> None:
    """At once."""


async def says_nothing(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def refuses(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(b"REJECTED EXTERNAL\r\n")
    await trio.sleep_forever()


async def passes_no_files(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(AGREES[0])
    await stream.receive_some()
    await stream.send_all(b"ERROR\r\n")
    await trio.sleep_forever()


async def agrees_and(stream: trio.SocketStream, then: bytes) -> None:
    for words in AGREES:
        await stream.receive_some()
        await stream.send_all(words)
    await stream.receive_some()
    if then:
        await stream.send_all(then)
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        (hangs_up, "does not talk to us any more"),
        (says_nothing, "no answer within 25 s"),
        (refuses, "does not talk to us any more: .*REJECTED"),
        (passes_no_files, "File descriptor support not available"),
        (partial(agrees_and, then=b""), "Hello: the bus does not talk to us any more"),
        (
            partial(agrees_and, then=b"\0" * 64),
            "Hello: the bus does not talk to us any more: what it said is no message",
        ),
        (partial(agrees_and, then=b"l\2\0\1" + b"\xff" * 60), "no answer within 25 s"),
    ],
)
async def test_a_bus_that_is_none_is_an_error_in_time(
    peer: Peer, message: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    address = tmp_path / "bus"
    listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await listener.bind(str(address))
    listener.listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, peer, [trio.SocketListener(listener)])
        logind = Logind(ThreadPool("settings", 1), f"unix:path={address}", tmp_path / "settings")
        with trio.fail_after(CALL_SECONDS_MAX + 1), pytest.raises(OSError, match=message):
            async with logind.connect():
                pytest.fail("it is no bus")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("address", ["unix:path=/nowhere/at/all", "tcp:host=localhost", "nonsense", ""])
async def test_where_there_is_no_bus_that_is_an_error(address: str, tmp_path: Path) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - the system's words, and ours
        async with Logind(ThreadPool("settings", 1), address, tmp_path).connect():
            pytest.fail("there is no bus")
