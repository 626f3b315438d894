"""Where peers are measured: with files of undecoded replies, or on a fake runtime, a process of its own with a socket.

Both show the same made-up pods, in which something happens when ``tick`` is called and at no other time.
"""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec
import trio

from trikubelet.benchmark.grid import Mode
from trikubelet.benchmark.process import ProgramEnded, open_program
from trikubelet.fake.population import Population

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from trikubelet.benchmark.grid import Crowd


class Stage(Protocol):
    """The part of either that a measurement uses."""

    @property
    def peer_flags(self) -> Sequence[str]:
        """Flags of the peers."""

    @property
    def pid(self) -> int:
        """The process that does the runtime's work."""

    @property
    def list_bytes(self) -> int:
        """The bytes of one pair of lists; 0 where that is not known."""

    async def tick(self, fraction: float) -> None:
        """Something happens to that fraction of the pods."""

    async def set_latency(self, seconds: float) -> None:
        """Status calls take that long from now on."""

    def question(self) -> dict[str, object]:
        """The request to relist."""

    async def cpu_ns(self) -> int | None:
        """Processor time of the runtime's process so far; None where there is no runtime."""


class Files:
    """Owns the pods, and the files of their lists in ``directory``."""

    peer_flags = ("--bytes",)

    def __init__(self, crowd: Crowd, directory: Path, seed: int) -> None:
        self.pid = os.getpid()
        self.list_bytes = 0
        self._population = Population(crowd.pods, crowd.containers_per_pod, seed)
        self._sandboxes, self._containers = directory / "sandboxes", directory / "containers"
        self._write()

    async def tick(self, fraction: float) -> None:
        """See ``Stage``. Nothing is measured meanwhile, so it may take its time."""
        self._population.tick(fraction)
        self._write()

    def _write(self) -> None:
        self.list_bytes = self._sandboxes.write_bytes(self._population.sandbox_list())
        self.list_bytes += self._containers.write_bytes(self._population.container_list())

    async def set_latency(self, seconds: float) -> None:
        """See ``Stage``: there are no calls."""

    def question(self) -> dict[str, object]:
        """See ``Stage``."""
        return {"do": "observe", "sandboxes": [str(self._sandboxes)], "containers": [str(self._containers)]}

    async def cpu_ns(self) -> int | None:
        """See ``Stage``."""
        return None


class Runtime:
    """Owns nothing: a fake runtime that runs already, asked over its HTTP page."""

    list_bytes = 0

    def __init__(self, pid: int, socket: Path, page: tuple[str, int], *, streaming: bool) -> None:
        self.pid = pid
        self.peer_flags = ("--socket", str(socket), *(("--streaming",) if streaming else ()))
        self._page = page

    async def tick(self, fraction: float) -> None:
        """See ``Stage``."""
        await self._ask("POST", f"/tick?fraction={fraction:f}")

    async def set_latency(self, seconds: float) -> None:
        """See ``Stage``."""
        await self._ask("POST", f"/settings?status-latency={seconds:f}")

    def question(self) -> dict[str, object]:
        """See ``Stage``."""
        return {"do": "relist"}

    async def cpu_ns(self) -> int | None:
        """See ``Stage``."""
        return int(msgspec.json.decode(await self._ask("GET", "/figures"))["process_cpu_ns"])

    async def _ask(self, method: str, path: str) -> bytes:
        """One request on a connection of its own. Raises ProgramEnded when it is not answered well."""
        request = f"{method} {path} HTTP/1.1\r\nhost: {self._page[0]}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        answer = bytearray()
        async with await trio.open_tcp_stream(*self._page) as stream:
            await stream.send_all(request.encode())
            async for part in stream:
                answer += part
        head, _, body = bytes(answer).partition(b"\r\n\r\n")
        if head.split(maxsplit=2)[1:2] != [b"200"]:
            raise ProgramEnded(f"the fake runtime answers {path} with {bytes(answer[:200])!r}")
        return body


@asynccontextmanager
async def open_stage(crowd: Crowd, directory: Path, seed: int) -> AsyncGenerator[Stage, None]:
    """A stage with that crowd while the block lasts. Raises ProgramEnded when the fake runtime cannot start."""
    if crowd.mode is Mode.BYTES:
        yield Files(crowd, directory, seed)
        return
    streaming = crowd.mode is Mode.STREAMED
    socket = directory / "runtime.sock"
    command = [
        *(sys.executable, "-m", "trikubelet", "fake-runtime", "--socket", str(socket), "--http", "127.0.0.1:0"),
        *("--pods", str(crowd.pods), "--containers-per-pod", str(crowd.containers_per_pod), "--seed", str(seed)),
        *("--no-events", "--streaming" if streaming else "--no-streaming"),
    ]
    async with open_program(command, directory / "runtime.log") as program:
        ready = (await program.line()).decode()
        host, _, port = ready.rpartition("//")[2].strip("/\n").rpartition(":")
        yield Runtime(program.pid, socket, (host, int(port)), streaming=streaming)
