"""The agent's connection to the keeper: starts it, has it start commands, and receives their exit codes.

``spawn`` returns once the command runs or certainly does not; ``ended`` once it has ended. The protocol is described in
``keeper.main``. The keeper dies with this process in any case; if the keeper dies first, all containers are dead with
it, and ``run`` fails: the agent is meant to end and be restarted.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from trikubelet.model.frozen import Frozen
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

log = logging.getLogger(__name__)

T = TypeVar("T")

HELLO_SECONDS_MAX: Final = 10.0
END_SECONDS_MAX: Final = 5.0
"""Seconds for the keeper to end with all its processes."""
KILLED_SECONDS_MAX: Final = 2.0
"""Seconds from its SIGKILL to its end. One in uninterruptible sleep is not waited for."""
_LOOK_SECONDS: Final = 0.01

GOING_DOWN: Final = "the embedded runtime is stopping"

_PACKET_BYTES_MAX: Final = 4096
_STATUS_BYTES_MAX: Final = 65536
_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop()); from trikubelet.embedded.keeper.main import main; main()"
)


class KeeperDied(Exception):
    """The keeper has ended, and every container with it."""


class SpawnFailed(RuntimeFailure):
    """The command could not be started; the message has the reason."""


class StartGivenUp(Exception):
    """The wait for a start has ended; the message has the reason. The command may still start, unless the caller has it
    killed."""

    def __init__(self, seconds: float, *, goes_down: bool) -> None:
        self._goes_down = goes_down
        super().__init__(f"not started: {GOING_DOWN}" if goes_down else f"not started within {seconds:g} s")

    def answer(self, what: str) -> RuntimeCallError:
        """Return the error for the caller of that start."""
        words = f"{what} was {self}"
        return RuntimeFailure(words, "UNAVAILABLE") if self._goes_down else RuntimeTimeout(words)


class Isolation(Frozen):
    """The isolation that the machine allows: ``kind`` is ``root`` (namespaces, any user), ``user namespace``
    (namespaces, one user) or ``none``, with the ``reason``."""

    kind: str
    reason: str

    @property
    def namespaces(self) -> bool:
        """True if containers have mount and process namespaces."""
        return self.kind != "none"


class Command:
    """Owns the exit of one spawned command. ``pid``: in the machine's process namespace."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.pid = 0
        self._over = trio.Event()
        self._code = 0

    def on_ended(self, code: int) -> None:
        """Called by the link only."""
        self._code = code
        self._over.set()

    async def ended(self) -> int:
        """Wait for its end; the exit code, 128 and the number for a signal."""
        await self._over.wait()
        return self._code


