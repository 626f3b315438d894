"""The commands' side of the local API: one request over the agent's Unix socket, whole or as a stream.

A person reads every error here at a terminal, so each says what to do: no agent is there, the one that is does not
answer, the socket is another user's, or what the agent itself objected to. Small on purpose: ``get pods`` should not
wait for an HTTP library or an event loop to load.
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
"""Between asking for what the agent knows and the beginning of its answer, and between the parts of one that is not a
stream."""
FETCHED_SECONDS_MAX = 30.0
"""The same where the agent asks the runtime or a disk first, with deadlines of its own."""
_FETCHED = ("/doctor", "/images", "/logs/", "/nodes", "/stats/")
BODY_BYTES_MAX = 256 * 1024 * 1024


class NoAgent(CommandFailed):
    """Nobody answers at the socket."""


class AgentSilent(CommandFailed):
    """The agent is there and does not answer."""


class NotAllowed(CommandFailed):
    """The socket is another user's."""


class AgentObjects(CommandFailed):
    """The agent answered with an error; the message is its own. ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AgentClient:
    """The agent behind one socket. Owns nothing: each request is a connection of its own. ``root_dir``: the agent's,
    where it is known; what was last started there is named where no agent answers."""

    def __init__(self, socket_path: str, root_dir: Path | None = None) -> None:
        self.socket_path = socket_path
        self._root_dir = root_dir

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The whole answer at ``path``. Raises NoAgent, AgentSilent, NotAllowed or AgentObjects."""
        return await self._whole(path, query, "GET")

    async def post(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Have something changed; the whole answer. Raises as ``get`` does."""
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
        """The answer at ``path`` as it comes, for as long as the block lasts. Raises as ``get`` does."""
        seconds_max = FETCHED_SECONDS_MAX if path.startswith(_FETCHED) else ANSWER_SECONDS_MAX
        async with self._asked(method, _target(path, query), (("connection", "close"),), seconds_max) as wire:
            yield wire

    @asynccontextmanager
    async def upgraded(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncGenerator[Stream, None]:
        """A conversation in SPDY/3.1, with a protocol within it, for as long as the block lasts. Raises as ``get``
        does."""
        from trikubelet.core.remote_command import spdy_headers  # noqa: PLC0415 - few commands talk

        headers = spdy_headers(protocol)
        async with self._asked("POST", _target(path, query), headers, FETCHED_SECONDS_MAX) as wire:
            yield wire.changed()

    @asynccontextmanager
    async def _asked(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], seconds_max: float
    ) -> AsyncGenerator[_Wire, None]:
        """The answer to a request, of which the head has come and is no error, for as long as the block lasts."""
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
        except BlockingIOError as error:  # it listens, or there would be no queue
            raise AgentSilent(_silent(f"the agent at {self.socket_path}", error.strerror or str(error))) from error
        except OSError as error:
            raise self._no_agent() from error
        try:
            yield connection
        finally:
            await connection.aclose()

    def _no_agent(self) -> NoAgent:
        """What to report where no agent answers."""
        return NoAgent(f"no trikubelet answers at {self.socket_path}: is the agent running? ({self._remedy()})")

    def _remedy(self) -> str:
        from trikubelet.app.last_start import last_start  # noqa: PLC0415 - only where no agent answers

        root_dir = self._root_dir or Path(self.socket_path).parent
        elsewhere = "name another agent's with --root-dir or --socket"
        if (start := last_start(root_dir)) is not None:
            return f"{start.advice}; or {elsewhere}"
        roots = "" if os.geteuid() == 0 else "; use sudo to ask root's agent"
        return f"`trikubelet help agent` lists the flags to start one with{roots}; or {elsewhere}"

    def _who_may(self) -> str:
        import pwd  # noqa: PLC0415 - only of a socket that may not be opened

        try:
            uid = os.stat(self.socket_path).st_uid
            owner = pwd.getpwuid(uid).pw_name
        except (OSError, KeyError):
            owner = "root"
        remedy = "use sudo" if owner == "root" else f"run this as {owner}"
        return f"only {owner} may ask the trikubelet at {self.socket_path}: {remedy}"


def _target(path: str, query: Mapping[str, str] | Sequence[tuple[str, str]] | None) -> str:
    """What is asked for, as HTTP writes it. Raises Misunderstood."""
    try:
        return quote(path) + (f"?{urlencode(query)}" if query else "")
    except UnicodeEncodeError as error:  # Python has bytes of the command line that are no UTF-8 as lone surrogates
        raise Misunderstood(f"{os.fsencode(error.object)!r} is not UTF-8: the agent cannot be asked with it") from error


@contextmanager
def in_time(connection: Connection, socket_path: str, seconds_max: float) -> Iterator[None]:
    """A deadline for an agent that took the connection and says nothing. The kernel takes it for one that is stopped,
    too. Raises AgentSilent."""
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
    """One request and its answer. Iterating gives the parts of the body."""

    def __init__(self, connection: Connection, socket_path: str, seconds_max: float) -> None:
        self._connection = connection
        self._path = socket_path
        self._seconds_max = seconds_max
        self._answer = Answer()
        self._part = b""

    def soon_enough(self) -> AbstractContextManager[None]:
        """A deadline for what is awaited in the block. Raises AgentSilent."""
        return in_time(self._connection, self._path, self._seconds_max)

    async def ask(self, method: str, target: str, headers: Iterable[tuple[str, str]]) -> int:
        """Send the request and wait for the head of the answer; its status. Raises ConnectionError where it cannot be
        sent."""
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in (("host", _HOST), *headers))]
        await self._connection.send_all("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        while not self._answer.status:
            self._part = await self._receive()
        return self._answer.status

    def changed(self) -> Stream:
        """The connection from where the agent changed the protocol. Raises NoAgent where it did not."""
        if not self._answer.is_changed:
            raise NoAgent(f"what answers at {self._path} is no trikubelet: it does not change the protocol")
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
            raise NoAgent(f"what answers at {self._path} is no trikubelet: {error}") from error
        except (EOFError, ConnectionError) as error:
            raise NoAgent(f"the trikubelet at {self._path} went away in the middle of its answer") from error
