"""One process of a control plane, and the guard that ends all of them with the test run.

    start ─► running ─┬─ stop (SIGTERM), kill (SIGKILL) ─► stopped ─ start ─► running
                      └─ freeze (SIGSTOP) ─► frozen: connections stay open, nobody answers ─ thaw ─► running

Called by ``control_plane.py``, which owns the order. The processes share the guard's process group. The guard waits for
the end of its standard input, which comes when the test run closes it and also when the test run is killed, and takes
group and directory away. (A parent's death signal would not do: to the kernel the parent is the *thread* that started a
process, and Trio's worker threads come and go.)
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from . import frozen
from .daemon import await_that

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0
_LOG_LINES = 25

# The trap: the kernel hangs up on a group whose last parent dies while one of it is stopped, as by `Component.freeze`.
# setsid: what ends the group has to leave it first. The turns: a killed process writes on for a moment, and a directory
# that gets a new file meanwhile is not removed.
_GUARD = """trap '' HUP
cat
setsid sh -c 'kill -s KILL -- "-$0"; for turn in 1 2 3 4 5 6 7 8 9; do rm -rf "$1" && break; sleep 0.2; done' $$ "$1"
"""


class Guard:
    """Owns the process group of one control plane and, at the end, the removal of ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # else whoever reads ours waits for the guard's end
            process_group=0,
        )

    @property
    def group(self) -> int:
        """The process group to start in."""
        return self._shell.pid

    def end(self) -> None:
        """Has everything killed and removed. Safe to repeat."""
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(STOP_SECONDS_MAX)


class Component:
    """Owns one process. Synchronous: ``start`` returns when ``answers`` says so, ``stop`` when it has ended.

    ``command`` is the program with its flags; what it writes goes to ``log``, over all its starts.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, guard: Guard, answers: Callable[[], bool] = lambda: True
    ) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._guard = guard
        self._answers = answers
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {'running' if self.alive else 'stopped'}>"

    @property
    def alive(self) -> bool:
        """Whether the process is there; a frozen one is."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process, which must have been started."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def start(self) -> None:
        """Starts it. Raises RuntimeError with the end of its log when it ends or does not answer in time."""
        assert not self.alive, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                process_group=self._guard.group,
            )
        await_that(self._is_ready, START_SECONDS_MAX, lambda: f"{self.name} did not get ready\n{self.story()}")

    def stop(self) -> None:
        """Ends it as an operator would. Raises RuntimeError when it takes too long; a stopped one is left as it is."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a crash would; a stopped one is left as it is."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Lets it do nothing at all any more: connections stay, the kernel even accepts new ones, no answer comes."""
        frozen.freeze(self.pid)

    def thaw(self) -> None:
        """Ends `freeze`."""
        frozen.thaw(self.pid)

    def revive(self) -> None:
        """Whatever a test did to it, it runs and answers afterwards."""
        if self.alive:
            self.thaw()
            await_that(self._is_ready, START_SECONDS_MAX, lambda: f"{self.name} did not come back\n{self.story()}")
        else:
            self.start()

    def wait(self) -> None:
        """Until a process ended by somebody else is gone."""
        if self._process is not None:
            self._process.wait(STOP_SECONDS_MAX)

    def story(self) -> str:
        """The end of its log, for a failure."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"{self!r}, {self.log} ends so:", *lines[-_LOG_LINES:]])

    def _is_ready(self) -> bool:
        if not self.alive:
            raise RuntimeError(f"{self.name} ended\n{self.story()}")
        return self._answers()

    def _end(self, number: signal.Signals) -> None:
        if not self.alive:
            return
        self.thaw()  # a frozen one hears nothing but SIGKILL
        os.kill(self.pid, number)
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} did not end on {number.name} in {STOP_SECONDS_MAX:g} s") from None
