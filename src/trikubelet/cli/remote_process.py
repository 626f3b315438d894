"""The local end of a process in a container: a terminal, or three files, over SPDY as the node's runtime speaks it.

    standard input ─► DATA of stdin ─► … ─► its last DATA        DATA of stdout, stderr ─► standard output, error
    the window's size ─► DATA of resize                          DATA of the error stream, its end ─► how it ended

Data that is read is written before more is read, so nothing grows here. The main thread reads the connection. Standard
input and the window's size have a thread each, which is left behind when the process ends, because reading a terminal
cannot be interrupted. There is no event loop, because loading one takes longer than most commands that run this way.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.cli import blocking
from trikubelet.cli.failed import CommandFailed, CommandNotFound, NotExecutable
from trikubelet.core import spdy
from trikubelet.core.remote_command import STREAM_TYPE, StreamChannel, channels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trikubelet.cli.connection import Stream
    from trikubelet.model.standard_streams import StandardStreams

_BYTES: Final = 32 * 1024
STATUS_BYTES_MAX: Final = 64 * 1024
EXIT_CODE: Final = "NonZeroExitCode"
_NO_END: Final = "the stream ended without the process's exit status (did the agent or the runtime stop?)"
# runc: exec: "ls": executable file not found in $PATH, exec: "/ls": stat /ls: no such file or directory,
# exec: "/etc/passwd": permission denied. crun: executable file `ls` not found. Ours: cannot execute ls: no such file.
_EXECUTING: Final = r"(?:\bexec: \".*?\": |\bcannot execute .*?: |\bexecutable file |\bopen executable: )"
_NOT_FOUND: Final = re.compile(rf"{_EXECUTING}.*?(?:not found|no such file|not a directory)", re.IGNORECASE | re.DOTALL)
_NOT_EXECUTABLE: Final = re.compile(
    rf"{_EXECUTING}.*?(?:permission denied|exec format error|is a directory)", re.IGNORECASE | re.DOTALL
)
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end a process at once, unless they are ignored."""


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    """How a process ended: the fields of the API's Status about it."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def exit_code_of(said: bytes) -> int:
    """Return the exit code in the error stream's content. Raises CommandFailed for a process without one."""
    try:
        status = msgspec.json.decode(said, type=_Status)
    except msgspec.DecodeError:
        raise CommandFailed(said.decode(errors="replace").strip() or _NO_END) from None
    if status.status == "Success":
        return 0
    codes = [one.message for one in (status.details or _Details()).causes if one.reason == "ExitCode"]
    if status.reason == EXIT_CODE and codes and codes[0].isdecimal():
        return int(codes[0])
    raise _never_ran(status.message)


def _never_ran(why: str) -> CommandFailed:
    """Return the error of a process that has no exit code, by the runtime's message, which is text for people only."""
    if _NOT_FOUND.search(why):
        return CommandNotFound(why)
    if _NOT_EXECUTABLE.search(why):
        return NotExecutable(why)
    return CommandFailed(why or "it failed without a reason")


