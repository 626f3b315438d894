"""A program that answers lines with lines: a peer, as the benchmark talks to it (``peers.protocol`` says what)."""

from __future__ import annotations

import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from trikubelet.benchmark.lineup import environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

_RECEIVE_BYTES: Final = 1 << 16
ANSWER_BYTES_MAX: Final = 1 << 28
_LAST_WORDS: Final = 300
ENDING_SECONDS_MAX: Final = 10.0
"""For a killed program to end. One that the kernel does not let go by then takes no processor time any more."""


class ProgramEnded(Exception):
    """The program is not there any more; the message is the last it said."""


class Program:
    """Owns what was heard of a program and not yet read."""

    def __init__(self, process: trio.Process, log: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._log = log
        self._heard = bytearray()

    async def ask(self, question: Mapping[str, object]) -> Any:
        """Ask once, and wait for the answer. Raises ProgramEnded."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(msgspec.json.encode(question) + b"\n")
        except trio.BrokenResourceError:
            raise ProgramEnded(self.final_output()) from None
        return msgspec.json.decode(await self.line())

    async def line(self) -> bytes:
        """The next line it says. Raises ProgramEnded."""
        assert self._process.stdout is not None
        while (end := self._heard.find(b"\n")) < 0:
            part = await self._process.stdout.receive_some(_RECEIVE_BYTES)
            if not part or len(self._heard) > ANSWER_BYTES_MAX:
                raise ProgramEnded(self.final_output())
            self._heard += part
        line = bytes(self._heard[:end])
        del self._heard[: end + 1]
        return line

    def kill(self) -> None:
        """End it at once; the part that opened it waits for that."""
        self._process.kill()

    def final_output(self) -> str:
        """The end of what it has written to standard error."""
        said = self._log.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip()
        return said.rpartition("\n")[2] or "it ended without a word"


@asynccontextmanager
async def open_program(command: Sequence[str], log: Path) -> AsyncGenerator[Program, None]:
    """Run it while the block lasts; its standard error is kept in ``log``. It is killed in the end, and
    waited for ``ENDING_SECONDS_MAX`` at most. Raises OSError where it cannot be started."""
    with log.open("wb") as log_file:
        process = await trio.lowlevel.open_process(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log_file, env=environment()
        )
    try:
        yield Program(process, log)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.kill()
        with trio.move_on_after(ENDING_SECONDS_MAX, shield=True):
            await process.stdin.aclose()
            await process.stdout.aclose()
            await process.wait()
