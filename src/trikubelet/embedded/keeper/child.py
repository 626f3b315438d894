"""From a forked process to a container's command, or to a command executed in one.

    forked ──► session, standard streams, cgroup ──► namespaces, root ──► limits, privileges ──► execve
       └───────────────── anything fails: one line of JSON into the status pipe, exit 128 ─────────────┘

The status pipe closes by itself when execve succeeds; that is how the agent learns that the command runs. The process
is described by a JSON object in a memory file: argv, env, cwd, mounts, staging, readonly_root, hostname, uid, gid,
groups, drop_capabilities, no_new_privileges, oom_score_adj, cgroup, limits, terminal (of the standard streams).
``embedded.spec`` writes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import termios
from typing import Any, Final, NoReturn

from trikubelet.embedded.keeper import syscalls as sys_
from trikubelet.embedded.keeper.root import MountRefused, Root

START_ERROR_CODE: Final = 128
STATUS_FD: Final = 3


class CannotStart(Exception):
    """The command cannot be run; the message is for the pod's owner."""


def become(fds: list[int], *, own_namespaces: bool, join: int | None = None, guarded: bool = False) -> NoReturn:
    """Run the command that is described in the first of ``fds``; the others are status pipe, stdin, stdout and stderr.

    ``own_namespaces``: this process was cloned into mount, UTS and process namespaces of its own. ``join``: a pidfd of
    the container whose namespaces to enter. ``guarded``: die with the parent, for there is no namespace that would end
    this process.
    """
    try:
        spec, status, *standard = fds
        # First of all, because errors below are reported by it. The keeper never passes a descriptor below 4.
        os.dup2(status, STATUS_FD, inheritable=False)
        for number, fd in enumerate(standard):
            os.dup2(fd, number)
        with os.fdopen(spec, "rb", closefd=False) as file:
            wanted: dict[str, Any] = json.load(file)
        for fd in sorted(int(name) for name in os.listdir("/proc/self/fd")):
            if fd > STATUS_FD and fd != join:
                with contextlib.suppress(OSError):  # the listing's own
                    os.close(fd)
        os.write(STATUS_FD, f'{{"pid": {os.readlink("/proc/self")}}}\n'.encode())
        _run(wanted, own_namespaces=own_namespaces, join=join, guarded=guarded)
    except (CannotStart, MountRefused) as error:
        _fail(str(error))
    except BaseException as error:
        _fail(f"cannot set up the process: {error!r}")


def _fail(message: str) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(STATUS_FD, json.dumps({"error": message}).encode() + b"\n")
    os._exit(START_ERROR_CODE)


def _run(wanted: dict[str, Any], *, own_namespaces: bool, join: int | None, guarded: bool) -> NoReturn:
    os.setsid()
    if wanted["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that its keys are signals
    os.umask(0o022)
    if wanted["cgroup"]:
        _write(wanted["cgroup"] + "/cgroup.procs", "0")
    if wanted["oom_score_adj"]:
        with contextlib.suppress(OSError):  # lowering it needs a capability
            _write("/proc/self/oom_score_adj", str(wanted["oom_score_adj"]))
    if join is not None:
        sys_.setns(join, sys_.CLONE_NEWNS | sys_.CLONE_NEWUTS)
        os.close(join)
    elif own_namespaces:
        if wanted["hostname"]:
            sys_.set_hostname(os.fsencode(wanted["hostname"]))
        Root(wanted["staging"]).build(wanted["mounts"], readonly=wanted["readonly_root"])
    _limit(wanted["limits"])
    _give_up_privileges(wanted)
    if guarded:  # after the last change of identity, which clears it
        sys_.die_with_parent(signal.SIGKILL)
    try:
        os.chdir(wanted["cwd"])
    except OSError as error:
        raise CannotStart(f"cannot enter the working directory {wanted['cwd']}: {error.strerror}") from error
    _reset_signals()
    _execute(wanted["argv"], wanted["env"])


def _limit(limits: dict[str, int]) -> None:
    for name, wanted in limits.items():
        number = getattr(resource, name)
        _, hard = resource.getrlimit(number)
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(number, (value, value))


def _give_up_privileges(wanted: dict[str, Any]) -> None:
    for number in wanted["drop_capabilities"]:
        with contextlib.suppress(OSError):  # EINVAL: newer than this kernel
            sys_.drop_capability(number)
    try:
        if wanted["groups"] is not None:
            os.setgroups(wanted["groups"])
        if wanted["gid"] is not None:
            os.setresgid(wanted["gid"], wanted["gid"], wanted["gid"])
        if wanted["uid"] is not None:
            os.setresuid(wanted["uid"], wanted["uid"], wanted["uid"])
    except OSError as error:
        raise CannotStart(f"cannot become user {wanted['uid']}, group {wanted['gid']}: {error.strerror}") from error
    if wanted["no_new_privileges"]:
        sys_.no_new_privileges()


def _reset_signals() -> None:
    """Reset ignored signals, which would stay ignored in the command: Python ignores some, and so does the program that
    started the agent, like a shell for background jobs."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    name = argv[0]
    if not name:  # Python would refuse it with an error about its own call
        raise CannotStart("the command is empty")
    if "/" in name:
        candidates = [name]
    else:
        candidates = [f"{directory or '.'}/{name}" for directory in env.get("PATH", "").split(":")]
    denied: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, argv, env)  # noqa: S606 - the purpose of this runtime
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                denied = denied or error
    if denied is not None:
        raise CannotStart(f"cannot execute {name}: {denied.strerror}")
    where = "no such file" if "/" in name else "executable file not found in $PATH"
    raise CannotStart(f"cannot execute {name}: {where}")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
