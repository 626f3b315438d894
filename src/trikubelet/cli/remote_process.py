"""The commands' end of a process in a container: a terminal, or three files, over SPDY as the node's runtime speaks it.

    standard input ─► DATA of stdin ─► … ─► its last DATA        DATA of stdout, stderr ─► standard output, error
    the window's size ─► DATA of resize                          DATA of the error stream, its end ─► how it ended

What is read is written before more is read, so nothing grows here. Standard input is read by a thread that is left
behind when the process ends: reading a terminal cannot be broken off.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import tty
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from trikubelet.cli.failed import CommandFailed, CommandNotFound, NotExecutable
from trikubelet.core import spdy
from trikubelet.core.remote_command import STREAM_TYPE, StreamChannel, channels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trikubelet.model.runtime import StandardStreams

_BYTES: Final = 32 * 1024
STATUS_BYTES_MAX: Final = 64 * 1024
EXIT_CODE: Final = "NonZeroExitCode"
_NO_END: Final = "the stream ended without saying how the process did: did the agent, or the runtime, go away?"
# runc: exec: "ls": executable file not found in $PATH, exec: "/ls": stat /ls: no such file or directory,
# exec: "/etc/passwd": permission denied. crun: executable file `ls` not found. Ours: cannot execute ls: no such file.
_EXECUTING: Final = r"(?:\bexec: \".*?\": |\bcannot execute .*?: |\bexecutable file |\bopen executable: )"
_NOT_FOUND: Final = re.compile(rf"{_EXECUTING}.*?(?:not found|no such file|not a directory)", re.IGNORECASE | re.DOTALL)
_NOT_EXECUTABLE: Final = re.compile(
    rf"{_EXECUTING}.*?(?:permission denied|exec format error|is a directory)", re.IGNORECASE | re.DOTALL
)
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""What ends a process on the spot, unless it says otherwise."""


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    """How a process ended: the API's Status, as far as it says that."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def exit_code_of(said: bytes) -> int:
    """What the error stream said, as an exit code. Raises CommandFailed for a process of which nobody knows one."""
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
    """The error of a process that has no exit code, by what its runtime says. That has words for a person only."""
    if _NOT_FOUND.search(why):
        return CommandNotFound(why)
    if _NOT_EXECUTABLE.search(why):
        return NotExecutable(why)
    return CommandFailed(why or "it failed without saying why")


class RemoteProcess:
    """Owns which stream is which, and what was said of the end so far. ``output`` and ``errors`` take what the process
    writes; ``read`` gives what it is to read, b"" at the end, and may block: it is called in a thread. ``has_window``:
    standard output is a terminal whose size the process' own is to have."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        streams: StandardStreams,
        read: Callable[[], bytes],
        output: Callable[[bytes], object],
        errors: Callable[[bytes], object],
        *,
        has_window: bool = False,
    ) -> None:
        self._stream = stream
        self._ids = {channel: 2 * number + 1 for number, channel in enumerate(channels(streams))}
        self._channels = {stream_id: channel for channel, stream_id in self._ids.items()}
        self._sending = trio.Lock()
        self._read = read
        self._take = {StreamChannel.STDOUT: output, StreamChannel.STDERR: errors}
        self._status = bytearray()
        self._has_window = has_window

    async def run(self) -> int:
        """Talk until the process has ended; its exit code. Raises CommandFailed."""
        writer = spdy.FrameWriter()
        opening = [writer.syn_stream(id_, {STREAM_TYPE: one.stream_type}) for one, id_ in self._ids.items()]
        try:
            await self._send(b"".join(opening))
            async with trio.open_nursery() as nursery:
                if StreamChannel.STDIN in self._ids:
                    nursery.start_soon(self._inwards)
                if StreamChannel.RESIZE in self._ids and self._has_window:
                    nursery.start_soon(self._sizes)
                await self._outwards()
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, spdy.NotSpdy) as group:
            raise CommandFailed(f"the connection to the process broke: {group.exceptions[0]}") from group
        return exit_code_of(bytes(self._status))

    async def _send(self, said: bytes) -> None:
        async with self._sending:
            await self._stream.send_all(said)

    async def _say(self, said: bytes) -> None:
        """Send. To one that takes no more it never ends: who has ended is not told, and what it said last is still
        being read, which finds its end after it."""
        try:
            await self._send(said)
        except trio.BrokenResourceError:
            await trio.sleep_forever()

    async def _inwards(self) -> None:
        while said := await trio.to_thread.run_sync(self._read, abandon_on_cancel=True):
            await self._say(spdy.data(self._ids[StreamChannel.STDIN], said))
        await self._say(spdy.data(self._ids[StreamChannel.STDIN], b"", ends=True))

    async def _sizes(self) -> None:
        """Send the window's size, and each other one it gets."""
        with trio.open_signal_receiver(signal.SIGWINCH) as changes:
            while True:
                width, height = os.get_terminal_size(sys.stdout.fileno())
                said = msgspec.json.encode({"Width": width, "Height": height})
                await self._say(spdy.data(self._ids[StreamChannel.RESIZE], said))
                await anext(aiter(changes))

    async def _outwards(self) -> None:
        reader = spdy.FrameReader()
        while data := await self._stream.receive_some(_BYTES):
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
                        with suppress(trio.BrokenResourceError):  # it may have ended, and we not have read that yet
                            await self._send(spdy.ping(number))


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Standard input without the terminal's own opinions about keys, for the length of the block; and no longer, be it
    that a signal ends the process in it."""
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


def of_this_process(stream: trio.abc.Stream, streams: StandardStreams, *, has_window: bool) -> RemoteProcess:
    """One that reads and writes what this process does; ``has_window`` as RemoteProcess has it."""
    read = partial(os.read, sys.stdin.fileno(), _BYTES) if streams.stdin else bytes
    return RemoteProcess(stream, streams, read, _to(1), _to(2), has_window=has_window)


def _to(descriptor: int) -> Callable[[bytes], None]:
    def write(said: bytes) -> None:
        while said:
            said = said[os.write(descriptor, said) :]

    return write
