"""The guard: one small process per container on machines without process namespaces.

    keeper ── guard (adopts orphans) ── command, leader of a session of its own ── its descendants

When the command ends, or on request, the guard ends every descendant: it stops them all first, so that none can fork
while others die, then kills them. It ends with the command's exit code, or 128 and the signal. The guard receives the
signals meant for the command and passes them on. If it is killed itself, the keeper adopts its descendants; they
survive only if agent, keeper and guards are killed at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final, NoReturn

from trikubelet.embedded.keeper import child
from trikubelet.embedded.keeper import syscalls as sys_

_END: Final = signal.SIGRTMIN + 1
_PASSED_ON: Final = frozenset(signal.valid_signals()) - {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGCHLD,
    _END,
    32,  # the C library's own two
    33,
}


def forward(guard: int, number: int) -> None:
    """Signal a guard's command; SIGKILL ends all its processes. Raises ProcessLookupError."""
    os.kill(guard, _END if number == signal.SIGKILL else number)


def run(fds: list[int]) -> NoReturn:
    """The forked guard's main function. ``fds``: what ``child.become`` takes."""
    try:
        code = _guard(fds)
    except BaseException:
        code = child.START_ERROR_CODE
    os._exit(code)


def _guard(fds: list[int]) -> int:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys_.adopt_orphans()
    command = 0
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON | {_END})

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, number)

    def end(_number: int, _frame: object) -> None:
        _kill_descendants()

    command = os.fork()
    if command == 0:
        child.become(fds, own_namespaces=False, guarded=True)
    for fd in fds:
        os.close(fd)
    sys_.die_with_parent(_END)
    for number in _PASSED_ON:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, pass_on)
    signal.signal(_END, end)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == command:
            break
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # the command has ended
    _kill_descendants()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill_descendants() -> None:
    """SIGKILL for all of them, stopped first until a scan finds no new one: a fork bomb cannot outrun that."""
    known: set[int] = set()
    while fresh := descendants(os.getpid()) - known:
        known |= fresh
        _send(fresh, signal.SIGSTOP)
    _send(known, signal.SIGKILL)


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def descendants(ancestor: int) -> set[int]:
    """The pids of every process below ``ancestor``, by one scan of /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    after_name = file.read().rpartition(b")")[2].split()
                if after_name[0] != b"Z":
                    children.setdefault(int(after_name[1]), []).append(int(name))
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            found.add(pid)
            waiting.append(pid)
    return found
