"""Commands in containers, and clients of a container's own process: ExecSync, Exec and Attach.

    ExecSync ─► spawn ─► both streams to their end or the limit ─► code, output
    Exec     ─► spawn, with pipes or a terminal ─► a client's streams and the command's, joined ─► code
    Attach   ─► a listener for the container's output, and its stdin if it has one

A command whose client goes away is killed, with its process group. An attached client that does not keep up is
disconnected: a container never waits for its readers.
"""

from __future__ import annotations

import signal
import termios
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from trikubelet.embedded import spec
from trikubelet.embedded.link import StartGivenUp
from trikubelet.embedded.spawning import (
    READ_BYTES,
    new_id,
    pipe_in,
    spawn_on_terminal,
    spawn_piped,
    what_is_there,
)
from trikubelet.model.runtime_errors import RuntimeFailure, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trikubelet.embedded.link import Command, KeeperLink
    from trikubelet.embedded.pods import Pods
    from trikubelet.streaming.process import Talk

T = TypeVar("T")

START_SECONDS_MAX: Final = 60.0
"""Seconds from the request to the command's execve; a start in progress is not cancelled with its caller, but when the
runtime stops."""
DRAIN_SECONDS_MAX: Final = 1.0
"""Seconds for the rest in the pipes of a process that has ended."""
EXEC_OUTPUT_BYTES_MAX: Final = 8 * 2**20
"""Bytes of each stream of one ExecSync; the rest is dropped. Together they fit into a message."""
PIECES_WAITING_MAX: Final = 64
"""Pieces of a container's output queued for one attached client: a few megabytes at most."""
_SIDE_MAX: Final = 65535  # the kernel's limit for a terminal
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class Listener:
    """Owns the container output that one attached client has not received yet."""

    def __init__(self) -> None:
        self._sending, self.output = trio.open_memory_channel[tuple[str, bytes]](PIECES_WAITING_MAX)
        self.is_late = False

    def put(self, name: str, data: bytes) -> None:
        """Queue output of the container. Never waits: a client with a full queue gets no more."""
        try:
            self._sending.send_nowait((name, data))
        except trio.WouldBlock:
            self.is_late = True
            self.end()
        except _GONE:
            return

    def end(self) -> None:
        """Mark the end of the container's output."""
        self._sending.close()


class Commands:
    """Runs commands by the keeper; owns nothing that outlives a call."""

    def __init__(self, pods: Pods, link: KeeperLink) -> None:
        self._pods = pods
        self._link = link

    async def execute(self, id_: str, argv: list[str], seconds_max: int) -> tuple[int, bytes, bytes]:
        """Run a command in a container to its end and return exit code, stdout and stderr. 0 seconds are no limit.
        Raises NotFound, RuntimeFailure if it cannot be run, RuntimeTimeout if it was killed at the limit."""
        container = self._pods.running(id_)
        wanted, own_id = spec.for_exec(container.spec, argv), new_id()
        spawn = partial(spawn_piped, self._link, own_id, wanted, self._join(container.id))
        command, (stdout, stderr) = await self._begun(own_id, spawn)
        said: list[bytearray] = [bytearray(), bytearray()]
        code: int | None = None
        try:
            with trio.move_on_after(seconds_max or float("inf")):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_collect, stdout, said[0])
                    nursery.start_soon(_collect, stderr, said[1])
                    code = await command.ended()
                    nursery.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS_MAX
        finally:
            if code is None:
                await self._kill(command)
        if code is None:
            raise RuntimeTimeout(f"the command was killed: it took longer than {seconds_max} s")
        return code, bytes(said[0]), bytes(said[1])

    async def converse(self, id_: str, argv: list[str], talk: Talk, *, tty: bool) -> int:
        """Run a command in a container with a client's streams and return its exit code. Raises NotFound, and
        RuntimeFailure if it cannot be run."""
        container = self._pods.running(id_)
        wanted = spec.for_exec(container.spec, argv, terminal=tty)
        begin = self._begun_on_terminal if tty else self._begun_with_pipes
        command, stdin, outlets = await begin(wanted, self._join(container.id), talk)
        code: int | None = None
        try:
            async with trio.open_nursery() as nursery:
                async with trio.open_nursery() as saying:
                    for outlet in outlets:
                        saying.start_soon(outlet.run)
                    if talk.stdin is not None and stdin is not None:
                        nursery.start_soon(_feed, talk.stdin, stdin, not tty)
                    if tty and stdin is not None:
                        nursery.start_soon(_resize, talk, stdin.fileno())
                    code = await command.ended()
                    for outlet in outlets:
                        outlet.hurry()
                nursery.cancel_scope.cancel()
        finally:
            if stdin is not None:
                stdin.close()
            if code is None:
                await self._kill(command)
        return code

    async def attach(self, id_: str, talk: Talk) -> int:
        """Connect a client's streams with a running container's, until the container or the client ends; returns 0.
        Raises NotFound, RuntimeFailure."""
        container, listener = self._pods.running(id_), Listener()
        container.listeners.add(listener)
        try:
            async with trio.open_nursery() as nursery:
                if talk.stdin is not None and container.stdin is not None:
                    nursery.start_soon(_feed, talk.stdin, container.stdin, container.config.stdin_once)
                async for name, data in listener.output:
                    sink = talk.stdout if name == "stdout" else talk.stderr
                    if sink is not None:
                        await sink.send_all(data)
                nursery.cancel_scope.cancel()
        finally:
            container.listeners.discard(listener)
        if listener.is_late:
            raise RuntimeFailure("the container writes faster than its output is read")
        return 0

    def _join(self, container_id: str) -> str | None:
        return container_id if self._pods.isolation.namespaces else None

    async def _begun_on_terminal(
        self, wanted: dict[str, Any], join: str | None, talk: Talk
    ) -> tuple[Command, trio.lowlevel.FdStream | None, list[_Outlet]]:
        id_ = new_id()
        command, terminal = await self._begun(id_, partial(spawn_on_terminal, self._link, id_, wanted, join))
        return command, terminal, [_Outlet(terminal, talk.stdout)]

    async def _begun_with_pipes(
        self, wanted: dict[str, Any], join: str | None, talk: Talk
    ) -> tuple[Command, trio.lowlevel.FdStream | None, list[_Outlet]]:
        id_ = new_id()
        fd, stdin = pipe_in() if talk.stdin is not None else (None, None)
        try:
            spawn = partial(spawn_piped, self._link, id_, wanted, join, fd)
            command, (stdout, stderr) = await self._begun(id_, spawn)
        except BaseException:
            if stdin is not None:
                stdin.close()
            raise
        return command, stdin, [_Outlet(stdout, talk.stdout), _Outlet(stderr, talk.stderr)]

    async def _begun(self, id_: str, spawn: Callable[[], Awaitable[T]]) -> T:
        """Start a command, even if its caller goes away meanwhile. Raises RuntimeTimeout if it does not start in time,
        and RuntimeFailure if the runtime stops before; then it is killed."""
        try:
            return await self._link.start_within(START_SECONDS_MAX, spawn)
        except StartGivenUp as given_up:
            # Most callers that have waited this long are gone: without a shield their cancellation would come first.
            with trio.CancelScope(deadline=trio.current_time() + DRAIN_SECONDS_MAX, shield=True):
                await self._link.signal(id_, signal.SIGKILL)
            raise given_up.answer("the command") from given_up

    async def _kill(self, command: Command) -> None:
        with trio.CancelScope(deadline=trio.current_time() + DRAIN_SECONDS_MAX, shield=True):
            await self._link.signal(command.id, signal.SIGKILL, group=True)
            await command.ended()


