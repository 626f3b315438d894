"""systemd-logind over the system bus (``ports.ShutdownManager``): delays of shutdowns, and their announcements.

    Inhibit("shutdown", "delay") ─► a descriptor: the delay lasts until it is closed, or this process has ended
    PrepareForShutdown(true)     ─► the machine shuts down when no delay is left, or InhibitDelayMaxSec has expired

One task makes all calls, one at a time; announcements that arrive meanwhile are kept, a few. Any client of the bus may
send a signal to any other, whatever the receiver subscribed to; only the sender's name cannot be forged. So an
announcement counts if it comes from the connection that owns logind's name, and when the owner changes, the session
ends. jeepney, which encodes messages, is loaded only where it is needed. (upstream:
nodeshutdown/systemd/inhibit_linux.go)
"""

from __future__ import annotations

import os
import signal
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio
from jeepney import DBusAddress, MatchRule, Message, Properties, new_method_call
from jeepney.auth import BEGIN, AuthenticationError, Authenticator
from jeepney.bus import get_bus
from jeepney.bus_messages import message_bus
from jeepney.io.trio import DBusConnection
from jeepney.low_level import HeaderFields, MessageType
from jeepney.wrappers import DBusErrorResponse, unwrap_msg

from trikubelet.kit.disk import on_disk
from trikubelet.kit.private_file import lay_beside

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from trikubelet.kit.threads import ThreadPool

LOGIND: Final = DBusAddress(
    "/org/freedesktop/login1", bus_name="org.freedesktop.login1", interface="org.freedesktop.login1.Manager"
)
SYSTEMD: Final = DBusAddress(
    "/org/freedesktop/systemd1", bus_name="org.freedesktop.systemd1", interface="org.freedesktop.systemd1.Manager"
)
SETTINGS: Final = Path("/etc/systemd/logind.conf.d/99-kubelet.conf")
CALL_SECONDS_MAX: Final = 25.0
"""D-Bus's own time limit of a call, in seconds."""
KEPT_MAX: Final = 16
"""Announcements that are queued; a machine shuts down once."""
RELOAD_SECONDS: Final = (0.1, 0.4, 1.5)
"""Pauses in seconds until a service must have read its settings again after a signal."""
BUS: Final = str(message_bus.bus_name)
_ANNOUNCED: Final = MatchRule(
    type="signal",
    sender=LOGIND.bus_name,
    interface=LOGIND.interface,
    member="PrepareForShutdown",
    path=LOGIND.object_path,
)
_OWNER_CHANGED: Final = MatchRule(type="signal", sender=BUS, interface=BUS, member="NameOwnerChanged")
_OWNER_CHANGED.add_arg_condition(0, str(LOGIND.bus_name))


class Logind:
    """Owns nothing: each session has a connection of its own."""

    def __init__(self, threads: ThreadPool, bus: str = "SYSTEM", settings: Path = SETTINGS) -> None:
        """``bus``: its address; ``settings``: the agent's own file that raises the longest delay."""
        self._threads = threads
        self._bus = bus
        self._settings = settings

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[LogindSession, None]:
        """See ``ports.ShutdownManager``."""
        with _in_time("connecting to the system's bus"):
            stream = await trio.open_unix_socket(_address(self._bus))
        async with stream:
            with _in_time("connecting to the system's bus"):
                await _authenticate(stream)
                session = LogindSession(DBusConnection(stream.socket, enable_fds=True), self._threads, self._settings)
                await session.begin()
            yield session

    def __repr__(self) -> str:
        return f"<Logind on {self._bus}>"


