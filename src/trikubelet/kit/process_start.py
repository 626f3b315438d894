"""Starts programs in threads that can be abandoned, because a start may never return.

A child process begins with a copy of every descriptor of this process, and closes all but its own before it executes
the program. Each close is a FLUSH request to the file system. A file system that never answers it (FUSE) blocks the
child there, even against SIGKILL: while a file on such a file system is read, no program starts. Trio's
``open_process`` waits for that despite cancellation, in one of the threads that all other work shares; and a system
task that called it would block the end of ``trio.run``. An abandoned thread blocks neither, so the agent shuts down in
order and on time. (Its own exit closes files, too: the kernel keeps a process that has a file open there.)

    start_program ─► started in time ─► StartedProcess
                  └► abandoned       ─► counted as late until it has started: then killed and reaped by its thread
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
"""For a program to start. That takes milliseconds, unless descriptors cannot be closed."""
LATE_MAX: Final = 16
"""Abandoned starts. Each holds a thread and a child that cannot be killed."""
END_SECONDS_MAX: Final = 2.0
"""For a program to end after the signal."""


_LOOK_SECONDS: Final = 0.05
"""The polling period for the end of a program, without a pidfd."""


class StartHangs(OSError):
    """The program could not be started: not in time (ETIMEDOUT), or not now because too many starts hang or no thread
    or process is available (EAGAIN). The program itself may be fine."""


class StartedProcess:
    """A running program, in its own session. Owns its pipes and, if the kernel has pidfds, a descriptor that reports
    its end; otherwise the end is polled for. The holder calls ``end`` once."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        """Raises OSError if no descriptors are left."""
        self.pid = popen.pid
        self.stdin, self.stdout, self.stderr = map(_stream, (popen.stdin, popen.stdout, popen.stderr))
        self._popen = popen
        self._ended = _pidfd(popen.pid)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while the program runs."""
        return self._popen.poll()

    async def wait(self) -> int:
        """Wait for the program's end. Return the exit code. For one task at a time."""
        while (code := self.returncode) is None:
            if self._ended is None:
                await trio.sleep(_LOOK_SECONDS)
            else:
                await trio.lowlevel.wait_readable(self._ended)
        return code

    async def end(self, by: signal.Signals) -> None:
        """Close the pipes, signal the program and its children if it runs, and wait at most END_SECONDS_MAX, also if
        the caller is cancelled."""
        if self.returncode is None:
            _signal_group(self.pid, by)
        # Shielded: usually the caller is being cancelled here, and the program would stay a zombie.
        with trio.move_on_after(END_SECONDS_MAX, shield=True):
            for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
                await stream.aclose()
            await self.wait()
        if self._ended is not None:
            os.close(self._ended)


class ProgramStarts:
    """Owns the threads in which programs are started, and the late starts: begun and abandoned."""

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
        """Start a program whose standard output is a pipe; ``stdin`` and ``stderr`` as in subprocess; a descriptor
        stays the caller's. Raises the exceptions of Popen, and StartHangs."""
        if len(self._late) >= LATE_MAX:
            raise StartHangs(errno.EAGAIN, f"{len(self._late)} programs have not been started yet", command[0])
        start = _Start(command, stdin, stderr, environment, self._late, self._lock)
        try:
            with trio.fail_after(START_SECONDS_MAX):
                return StartedProcess(await self._threads.run(start))
        except BaseException as error:
            if (popen := start.give_up()) is not None:  # it started, but too late for Trio to return it
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
        """The number of abandoned starts that still run."""
        return len(self._late)


class _Start:
    """One start, run by a thread. The lock decides between the thread and the caller that abandons it."""

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
                raise StartHangs(errno.ETIMEDOUT, "abandoned before it began")  # no caller is left to see this
            # Duplicated: the caller that abandons this start closes its own, and the number may be reused meanwhile.
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
                with suppress(OSError):  # an error of the file system; the descriptor is closed nevertheless
                    os.close(stdin)
        with self._lock:
            if not self._given_up:
                self._popen = popen
                return popen
        _signal_group(popen.pid, signal.SIGKILL)
        _reap(popen)
        return popen

    def give_up(self) -> subprocess.Popen[bytes] | None:
        """Abandon the start: from now on the thread kills the child. Return a child that has started already, which the
        caller kills."""
        with self._lock:
            self._given_up = True
            if self._begun and self._popen is None:
                self._late.add(self)
            return self._popen


def _pidfd(pid: int) -> int | None:
    """Return a pidfd; None if the kernel (before 5.3) or Python (built with older headers) has none. Raises OSError if
    no descriptors are left."""
    try:
        return os.pidfd_open(pid)
    except AttributeError:
        return None
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise


def _stream(pipe: IO[bytes] | None) -> trio.lowlevel.FdStream | None:
    """Return the same end of the pipe as a Trio stream."""
    if pipe is None:
        return None
    with pipe:
        return trio.lowlevel.FdStream(os.dup(pipe.fileno()))


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a program and its children. It may have ended by now, or belong to another user, as with sudo."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _reap(popen: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a child and wait for its end."""
    with popen:
        pass


if sys.version_info < (3, 11, 4):
    # These versions hold the interpreter lock until a child of vfork(2) executes its program, so a child that hangs
    # would stop the event loop (CPython gh-104372). With fork(2) Popen waits in a read, without the lock.
    subprocess._USE_VFORK = False  # type: ignore[misc] # documented as settable

STARTS: Final = ProgramStarts()
"""Global, because a start that hangs is a child of this process: any other start in it would hang as well."""