class _Outlet:
    """Copies a command's output to a client, if any, as fast as the client takes it."""

    def __init__(self, source: trio.lowlevel.FdStream, sink: trio.abc.SendStream | None) -> None:
        self._source = source
        self._sink = sink
        self._reading = trio.CancelScope()
        self._patience_seconds = float("inf")

    async def run(self) -> None:
        """Copy to the end of the output."""
        async with self._source:
            while data := await self._next():
                if self._sink is not None:
                    await self._sink.send_all(data)

    def hurry(self) -> None:
        """Stop reading soon, because the command has ended: the rest in the pipe is read, a descendant that holds it is
        not waited for."""
        self._patience_seconds = DRAIN_SECONDS_MAX
        self._reading.deadline = trio.current_time() + DRAIN_SECONDS_MAX

    async def _next(self) -> bytes | bytearray:
        # A terminal that no process has open any more is broken, like an ended pipe at its end.
        patience = trio.CancelScope(deadline=trio.current_time() + self._patience_seconds)
        with suppress(*_GONE), patience as self._reading:
            return await self._source.receive_some(READ_BYTES)
        # Also after an error: the kernel may find a terminal empty, then its other side closed, and miss the data
        # written in between.
        return what_is_there(self._source)


async def _feed(source: trio.abc.ReceiveStream, sink: trio.lowlevel.FdStream, closes: bool) -> None:
    """Copy a client's input to a process, and its end if that ``closes``."""
    with suppress(*_GONE):  # a process need not read its input
        while data := await source.receive_some(READ_BYTES):
            await sink.send_all(data)
    if closes:
        sink.close()


async def _resize(talk: Talk, terminal: int) -> None:
    async with aclosing(talk.sizes()) as sizes:
        async for size in sizes:
            rows, columns = (max(0, min(side, _SIDE_MAX)) for side in (size.height, size.width))
            termios.tcsetwinsize(terminal, (rows, columns))


async def _collect(stream: trio.lowlevel.FdStream, into: bytearray) -> None:
    async with stream:
        try:
            while data := await stream.receive_some(READ_BYTES):
                into += data[: EXEC_OUTPUT_BYTES_MAX - len(into)]
        except trio.Cancelled:
            into += what_is_there(stream)[: EXEC_OUTPUT_BYTES_MAX - len(into)]
            raise
