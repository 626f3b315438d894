"""A command of the embedded runtime with its streams: pipes or a terminal, one end ours and one the command's.

    pipe, pipe ─► spawn ─► the command and our ends of its output
    terminal   ─► spawn ─► the command and our end of it

Each descriptor has an owner from the moment it exists, so that none leaks when no more are available.
"""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import trio

if TYPE_CHECKING:
    from trikubelet.embedded.link import Command, KeeperLink


READ_BYTES: Final = 65536
"""Bytes of output at a time: as much as a pipe holds."""


def new_id() -> str:
    """Return an id for a sandbox, a container or a command."""
    return uuid.uuid4().hex * 2


def pipe_in() -> tuple[int, trio.lowlevel.FdStream]:
    """A pipe: the descriptor a process reads, and our end."""
    read, write = os.pipe()
    return read, trio.lowlevel.FdStream(write)


async def spawn_piped(
    link: KeeperLink, id_: str, wanted: dict[str, Any], join: str | None = None, stdin: int | None = None
) -> tuple[Command, tuple[trio.lowlevel.FdStream, trio.lowlevel.FdStream]]:
    """Start a process with pipes for its output: our ends of stdout and stderr. Takes ``stdin`` over. Raises what
    ``KeeperLink.spawn`` does."""
    with ExitStack() as ours, ExitStack() as its:
        if stdin is not None:
            its.callback(os.close, stdin)
        (stdout, out_write), (stderr, err_write) = [_pipe_out(ours, its) for _ in range(2)]
        its.pop_all()  # the link owns them from now on
        command = await link.spawn(id_, wanted, out_write, err_write, join, stdin)
        ours.pop_all()
    return command, (stdout, stderr)


def _pipe_out(ours: ExitStack, its: ExitStack) -> tuple[trio.lowlevel.FdStream, int]:
    """A pipe: our end, and the descriptor a process writes. Each is closed with its stack."""
    read, write = os.pipe()
    its.callback(os.close, write)
    stream = trio.lowlevel.FdStream(read)
    ours.callback(stream.close)
    return stream, write


async def spawn_on_terminal(
    link: KeeperLink, id_: str, wanted: dict[str, Any], join: str | None
) -> tuple[Command, trio.lowlevel.FdStream]:
    """Start a process on a terminal of its own: our end of that. Raises what ``KeeperLink.spawn`` does."""
    with ExitStack() as ours, ExitStack() as its:
        end, stdin = os.openpty()
        its.callback(os.close, stdin)
        terminal = trio.lowlevel.FdStream(end)
        ours.callback(terminal.close)
        stdout, stderr = [_copied(stdin, its) for _ in range(2)]
        its.pop_all()  # the link owns them from now on
        command = await link.spawn(id_, wanted, stdout, stderr, join, stdin)
        ours.pop_all()
    return command, terminal


def what_is_there(output: trio.lowlevel.FdStream) -> bytes:
    """Return the unread output of an ended process, as much as one read gives; never waits. A terminal's last bytes are
    announced by a thread of the kernel, which on a busy machine may be later than any deadline; a read does not wait
    for the announcement."""
    try:
        return os.read(output.fileno(), READ_BYTES)
    except OSError:  # there is none, no process has the terminal any more, or it is closed
        return b""


def _copied(fd: int, its: ExitStack) -> int:
    copy = os.dup(fd)
    its.callback(os.close, copy)
    return copy