class KeeperLink:
    """Owns the keeper process, its started commands, and the deadline of starts."""

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._control = trio.socket.from_stdlib_socket(control)
        self._process = process
        self._spawned: dict[str, Command] = {}
        self._starts: set[trio.CancelScope] = set()
        self._waits_until = math.inf
        self.isolation = Isolation("none", "not known yet")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen to the keeper until cancelled; then end it. Raises KeeperDied."""
        try:
            with trio.fail_after(HELLO_SECONDS_MAX):
                hello = await self._hear()
            self.isolation = Isolation(hello["isolation"], hello["reason"])
            task_status.started()
            while True:
                message = await self._hear()
                self._spawned.pop(message["ended"]).on_ended(message["code"])
        finally:
            self._control.close()
            # Without its agent the keeper ends, after its processes; the kernel, by a kill, does not wait for that.
            if not await self._has_ended_within(END_SECONDS_MAX):
                self._process.kill()
                if not await self._has_ended_within(KILLED_SECONDS_MAX):
                    log.error("The keeper, process %d, survived SIGKILL: left behind", self._process.pid)

    async def _has_ended_within(self, seconds: float) -> bool:
        """Poll, shielded from cancellation, until the process has ended; there may be no descriptor left for an
        event."""
        with trio.move_on_after(seconds, shield=True):
            while self._process.poll() is None:  # noqa: ASYNC110 - a process has no event
                await trio.sleep(_LOOK_SECONDS)
        return self._process.poll() is not None

    async def _hear(self) -> dict[str, Any]:
        packet = await self._control.recv(_PACKET_BYTES_MAX)
        if not packet:
            raise KeeperDied("the process that keeps the embedded runtime's containers has died")
        message: dict[str, Any] = json.loads(packet)
        return message

    async def spawn(
        self,
        id_: str,
        spec: dict[str, Any],
        stdout: int,
        stderr: int,
        join: str | None = None,
        stdin: int | None = None,
    ) -> Command:
        """Start what ``spec`` describes, in the namespaces of ``join`` when given; without ``stdin`` it has nothing to
        read. Takes the descriptors over. Raises SpawnFailed, and OSError where no more descriptors are available."""
        command = Command(id_)
        with ExitStack() as ours:
            with ExitStack() as its:  # the keeper has copies as soon as it has received the request
                for fd in (stdout, stderr) if stdin is None else (stdin, stdout, stderr):
                    its.callback(os.close, fd)
                if stdin is None:
                    stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                    its.callback(os.close, stdin)
                read, write = os.pipe()
                its.callback(os.close, write)
                status = trio.lowlevel.FdStream(read)
                ours.callback(status.close)
                described = _memory_file(spec)
                its.callback(os.close, described)
                await self._ask(command, join, [described, write, stdin, stdout, stderr])
            said = await _read_all(status)
        for line in said.splitlines():
            word = json.loads(line)
            if "error" in word:
                await command.ended()
                raise SpawnFailed(word["error"])
            command.pid = word["pid"]
        return command

    async def start_within(self, seconds: float, start: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``start``, which continues if its caller is cancelled. Raises StartGivenUp after the
        timeout, or when the runtime stops."""
        deadline = min(trio.current_time() + seconds, self._waits_until)
        with trio.CancelScope(shield=True, deadline=deadline) as scope:
            self._starts.add(scope)
            try:
                return await start()
            finally:
                self._starts.discard(scope)
        raise StartGivenUp(seconds, goes_down=self._waits_until <= trio.current_time())

    def give_up_starts(self) -> None:
        """Stop waiting for starts, because the runtime stops: a keeper that hangs would not answer."""
        self._waits_until = trio.current_time()
        for scope in self._starts:
            scope.deadline = self._waits_until

    def __repr__(self) -> str:
        return f"<KeeperLink {len(self._spawned)} commands, {len(self._starts)} starts in progress>"

    async def _ask(self, command: Command, join: str | None, fds: Sequence[int]) -> None:
        self._spawned[command.id] = command
        try:
            await self._send({"spawn": command.id, "join": join}, fds)
        except BaseException:  # the request was not sent, so there will be no answer
            del self._spawned[command.id]
            raise

    async def signal(self, id_: str, number: int, *, group: bool = False) -> None:
        """Signal a command, or its process group. Does nothing when it has ended. Raises RuntimeFailure when the keeper
        has."""
        await self._send({"id": id_, "signal": number, "group": group})

    async def _send(self, what: dict[str, Any], fds: Sequence[int] = ()) -> None:
        if self._control.fileno() < 0:  # closed by ``run``, which was notified of the keeper's end
            raise RuntimeFailure(GOING_DOWN, "UNAVAILABLE")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds))]
        try:
            await self._control.sendmsg([json.dumps(what).encode()], rights if fds else ())
        except (BrokenPipeError, ConnectionResetError) as error:
            raise RuntimeFailure(GOING_DOWN, "UNAVAILABLE") from error


def _memory_file(spec: dict[str, Any]) -> int:
    fd = os.memfd_create("spec", os.MFD_CLOEXEC)
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(json.dumps(spec).encode())
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


async def _read_all(stream: trio.lowlevel.FdStream) -> bytes:
    said = b""
    while len(said) < _STATUS_BYTES_MAX and (chunk := await stream.receive_some(_STATUS_BYTES_MAX)):
        said += chunk
    return said


def start_keeper(staging: Path) -> KeeperLink:
    """Start the keeper. ``staging``: an empty directory of ours. Call it in a thread that runs as long as the agent:
    the kernel ends the keeper with the thread that started it. Raises OSError."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own arguments
            [
                *(sys.executable, "-I", "-S", "-c", _BOOT),
                *(str(its.fileno()), str(os.getpid()), str(staging), str(Path(__file__).parents[2])),
            ],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    return KeeperLink(ours, process)