class RemoteProcess:
    """Owns the mapping of streams, and the status received so far. ``connection``: a blocking one. ``output`` and
    ``errors``: receive the process's output; ``read``: returns its input, b"" at the end, and may block: it is called
    in a thread. ``has_window``: standard output is a terminal, whose size the process's own terminal gets."""

    def __init__(
        self,
        connection: Stream,
        streams: StandardStreams,
        read: Callable[[], bytes],
        output: Callable[[bytes], object],
        errors: Callable[[bytes], object],
        *,
        has_window: bool = False,
    ) -> None:
        self._connection = connection
        self._ids = {channel: 2 * number + 1 for number, channel in enumerate(channels(streams))}
        self._channels = {stream_id: channel for channel, stream_id in self._ids.items()}
        self._sending = threading.Lock()
        self._read = read
        self._take = {StreamChannel.STDOUT: output, StreamChannel.STDERR: errors}
        self._status = bytearray()
        self._has_window = has_window
        self._unread: OSError | None = None

    async def run(self) -> int:
        """Run until the process has ended and return its exit code. Raises CommandFailed, and OSError if its input
        cannot be read."""
        writer = spdy.FrameWriter()
        opening = [writer.syn_stream(id_, {STREAM_TYPE: one.stream_type}) for one, id_ in self._ids.items()]
        try:
            self._send(b"".join(opening))
            if StreamChannel.STDIN in self._ids:
                threading.Thread(target=self._inwards, daemon=True).start()
            with self._sizes_sent() if StreamChannel.RESIZE in self._ids and self._has_window else nullcontext():
                await self._outwards()
        except (ConnectionError, spdy.NotSpdy) as error:
            raise CommandFailed(f"the connection to the process broke: {error}") from error
        if self._unread is not None:
            raise self._unread
        return exit_code_of(bytes(self._status))

    def _send(self, said: bytes) -> None:
        with self._sending:
            blocking.run(self._connection.send_all, said)

    def _inwards(self) -> None:
        """Send the input to the process. If the process reads no more, input is not read any more. Its status is not
        known then; the main thread still reads its last output, and finds its end after it."""
        stream_id = self._ids[StreamChannel.STDIN]
        try:
            while said := self._next():
                self._send(spdy.data(stream_id, said))
            self._send(spdy.data(stream_id, b"", ends=True))
        except ConnectionError:
            return

    def _next(self) -> bytes:
        """Read the next input. Raises ConnectionAbortedError if it cannot be read, which ends the conversation."""
        try:
            return self._read()
        except OSError as error:
            self._unread = error
            self._connection.break_off()
            raise ConnectionAbortedError from error

    @contextmanager
    def _sizes_sent(self) -> Iterator[None]:
        """Send the window's size, and each change of it in the block."""
        changes = os.eventfd(1)  # a signal handler may not take a lock

        def send() -> None:
            with suppress(ConnectionError):
                while True:
                    os.eventfd_read(changes)
                    width, height = os.get_terminal_size(sys.stdout.fileno())
                    said = msgspec.json.encode({"Width": width, "Height": height})
                    self._send(spdy.data(self._ids[StreamChannel.RESIZE], said))

        before = signal.signal(signal.SIGWINCH, lambda _number, _frame: os.eventfd_write(changes, 1))
        threading.Thread(target=send, daemon=True).start()
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)

    async def _outwards(self) -> None:
        reader = spdy.FrameReader()
        while data := await self._connection.receive_some(_BYTES):
            for frame in reader.feed(data):
                match frame:
                    case spdy.Data(stream_id, said, ends) if self._channels.get(stream_id) is StreamChannel.ERROR:
                        self._status += said[: STATUS_BYTES_MAX - len(self._status)]
                        if ends:
                            return
                    case spdy.Data(stream_id, said, _) if (channel := self._channels.get(stream_id)) in self._take:
                        assert channel is not None
                        self._take[channel](said)
                    case spdy.Rst(stream_id) if self._channels.get(stream_id) is StreamChannel.ERROR:
                        return
                    case spdy.Ping(number):
                        with suppress(ConnectionError):  # it may have ended, and we not have read that yet
                            self._send(spdy.ping(number))


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Switch the terminal of standard input to raw mode for the length of the block, and restore it also if a signal
    ends the process in it."""
    import termios  # noqa: PLC0415 - only for a terminal
    import tty  # noqa: PLC0415

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def end(number: int, _: object) -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def of_this_process(connection: Stream, streams: StandardStreams, *, has_window: bool) -> RemoteProcess:
    """Return a RemoteProcess with this process's standard streams; ``has_window`` as there."""
    read = partial(os.read, sys.stdin.fileno(), _BYTES) if streams.stdin else bytes
    return RemoteProcess(connection, streams, read, _to(1), _to(2), has_window=has_window)


def _to(descriptor: int) -> Callable[[bytes], None]:
    def write(said: bytes) -> None:
        while said:
            said = said[os.write(descriptor, said) :]

    return write
