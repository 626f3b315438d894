"""Runs a program that answers on its standard output: for so long, keeping so much of its output, and to its end.

Plugins that make credentials are such programs. A program that hangs is killed; a child that a program leaves behind
and that holds its pipes open is not waited for.
"""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.kit import process_start
from trikubelet.kit.process_start import StartHangs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.kit.process_start import StartedProcess

LEFT_OVER_SECONDS_MAX: Final = 2.0
"""For what is still in its pipes when it has ended."""
OUTPUT_BYTES_MAX: Final = 1024 * 1024
_SAID_CHARS_MAX: Final = 1000


class ProgramFailed(Exception):
    """The program's error, as the end of a sentence that begins with its name."""


class NotStarted(ProgramFailed):
    """The program could not be started: it is not there, or cannot be run."""


async def run_program(
    command: Sequence[str], environment: Mapping[str, str], stdin_bytes: bytes = b"", *, run_seconds_max: float
) -> bytes:
    """Return its output, with ``stdin_bytes`` as its standard input; ``run_seconds_max`` from when it is started, which
    is bounded, too (``kit.process_start``). Raises ProgramFailed, also where it does not end with 0, and NotStarted."""
    said, complained = bytearray(), bytearray()
    process = await _begun(command, environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write, process.stdin, stdin_bytes)
            nursery.start_soon(_read, process.stdout, said)
            nursery.start_soon(_read, process.stderr, complained)
            with trio.move_on_after(run_seconds_max) as run:
                await process.wait()
            left_over_seconds = 0 if run.cancelled_caught else LEFT_OVER_SECONDS_MAX
            nursery.cancel_scope.deadline = trio.current_time() + left_over_seconds
    finally:
        await process.end(signal.SIGKILL)
    lines = complained.decode("utf-8", "replace")[-_SAID_CHARS_MAX:].split("\n")
    complaint = " | ".join(filter(None, map(str.strip, lines)))
    if run.cancelled_caught:
        raise ProgramFailed(
            f"has not ended within {run_seconds_max:g} s{f', and says: {complaint}' if complaint else ''}"
        )
    if process.returncode != 0:
        raise ProgramFailed(f"ended with {process.returncode}: {complaint or 'it says nothing on stderr'}")
    return bytes(said)


async def _begun(command: Sequence[str], environment: Mapping[str, str]) -> StartedProcess:
    try:
        return await process_start.STARTS.start(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, environment=environment
        )
    except StartHangs as error:  # which says nothing about the program
        raise ProgramFailed(f"cannot be started now: {error.strerror}") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise NotStarted(f"cannot be started: {why}") from error


async def _write(stream: trio.abc.SendStream, stdin_bytes: bytes) -> None:
    """All of it, if the program cares to read it."""
    try:
        async with stream:
            await stream.send_all(stdin_bytes)
    except trio.BrokenResourceError:
        return


async def _read(stream: trio.abc.ReceiveStream, into: bytearray) -> None:
    """All of it, of which only so much is kept."""
    async for chunk in stream:
        into += chunk[: OUTPUT_BYTES_MAX - len(into)]
