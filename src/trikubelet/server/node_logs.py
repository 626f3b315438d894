"""GET /logs/…: the node's own logs, as files below /var/log, and by query the journals of its services.

    /logs/            the directory                 /logs/?query=kubelet   the journal of a service
    /logs/syslog      a file                        /logs/?query=/syslog   a file, with tailLines and pattern

No request can leave /var/log: pods may mount it and put links there (``host.beneath``). A service without a journal is
searched for as a file. Filter programs run for at most ``SECONDS_MAX``, and are killed when the client disconnects;
only the data being sent is held in memory. A file system mounted there may hang. So files are opened, listed and read
in threads, and a hanging one delays only readers below the same first name (``kit.disk_steps``). (upstream-behaviour.md
§1.21, §1.25)
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.node_logs import OPTIONS, filter_command, journal_command, node_log_query, service_files
from trikubelet.httpd.messages import Response, bare
from trikubelet.kit import process_start
from trikubelet.kit.disk_steps import DiskSteps, DiskUnavailable
from trikubelet.kit.process_start import StartHangs
from trikubelet.kit.thread_shares import ThreadShares
from trikubelet.server.node_log_files import BLOCK_BYTES, FileText, open_file, open_or_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.node_logs import NodeLogQuery
    from trikubelet.httpd.messages import Request
    from trikubelet.kit.process_start import StartedProcess

ROOT: Final = Path("/var/log")
SECONDS_MAX: Final = 30.0
"""Time for a filter program, in seconds, as upstream has it. timeout(1) enforces it and ends a whole pipeline."""
RUNNING_MAX: Final = 8
"""Programs that run at the same time; others wait for their turn, for ``SECONDS_MAX`` at most."""
PLACE_SECONDS_MAX: Final = SECONDS_MAX + 5.0
"""Time for which a program has its place, in seconds. By then timeout(1) has ended it, but a client may not read its
output for hours."""
NOTHING: Final = b"-- No entries --"


class NodeLogs:
    """Owns the number of running programs. ``queries``: they are allowed at all (``enableSystemLogQuery``)."""

    def __init__(self, *, queries: bool, root: Path = ROOT, threads: ThreadShares | None = None) -> None:
        self._queries = queries
        self._root = str(root)
        self._threads = threads or ThreadShares("the node's logs")
        self._running = trio.CapacityLimiter(RUNNING_MAX)

    async def answer(self, request: Request, path: str = "") -> Response:
        """Return a file, a directory, or the result of a query."""
        await trio.lowlevel.checkpoint()
        try:
            if not any(option in request.query for option in OPTIONS):
                return await self._plain(path)
            if not self._queries:
                return bare("queries are disabled on this node (set enableSystemLogQuery)", HTTPStatus.FORBIDDEN)
            query = node_log_query(request.query, request.repeated.get("query", ()))
            return await self._file(query, query.file) if query.file else await self._of_services(query)
        except ValueError as error:
            return bare(str(error), HTTPStatus.BAD_REQUEST)
        except FileNotFoundError:
            return bare("404 page not found", HTTPStatus.NOT_FOUND)
        except trio.TooSlowError:
            why = f"{RUNNING_MAX} queries of this node's logs are running already (try again later)"
            return bare(why, HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": f"{SECONDS_MAX:g}"})
        except (DiskUnavailable, StartHangs) as error:
            return bare(f"{error.filename}: {error.strerror}", HTTPStatus.INTERNAL_SERVER_ERROR)
        except OSError as error:
            return bare(error.strerror or str(error), HTTPStatus.FORBIDDEN)

    def _steps(self, path: str) -> DiskSteps:
        """Return the disk steps of one reader. Each first name below /var/log has threads of its own, because one of
        them may be a mount that hangs."""
        names = [name for name in path.split("/") if name not in ("", ".")]
        return DiskSteps(self._threads, os.path.join(self._root, *names[:1]))

    async def _plain(self, path: str) -> Response:
        """Return a file or a directory unfiltered. Raises OSError."""
        disk = self._steps(path)
        try:
            found = await disk.run(partial(open_or_list, disk, self._root, path))
        except BaseException:
            disk.leave()
            raise
        if isinstance(found, bytes):
            return Response(headers={"content-type": "text/html; charset=utf-8"}, body=found)
        return _poured(FileText(disk, found))

    async def _file(self, query: NodeLogQuery, path: str) -> Response:
        """Return a file through the query's filter. Raises OSError."""
        disk, command = self._steps(path), filter_command(query)
        text: FileText | None = None
        try:
            file = await disk.run(partial(open_file, disk, self._root, path))
            if not command:
                text = FileText(disk, file)
                return _poured(text)
            os.set_blocking(file.fileno(), True)  # the program shares the file's description
            return _poured(await self._program(command, file.fileno()))
        finally:
            if text is None:
                disk.leave()

    async def _of_services(self, query: NodeLogQuery) -> Response:
        """Return the journal if there is one, else the first existing file. Raises FileNotFoundError."""
        with suppress(FileNotFoundError):  # a machine without journalctl
            text = await self._program(journal_command(query))
            try:
                begun = await text.first()
            except BaseException:  # the client has disconnected, and the program has no other owner
                await text.aclose()
                raise
            if begun and not begun.startswith(NOTHING):
                return _poured(text)
            await text.aclose()
        for path in chain.from_iterable(map(service_files, query.services)):
            with suppress(FileNotFoundError, IsADirectoryError):
                return await self._file(query, path)
        raise FileNotFoundError

    async def _program(self, command: Sequence[str], source: int = subprocess.DEVNULL) -> ProgramText:
        """Start a program, once there is room. Raises FileNotFoundError if it does not exist."""
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(command[0])
        text = ProgramText(self._running)
        await text.start(command, source)
        return text


