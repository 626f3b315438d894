"""A bus that does not do what a bus does is an error in words, in time, and leaves nothing open."""

from __future__ import annotations

import itertools
import threading
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from jeepney import DBusAddress, new_error, new_method_return, new_signal
from jeepney.io.trio import DBusConnection
from jeepney.low_level import HeaderFields
from trio.testing import wait_all_tasks_blocked

from trikubelet.host import logind
from trikubelet.host.logind import CALL_SECONDS_MAX, Logind, LogindSession
from trikubelet.kit.disk import DISK_SECONDS_MAX
from trikubelet.kit.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
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
        (hangs_up, "connection to the bus broke"),
        (says_nothing, "no answer within 25 s"),
        (refuses, "connection to the bus broke: .*REJECTED"),
        (passes_no_files, "File descriptor support not available"),
        (partial(agrees_and, then=b""), "Hello: the connection to the bus broke"),
        (
            partial(agrees_and, then=b"\0" * 64),
            "Hello: the connection to the bus broke: received an invalid message",
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
        manager = Logind(ThreadPool("settings", 1), f"unix:path={address}", tmp_path / "settings")
        with trio.fail_after(CALL_SECONDS_MAX + 1), pytest.raises(OSError, match=message):
            async with manager.connect():
                pytest.fail("it is no bus")
        nursery.cancel_scope.cancel()


class Bus:
    """Owns one conversation with a client, as a bus on which logind is ``:1.7``, from the start or once it is asked
    something, and anybody may send anything."""

    def __init__(self, stream: trio.SocketStream, *, has_logind: bool = True) -> None:
        self._connection = DBusConnection(stream.socket, enable_fds=True)
        self._has_logind = has_logind
        self._serials = itertools.count(1)

    async def answer(self) -> str:
        """The next question, answered; which it was."""
        asked = await self._connection.receive()
        member = str(asked.header.fields[HeaderFields.member])
        match member:
            case "Hello":
                reply = new_method_return(asked, "s", (":1.9",))
            case "GetNameOwner" if not self._has_logind:
                reply = new_error(asked, "org.freedesktop.DBus.Error.NameHasNoOwner", "s", ("no such name",))
            case "GetNameOwner":
                reply = new_method_return(asked, "s", (":1.7",))
            case "Get":
                if not self._has_logind:  # a bus says that it has started somebody before that one answers
                    self._has_logind = True
                    bus, started = "org.freedesktop.DBus", ("org.freedesktop.login1", "", ":1.7")
                    await self.signal(bus, bus, "NameOwnerChanged", "sss", started)
                reply = new_method_return(asked, "v", (("b", False),))
            case _:
                reply = new_method_return(asked)
        await self._connection.send(reply)
        return member

    async def signal(self, sender: str, interface: str, member: str, signature: str, body: tuple[object, ...]) -> None:
        """A signal as the bus hands it over: with the name of who has sent it."""
        message = new_signal(DBusAddress("/", interface=interface), member, signature, body)
        message.header.fields[HeaderFields.sender] = sender
        await self._connection.send(message)

    async def announce(self, sender: str, is_shutting_down: bool) -> None:
        """That the machine goes down, or not, as that one says."""
        await self.signal(sender, "org.freedesktop.login1.Manager", "PrepareForShutdown", "b", (is_shutting_down,))


@asynccontextmanager
async def session_on(tmp_path: Path, *, has_logind: bool = True) -> AsyncIterator[tuple[LogindSession, Bus]]:
    """A session that has begun."""
    address = tmp_path / "bus"
    listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await listener.bind(str(address))
    listener.listen()
    made: list[Bus] = []

    async def serve(stream: trio.SocketStream) -> None:
        for words in AGREES:
            await stream.receive_some()
            await stream.send_all(words)
        assert b"BEGIN\r\n" == await stream.receive_some(7)
        made.append(bus := Bus(stream, has_logind=has_logind))
        while await bus.answer():
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [trio.SocketListener(listener)])
        async with Logind(
            ThreadPool("settings", 1), f"unix:path={address}", tmp_path / "settings"
        ).connect() as session:
            yield session, made[0]
            nursery.cancel_scope.cancel()


async def test_only_logind_announces_a_shutdown(tmp_path: Path) -> None:
    async with session_on(tmp_path) as (session, bus):
        await bus.announce(":1.66", True)
        await bus.announce("org.freedesktop.login1", True)
        await bus.signal(":1.66", "org.freedesktop.DBus", "NameOwnerChanged", "sss", ("org.freedesktop.login1", "", ""))
        await bus.announce(":1.7", False)

        with trio.fail_after(60):
            assert False is await session.next()


async def test_logind_started_by_the_first_call_is_trusted(tmp_path: Path) -> None:
    async with session_on(tmp_path, has_logind=False) as (session, bus):
        await bus.announce(":1.66", False)
        await bus.announce(":1.7", True)

        with trio.fail_after(60):
            assert True is await session.next()


async def test_another_logind_is_the_end_of_the_session(tmp_path: Path) -> None:
    async with session_on(tmp_path) as (session, bus):
        other, logind = ("org.freedesktop.systemd1", ":1.1", ":1.2"), ("org.freedesktop.login1", ":1.7", ":1.8")
        for changed in (other, logind):
            await bus.signal("org.freedesktop.DBus", "org.freedesktop.DBus", "NameOwnerChanged", "sss", changed)

        with trio.fail_after(60), pytest.raises(ConnectionError, match="systemd-logind was restarted"):
            await session.next()


async def test_a_disk_that_hangs_does_not_keep_the_session_from_what_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """On a clock that stands still until the disk hangs: a thread may begin late."""
    hangs, release = threading.Event(), threading.Event()

    def hang(path: Path, content: bytes) -> Path:
        hangs.set()
        release.wait(60)
        return path

    async def let_time_pass() -> None:
        while not hangs.is_set():
            await wait_all_tasks_blocked(0.01)
        mock_clock.jump(DISK_SECONDS_MAX)

    monkeypatch.setattr(logind, "lay_beside", hang)
    try:
        async with session_on(tmp_path) as (session, bus), trio.open_nursery() as nursery:
            nursery.start_soon(let_time_pass)
            with pytest.raises(OSError, match="the disk did not answer within 10 s"):
                await session.allow_delay(30)
            await bus.announce(":1.7", True)
            assert True is await session.next()
    finally:
        release.set()


@pytest.mark.parametrize("address", ["unix:path=/nowhere/at/all", "tcp:host=localhost", "nonsense", ""])
async def test_where_there_is_no_bus_that_is_an_error(address: str, tmp_path: Path) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - the system's words, and ours
        async with Logind(ThreadPool("settings", 1), address, tmp_path).connect():
            pytest.fail("there is no bus")