class LogindSession:
    """Owns the announcements that arrived during calls, and the name of their trusted sender."""

    def __init__(self, connection: DBusConnection, threads: ThreadPool, settings: Path) -> None:
        self._connection = connection
        self._threads = threads
        self._settings = settings
        self._announced: deque[bool] = deque(maxlen=KEPT_MAX)
        self._before: float | None = None
        self._owner = ""
        self.name = ""
        """The name of this connection on the bus."""

    async def begin(self) -> None:
        """Identify this client and subscribe to announcements. Raises OSError if there is no logind."""
        with _as_errors("Hello"):
            (self.name,) = await self._ask(message_bus.Hello())
        await self._ask(message_bus.AddMatch(_OWNER_CHANGED))
        await self._ask(message_bus.AddMatch(_ANNOUNCED))
        await self.is_shutting_down()  # the bus starts logind on the first call, if it does not run yet
        with _as_errors("GetNameOwner"):
            (self._owner,) = await self._ask(message_bus.GetNameOwner(LOGIND.bus_name))

    async def delay_seconds(self) -> float:
        """See ``ports.ShutdownSession``; so for all below. After ``allow_delay`` it gives the service time to read its
        settings."""
        found = await self._delay()
        for pause in RELOAD_SECONDS:
            if found != self._before:
                break
            await trio.sleep(pause)
            found = await self._delay()
        self._before = None
        return found

    async def _delay(self) -> float:
        with _as_errors("InhibitDelayMaxUSec"):
            ((_, microseconds),) = await self._ask(Properties(LOGIND).get("InhibitDelayMaxUSec"))
            return float(microseconds) / 1e6

    async def allow_delay(self, seconds: float) -> None:
        self._before = await self._delay()
        await on_disk(self._threads, partial(_write_settings, self._settings, seconds), str(self._settings))
        arguments = ("systemd-logind.service", "all", int(signal.SIGHUP))
        await self._ask(new_method_call(SYSTEMD, "KillUnit", "ssi", arguments))

    async def inhibit(self) -> Callable[[], None]:
        arguments = ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")
        with _as_errors("Inhibit"):
            (lock,) = await self._ask(new_method_call(LOGIND, "Inhibit", "ssss", arguments))
            descriptor = lock.to_raw_fd()
        os.set_inheritable(descriptor, False)  # a surviving child would keep the machine up
        return partial(os.close, descriptor)

    async def is_shutting_down(self) -> bool:
        with _as_errors("PreparingForShutdown"):
            ((_, found),) = await self._ask(Properties(LOGIND).get("PreparingForShutdown"))
            return bool(found)

    async def next(self) -> bool:
        with _as_errors("waiting for an announcement"):
            while not self._announced:
                self._note(await self._receive())
            return self._announced.popleft()

    async def _ask(self, question: Message) -> Any:
        what = question.header.fields[HeaderFields.member]
        with _in_time(what):
            serial = next(self._connection.outgoing_serial)
            await self._connection.send(question, serial=serial)
            while True:
                message = await self._receive()
                if message.header.fields.get(HeaderFields.reply_serial) == serial:
                    return unwrap_msg(message)
                self._note(message)

    async def _receive(self) -> Message:
        try:
            return await self._connection.receive()
        except (trio.EndOfChannel, trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception as error:  # a parser may fail on garbage in any way, with a KeyError for example
            raise trio.BrokenResourceError(f"received an invalid message: {error!r}") from error

    def _note(self, message: Message) -> None:
        if message.header.message_type is not MessageType.signal:
            return
        sender = message.header.fields.get(HeaderFields.sender)
        if sender == BUS and _is_named(message, BUS, "NameOwnerChanged") and message.body[0] == LOGIND.bus_name:
            if not self._owner:  # our own call started it; the owner of the name is read after that
                return
            raise trio.BrokenResourceError("systemd-logind was restarted")
        if sender == self._owner and _is_named(message, LOGIND.interface, "PrepareForShutdown"):
            self._announced.append(bool(message.body[0]))

    def __repr__(self) -> str:
        return f"<LogindSession, {len(self._announced)} announced>"


def _is_named(message: Message, interface: str, member: str) -> bool:
    fields = message.header.fields
    named = (fields.get(HeaderFields.interface), fields.get(HeaderFields.member))
    return named == (interface, member) and len(message.body) > 0


def _address(bus: str) -> str:
    try:
        return str(get_bus(bus))
    except (RuntimeError, ValueError, StopIteration) as error:
        raise OSError(f"the address of the system's bus is invalid: {error}") from error


async def _authenticate(stream: trio.SocketStream) -> None:
    conversation = Authenticator(enable_fds=True, inc_null_byte=True)
    for words in conversation:
        await stream.send_all(words)
        if not (heard := await stream.receive_some()):
            raise trio.EndOfChannel("the connection was closed")
        conversation.feed(heard)
    await stream.send_all(BEGIN)


@contextmanager
def _in_time(what: str) -> Generator[None, None, None]:
    with _as_errors(what), trio.fail_after(CALL_SECONDS_MAX):
        yield


@contextmanager
def _as_errors(what: str) -> Generator[None, None, None]:
    """Turn all errors of the bus, or of the called service, into OSError."""
    try:
        yield
    except trio.TooSlowError as error:
        raise TimeoutError(f"{what}: no answer within {CALL_SECONDS_MAX:g} s") from error
    except DBusErrorResponse as error:
        said = " ".join(str(one) for one in error.data)
        raise OSError(f"{what}: {error.name}: {said}") from error
    except (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel, AuthenticationError) as error:
        raise ConnectionError(f"{what}: the connection to the bus broke: {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise OSError(f"{what}: the answer has an unexpected type: {error}") from error


def _write_settings(path: Path, seconds: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = lay_beside(path, f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n".encode())
    beside.chmod(0o644)  # like its neighbours: logind is root, an operator may look
    beside.replace(path)
