"""Runs a program to its end and returns its standard output, with limits for the time and the output.

Credential plugins are such programs. A program that hangs is killed. A child that a program leaves behind may hold its
pipes open; it is not waited for.
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
"""For the output that is still in the pipes after the program's end."""
OUTPUT_BYTES_MAX: Final = 1024 * 1024
_SAID_CHARS_MAX: Final = 1000


class ProgramFailed(Exception):
    """The program failed. The message is the end of a sentence that begins with the program's name."""


class NotStarted(ProgramFailed):
    """The program could not be started: it is missing, or not executable."""


async def run_program(
    command: Sequence[str], environment: Mapping[str, str], stdin_bytes: bytes = b"", *, run_seconds_max: float
) -> bytes:
    """Run a program with ``stdin_bytes`` as its standard input. Return its output. ``run_seconds_max`` begins after the
    start, which has its own bound (``kit.process_start``). Raises ProgramFailed, also for an exit code other than 0,
    and NotStarted."""
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
            f"has not ended within {run_seconds_max:g} s{f'; its stderr: {complaint}' if complaint else ''}"
        )
    if process.returncode != 0:
        raise ProgramFailed(f"ended with {process.returncode}: {complaint or 'nothing on stderr'}")
    return bytes(said)


async def _begun(command: Sequence[str], environment: Mapping[str, str]) -> StartedProcess:
    try:
        return await process_start.STARTS.start(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, environment=environment
        )
    except StartHangs as error:  # not a failure of the program itself
        raise ProgramFailed(f"cannot be started now: {error.strerror}") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise NotStarted(f"cannot be started: {why}") from error


async def _write(stream: trio.abc.SendStream, stdin_bytes: bytes) -> None:
    """Write all of the input, unless the program stops reading."""
    try:
        async with stream:
            await stream.send_all(stdin_bytes)
    except trio.BrokenResourceError:
        return


async def _read(stream: trio.abc.ReceiveStream, into: bytearray) -> None:
    """Read all of the output, but keep only the allowed amount."""
    async for chunk in stream:
        into += chunk[: OUTPUT_BYTES_MAX - len(into)]