class ProgramText:
    """The output of a program, as a response's body. Owns its process and its place among the running ones."""

    def __init__(self, running: trio.CapacityLimiter) -> None:
        self._running = running
        self._has_place = False
        self._place_time = trio.CancelScope()
        self._process: StartedProcess | None = None
        self._read = b""

    async def start(self, command: Sequence[str], source: int) -> None:
        """Wait for a place and run the program on ``source``, within its time limit. Raises trio.TooSlowError if no
        place became free in time, and OSError or StartHangs if the program cannot be started; then the place is free
        again."""
        with trio.fail_after(SECONDS_MAX):
            await self._running.acquire_on_behalf_of(self)
        self._has_place = True
        limited = ["timeout", f"{SECONDS_MAX:g}", *command]
        try:
            self._process = await process_start.STARTS.start(limited, stdin=source)
        except BaseException:
            self._give_place_back()
            raise
        trio.lowlevel.spawn_system_task(self._give_place_back_in_time)

    async def _give_place_back_in_time(self) -> None:
        with self._place_time:
            await trio.sleep(PLACE_SECONDS_MAX)
            self._give_place_back()

    def _give_place_back(self) -> None:
        if self._has_place:
            self._has_place = False
            self._running.release_on_behalf_of(self)

    async def first(self) -> bytes:
        """Return the beginning of the output, which stays readable; empty if there is none."""
        self._read = await self._receive()
        return self._read

    def __aiter__(self) -> ProgramText:
        return self

    async def __anext__(self) -> bytes:
        block, self._read = self._read or await self._receive(), b""
        if not block:
            raise StopAsyncIteration
        return block

    async def _receive(self) -> bytes:
        assert self._process is not None, "it was not started"
        assert self._process.stdout is not None, "it has a pipe"
        return bytes(await self._process.stdout.receive_some(BLOCK_BYTES))

    async def aclose(self) -> None:
        """Kill the program and its children; also a cancelled caller waits for that."""
        self._place_time.cancel()
        try:
            if self._process is not None:
                # The whole group, because a timeout(1) that has only just forked ends without passing the signal on.
                await self._process.end(signal.SIGTERM)
        finally:
            self._give_place_back()


def _poured(body: FileText | ProgramText) -> Response:
    return Response(headers={"content-type": "text/plain; charset=utf-8"}, body=body)
