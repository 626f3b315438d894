"""The client of the local API: one request over the agent's Unix socket, whole or as a stream.

Each error is shown to a person at a terminal, so it names a remedy: no agent runs, the agent does not answer, the
socket belongs to another user, or the agent's own error. It is small on purpose: ``get pods`` must not wait for an HTTP
library or an event loop to load.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from trikubelet.cli.answer import Answer, NotAnAnswer
from trikubelet.cli.connection import ReadEarly, connect
from trikubelet.cli.failed import CommandFailed, Misunderstood

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from trikubelet.cli.connection import Connection, Stream

_RECEIVE_BYTES = 64 * 1024
_HOST = "trikubelet"
ANSWER_SECONDS_MAX = 10.0
"""Seconds until the answer begins, and between two parts of an answer that is not a stream."""
FETCHED_SECONDS_MAX = 30.0
"""The same for answers that the agent first reads from the runtime or a disk, with deadlines of its own."""
_FETCHED = ("/doctor", "/images", "/logs/", "/nodes", "/stats/")
BODY_BYTES_MAX = 256 * 1024 * 1024


class NoAgent(CommandFailed):
    """No agent answers at the socket."""


class AgentSilent(CommandFailed):
    """An agent listens and does not answer."""


class NotAllowed(CommandFailed):
    """The socket belongs to another user."""


class AgentObjects(CommandFailed):
    """The agent answered with an error; the message is the agent's. ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AgentClient:
    """The agent behind one socket. Owns nothing: each request has a connection of its own. ``root_dir``: the agent's,
    if known; an error about a missing agent names the last one started there."""

    def __init__(self, socket_path: str, root_dir: Path | None = None) -> None:
        self.socket_path = socket_path
        self._root_dir = root_dir

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the whole answer at ``path``. Raises NoAgent, AgentSilent, NotAllowed or AgentObjects."""
        return await self._whole(path, query, "GET")

    async def post(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Send a change and return the whole answer. Raises like ``get``."""
        return await self._whole(path, query, "POST")

    async def _whole(self, path: str, query: Mapping[str, str] | None, method: str) -> bytes:
        body = bytearray()
        async with self.stream(path, query, method) as parts:
            while True:
                with parts.soon_enough():
                    part = await anext(parts, None)
                if part is None:
                    return bytes(body)
                body += part
                if len(body) > BODY_BYTES_MAX:
                    raise CommandFailed(f"the answer to {path} is longer than {BODY_BYTES_MAX} bytes")

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, method: str = "GET"
    ) -> AsyncGenerator[_Wire, None]:
        """Yield the answer at ``path`` as it arrives, for as long as the block lasts. Raises like ``get``."""
        seconds_max = FETCHED_SECONDS_MAX if path.startswith(_FETCHED) else ANSWER_SECONDS_MAX
        async with self._asked(method, _target(path, query), (("connection", "close"),), seconds_max) as wire:
            yield wire

    @asynccontextmanager
    async def upgraded(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncGenerator[Stream, None]:
        """Yield a SPDY/3.1 connection, with a protocol within it, for as long as the block lasts. Raises like
        ``get``."""
        from trikubelet.core.remote_command import spdy_headers  # noqa: PLC0415 - few commands stream

        headers = spdy_headers(protocol)
        async with self._asked("POST", _target(path, query), headers, FETCHED_SECONDS_MAX) as wire:
            yield wire.changed()

    @asynccontextmanager
    async def _asked(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], seconds_max: float
    ) -> AsyncGenerator[_Wire, None]:
        """Yield the answer to a request after its head has arrived without an error, for as long as the block lasts."""
        async with self._connected() as connection:
            wire = _Wire(connection, self.socket_path, seconds_max)
            with wire.soon_enough():
                try:
                    status = await wire.ask(method, target, headers)
                except ConnectionError as error:
                    raise self._no_agent() from error
                if status >= 400:
                    said = b"".join([part async for part in wire]).decode(errors="replace").strip()
                    raise AgentObjects(status, said or f"the agent answered {status}")
            yield wire

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Connection, None]:
        try:
            connection = await connect(self.socket_path)
        except PermissionError as error:
            raise NotAllowed(self._who_may()) from error
        except BlockingIOError as error:  # its queue is full, so it listens
            raise AgentSilent(_silent(f"the agent at {self.socket_path}", error.strerror or str(error))) from error
        except OSError as error:
            raise self._no_agent() from error
        try:
            yield connection
        finally:
            await connection.aclose()

    def _no_agent(self) -> NoAgent:
        """Return the error for a missing agent."""
        return NoAgent(f"no trikubelet answers at {self.socket_path}: is the agent running? ({self._remedy()})")

    def _remedy(self) -> str:
        from trikubelet.app.last_start import last_start  # noqa: PLC0415 - only where no agent answers

        root_dir = self._root_dir or Path(self.socket_path).parent
        elsewhere = "name another agent's with --root-dir or --socket"
        if (start := last_start(root_dir)) is not None:
            return f"{start.advice}; or {elsewhere}"
        roots = "" if os.geteuid() == 0 else "; use sudo to reach root's agent"
        return f"`trikubelet help agent` lists the flags to start one with{roots}; or {elsewhere}"

    def _who_may(self) -> str:
        import pwd  # noqa: PLC0415 - only for a socket that may not be opened

        try:
            uid = os.stat(self.socket_path).st_uid
            owner = pwd.getpwuid(uid).pw_name
        except (OSError, KeyError):
            owner = "root"
        remedy = "use sudo" if owner == "root" else f"run this as {owner}"
        return f"only {owner} may connect to the trikubelet at {self.socket_path}: {remedy}"


