"""Runs a command, and sees to it that nothing the command started outlives it.

    python packaging/attended.py [--finally WORDS] [--grace SECONDS] COMMAND [WORD ...]

    running ─┬─ the command ends ──────────────► grace ─► (--finally) ─► its exit code; 1 where something was left
             ├─ interrupt, SIGTERM, SIGHUP: it ──┤
             │  is given time to end properly    │
             └─ it is killed ────────────────────┘

The Makefile starts the tests so, and `packaging/nightly.py` every stage. To the kernel this process is the parent of
whoever has lost his own (a "child subreaper"), so that all that was ever started below the command is found there,
whatever its environment, session or mount namespace, also when the command was killed. What is still alive a moment
after the command ended is named and killed; a command that held and left something behind has not held. If this
process is killed itself, or whoever started it, the command is told to end. ``--finally`` is run at the very end: it
takes away what is no process. A command that held has not where that does not, and that has its own bound. It stands
in a session of its own, with nothing to read: who types Ctrl-C again, because the end takes long, does not end it.

An interrupt of the terminal (Ctrl-C, Ctrl-\\) reaches the command without us, so it is not handed on; SIGTERM is, and
so is SIGHUP, as a SIGTERM. Elsewhere than on Linux it is the command alone.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

# All of these together are what `.ci/run` waits for one of us (ATTENDANT_SECONDS_MAX there).
ORDERLY_SECONDS_MAX = 25
"""For a command that was told to end. `.ci/run` has make killed five seconds later."""
GRACE_SECONDS_MAX = 60.0
"""For what ends by itself once the command has, on a machine that has much else to do."""
HURRIED_SECONDS_MAX = 5.0
"""The same, when the command was told to end or was killed: then something is expected to be left."""
KILL_SECONDS_MAX = 20.0
FINALLY_SECONDS_MAX = 300
"""For ``--finally``. A sweep itself waits four minutes for another to end, and can then say for whom."""
LEFT_TOLD_MAX = 20

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_HEARD = (*_OF_TERMINAL, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says; the exit code."""
    parser = argparse.ArgumentParser(prog="attended", description="Run a command that leaves nothing behind.")
    parser.add_argument("--finally", default="", metavar="WORDS", dest="last", help="run this when all has ended")
    parser.add_argument("--grace", type=float, default=GRACE_SECONDS_MAX, metavar="SECONDS", help="to end by itself")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    words = parser.parse_args(arguments)
    if not words.command:
        parser.error("name a command")
    if sys.platform != "linux":
        os.execvp(words.command[0], words.command)
    code = attend(words.command, words.grace)
    last = _run_last(shlex.split(words.last)) if words.last else 0
    return code or last


def attend(command: Sequence[str], grace_seconds_max: float) -> int:
    """The command's exit code (128 and the number of the signal that killed it), once nothing of it is alive.

    No signal is heard until there is a command to hand it to: who was killed by one between would leave it alone."""
    above = os.getppid()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != above:  # it ended before the kernel knew that we want to hear of it
        os.kill(os.getpid(), signal.SIGTERM)
    pid = _start(command, blocked)
    told = _pass_signals(pid)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    status = _wait(pid)
    for number in (*_HEARD, signal.SIGALRM):
        # There is nobody any more to hand them to. (Not SIG_IGN, which whoever is started from now on would inherit.)
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _, __: None)
    signal.alarm(0)
    code = os.waitstatus_to_exitcode(status)
    hurried = told or code < 0
    left = _end_descendants(min(grace_seconds_max, HURRIED_SECONDS_MAX) if hurried else grace_seconds_max)
    _tell_left(left)
    if code < 0:
        return 128 - code
    return code or (1 if left and not told else 0)


def _run_last(command: Sequence[str]) -> int:
    """Its exit code. It hears signals like any process, but those that end us are not handed on, and those of
    the terminal, which are for a whole group, do not reach it: it is the end. (A group of its own would be in the
    background of that terminal, which may stop who writes to it from there; a session of its own has none.)"""
    late: list[int] = []

    def kill(number: int, _: object) -> None:
        late.append(number)
        _send(pid, signal.SIGKILL)

    pid = _start(command, signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD), apart=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    signal.signal(signal.SIGALRM, kill)
    signal.alarm(FINALLY_SECONDS_MAX)
    code = os.waitstatus_to_exitcode(_wait(pid))
    signal.alarm(0)
    if late:
        _tell(f"{shlex.join(command)}: has not ended after {FINALLY_SECONDS_MAX} s, and is killed")
    _tell_left(left := _end_descendants(HURRIED_SECONDS_MAX))
    return 128 - code if code < 0 else code or (1 if left else 0)


def _tell_left(left: Sequence[str]) -> None:
    for line in left[:LEFT_TOLD_MAX]:
        _tell(f"left behind, and killed: {line}")


def _tell(what: str) -> None:
    with suppress(OSError):  # nobody reads it any more: a terminal that has hung up, or the end of a pipe
        print(f"attended: {what}", file=sys.stderr, flush=True)


def _start(command: Sequence[str], blocked: set[signal.Signals | int], *, apart: bool = False) -> int:
    """Its process, which hears what is not ``blocked``; ``apart``: that no terminal has to do with."""
    above = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(command, above, blocked, apart)
    return pid


def _become(command: Sequence[str], above: int, blocked: set[signal.Signals | int], apart: bool) -> NoReturn:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != above:
        os._exit(128 + signal.SIGTERM)
    if apart:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in _HEARD:  # what came since is for the command, not for Python in it
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # this Python itself ignores
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        _tell(f"{command[0]}: {error.strerror}")
        os._exit(127)


def _pass_signals(pid: int) -> list[int]:
    """From now on who ends us ends the command; which signals told us to is in the list."""
    told: list[int] = []

    def end(number: int, _: object) -> None:
        if number not in _OF_TERMINAL:
            _send(pid, signal.SIGTERM)
        if not told:
            signal.alarm(ORDERLY_SECONDS_MAX)
        told.append(number)

    def kill(_: int, __: object) -> None:
        _send(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    for number in _HEARD:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup wants it so
            signal.signal(number, end)
    return told


def _wait(pid: int) -> int:
    """How the command ended; orphans that end meanwhile are taken note of, as init would."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return status


def _end_descendants(grace_seconds_max: float) -> list[str]:
    """Waits for those that end by themselves and kills the others; these, in words."""
    began = time.monotonic()
    left: dict[int, str] = {}
    while alive := _descendants():
        passed = time.monotonic() - began
        if passed > grace_seconds_max + KILL_SECONDS_MAX:
            return [f"{line} (and it does not end)" if one in alive else line for one, line in left.items()]
        if passed > grace_seconds_max:
            for one in alive:
                left.setdefault(one, _in_words(one))
                _send(one, signal.SIGKILL)
        time.sleep(0.02)
    return list(left.values())


def _descendants() -> set[int]:
    """Every process below this one that has not ended. Those of our own that have are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return set()
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:  # the name before the state may hold anything
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in "ZX":
            parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        above = waiting.pop()
        below = [one for one, parent in parents.items() if parent == above]
        found.update(below)
        waiting += below
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, number)


def _in_words(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return f"{pid} {line[:200]}"
    except OSError:
        return f"{pid} (which has ended)"


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


if __name__ == "__main__":
    sys.exit(main())
