"""Starts programs in threads that are not waited for: to start one can take for ever.

A child begins with a copy of every descriptor of this process, and closes all but its own before it is the program.
Each close is a FLUSH to the file system, and one that never answers it (FUSE) holds the child there, beyond the reach
of SIGKILL: while a file on such a file system is read, no program starts. Trio's own ``open_process`` waits for that
whatever is cancelled, in one of the threads that everything else shares; and a system task that called it would hold up
the end of ``trio.run``. A thread that is abandoned holds up neither, so the agent puts its work down in order and on
time. (Its own exit closes files, too: the kernel lets no process go that has one open there.)

    start_program ─► up in time ─► StartedProcess
                  └► given up   ─► counted as late, until it is up: then killed and reaped by its thread
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

import trio

from trikubelet.kit.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_SECONDS_MAX: Final = 5.0
"""For a program to be there. It takes milliseconds, but where descriptors cannot be closed."""
LATE_MAX: Final = 16
"""Abandoned starts. Each is a thread and a child that cannot be killed."""
END_SECONDS_MAX: Final = 2.0
"""For a program to end after it was signalled."""


_LOOK_SECONDS: Final = 0.05
"""Between two looks whether a program has ended, where nothing tells."""


class StartHangs(OSError):
    """The program may be fine, but it has not been started: not within its time (ETIMEDOUT), or not now, for too many
    others have not, or there is no thread or process to spare (EAGAIN)."""


class StartedProcess:
    """A program that runs, in a session of its own. Owns its pipes, and a descriptor that tells when it has ended,
    where there is such a thing: else it is looked for. Its holder calls ``end``, once."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        """Raises OSError where no descriptors are left."""
        self.pid = popen.pid
        self.stdin, self.stdout, self.stderr = map(_stream, (popen.stdin, popen.stdout, popen.stderr))
        self._popen = popen
        self._ended = _pidfd(popen.pid)

    @property
    def returncode(self) -> int | None:
        """Its exit code, below zero for a signal; None while it runs."""
        return self._popen.poll()

    async def wait(self) -> int:
        """Wait for its end; the exit code. For one task at a time."""
        while (code := self.returncode) is None:
            if self._ended is None:
                await trio.sleep(_LOOK_SECONDS)
            else:
                await trio.lowlevel.wait_readable(self._ended)
        return code

    async def end(self, by: signal.Signals) -> None:
        """Close its pipes; signal it and what it has started, if it runs, and wait END_SECONDS_MAX at most, also where
        the caller is cancelled."""
        if self.returncode is None:
            _signal_group(self.pid, by)
        with trio.move_on_after(END_SECONDS_MAX, shield=True):
            for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
                await stream.aclose()
            await self.wait()
        if self._ended is not None:
            os.close(self._ended)


class ProgramStarts:
    """Owns the threads in which programs are started, and which starts are late: begun and abandoned."""

    def __init__(self) -> None:
        self._threads = ThreadPool("programs to be started", LATE_MAX)
        self._late: set[_Start] = set()  # written by the event loop and by the threads, under the lock
        self._lock = threading.Lock()

    async def start(
        self,
        command: Sequence[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> StartedProcess:
        """Start a program whose standard output is a pipe; ``stdin`` and ``stderr`` as subprocess has them, where a
        descriptor stays the caller's. Raises what Popen raises, and StartHangs."""
        if len(self._late) >= LATE_MAX:
            raise StartHangs(errno.EAGAIN, f"{len(self._late)} programs have not been started yet", command[0])
        start = _Start(command, stdin, stderr, environment, self._late, self._lock)
        try:
            with trio.fail_after(START_SECONDS_MAX):
                return StartedProcess(await self._threads.run(start))
        except BaseException as error:
            if (popen := start.give_up()) is not None:  # up, but too late for Trio to hand it over
                _signal_group(popen.pid, signal.SIGKILL)
                self._threads.run_aside(lambda: _reap(popen))
            if isinstance(error, trio.TooSlowError):
                why = "the machine is slow, or a file that is read cannot be closed"
                why = f"not started within {START_SECONDS_MAX:g} s: {why}"
                raise StartHangs(errno.ETIMEDOUT, why, command[0]) from error
            if isinstance(error, BlockingIOError):
                raise StartHangs(errno.EAGAIN, error.strerror, command[0]) from error
            raise

    @property
    def late(self) -> int:
        """The number of abandoned starts that have not ended."""
        return len(self._late)


class _Start:
    """One start, the work of a thread. The holder of the lock decides if it is late."""

    def __init__(
        self,
        command: Sequence[str],
        stdin: int,
        stderr: int,
        environment: Mapping[str, str] | None,
        late: set[_Start],
        lock: threading.Lock,
    ) -> None:
        self._command = list(command)
        self._stdin = stdin
        self._stderr = stderr
        self._environment = environment
        self._late = late
        self._lock = lock
        self._begun = self._given_up = False
        self._popen: subprocess.Popen[bytes] | None = None

    def __call__(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._given_up:
                raise StartHangs(errno.ETIMEDOUT, "given up before it began")  # no caller is left to hear this
            # The side that gives up closes its own: another file may have that number by the time the child is there.
            stdin = os.dup(self._stdin) if self._stdin >= 0 else self._stdin
            self._begun = True
        try:
            return self._started(stdin)
        finally:
            with self._lock:
                self._begun = False
                self._late.discard(self)

    def _started(self, stdin: int) -> subprocess.Popen[bytes]:
        try:
            popen = subprocess.Popen(  # noqa: S603 - the callers' own words
                self._command,
                bufsize=0,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=self._environment,
                start_new_session=True,
            )
        finally:
            if stdin >= 0:
                with suppress(OSError):  # of the file system; the descriptor has gone all the same
                    os.close(stdin)
        with self._lock:
            if not self._given_up:
                self._popen = popen
                return popen
        _signal_group(popen.pid, signal.SIGKILL)
        _reap(popen)
        return popen

    def give_up(self) -> subprocess.Popen[bytes] | None:
        """From now on the thread kills a child that comes up; the caller kills the one that is up already."""
        with self._lock:
            self._given_up = True
            if self._begun and self._popen is None:
                self._late.add(self)
            return self._popen


def _pidfd(pid: int) -> int | None:
    """None where the kernel (before 5.3) or the Python (built where the headers were older) has none. Raises OSError
    where no descriptors are left."""
    try:
        return os.pidfd_open(pid)
    except AttributeError:
        return None
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise


def _stream(pipe: IO[bytes] | None) -> trio.lowlevel.FdStream | None:
    """Return the same end of the pipe, for Trio."""
    if pipe is None:
        return None
    with pipe:
        return trio.lowlevel.FdStream(os.dup(pipe.fileno()))


def _signal_group(pid: int, number: signal.Signals) -> None:
    """It and what it has started. It may have ended by now, or be another user's, as by sudo."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _reap(popen: subprocess.Popen[bytes]) -> None:
    """Close its pipes and wait for its end."""
    with popen:
        pass


if sys.version_info < (3, 11, 4):
    # There Popen keeps the interpreter for itself until a child made by vfork(2) is the program, and so one that hangs
    # would stop the event loop (CPython gh-104372). With fork(2) it waits in a read, as a thread of its own.
    subprocess._USE_VFORK = False  # type: ignore[misc] # documented to be set where need be

STARTS: Final = ProgramStarts()
"""Global, as what hangs are children of this process, and any program of it would hang as well."""