def _target(path: str, query: Mapping[str, str] | Sequence[tuple[str, str]] | None) -> str:
    """Return the request's target, as HTTP writes it. Raises Misunderstood."""
    try:
        return quote(path) + (f"?{urlencode(query)}" if query else "")
    except UnicodeEncodeError as error:  # Python has bytes of the command line that are not UTF-8 as lone surrogates
        raise Misunderstood(f"{os.fsencode(error.object)!r} is not UTF-8, so it cannot be sent to the agent") from error


@contextmanager
def in_time(connection: Connection, socket_path: str, seconds_max: float) -> Iterator[None]:
    """Set a deadline for an agent that accepted the connection and sends nothing; the kernel accepts connections for a
    stopped process, too. Raises AgentSilent."""
    try:
        with connection.within(seconds_max):
            yield
    except TimeoutError as error:
        process = connection.peer()
        agent = f"the agent (process {process}) at {socket_path}" if process else f"the agent at {socket_path}"
        raise AgentSilent(_silent(agent, f"{seconds_max:g} seconds of silence")) from error


def _silent(agent: str, how: str) -> str:
    return f"{agent} does not answer: {how} (its log may say why; restart it if this lasts)"


class _Wire:
    """One request and its answer. Iterating yields the parts of the body."""

    def __init__(self, connection: Connection, socket_path: str, seconds_max: float) -> None:
        self._connection = connection
        self._path = socket_path
        self._seconds_max = seconds_max
        self._answer = Answer()
        self._part = b""

    def soon_enough(self) -> AbstractContextManager[None]:
        """Return the deadline for waits in the block. Raises AgentSilent."""
        return in_time(self._connection, self._path, self._seconds_max)

    async def ask(self, method: str, target: str, headers: Iterable[tuple[str, str]]) -> int:
        """Send the request, wait for the head of the answer and return its status. Raises ConnectionError if it cannot
        be sent."""
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in (("host", _HOST), *headers))]
        await self._connection.send_all("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        while not self._answer.status:
            self._part = await self._receive()
        return self._answer.status

    def changed(self) -> Stream:
        """Return the connection after the agent changed the protocol. Raises NoAgent if it did not."""
        if not self._answer.is_changed:
            raise NoAgent(f"the process at {self._path} is not trikubelet: it does not change the protocol")
        return ReadEarly(self._connection, self._answer.after)

    def __aiter__(self) -> _Wire:
        return self

    async def __anext__(self) -> bytes:
        while not self._part and not self._answer.is_whole:
            self._part = await self._receive()
        if not self._part:
            raise StopAsyncIteration
        part, self._part = self._part, b""
        return part

    async def _receive(self) -> bytes:
        try:
            return self._answer.feed(await self._connection.receive_some(_RECEIVE_BYTES))
        except NotAnAnswer as error:
            raise NoAgent(f"the process at {self._path} is not trikubelet: {error}") from error
        except (EOFError, ConnectionError) as error:
            raise NoAgent(f"the trikubelet at {self._path} broke off in the middle of its answer") from error
