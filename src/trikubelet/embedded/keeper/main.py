"""The keeper's main loop: starts commands for the agent, reaps processes, and ends everything when the agent is gone.

    anchor ──clone──► keeper, process 1 of a process namespace of its own
      │                  ├── container: process 1 of its own namespaces ── its descendants
      │                  └── …
      └─ dies with the agent's main thread (SIGKILL, by the kernel); the keeper dies with it, and with process 1 of a
         process namespace the kernel kills all processes in it, however often they forked

Root may do that, and any user who may make user namespaces. If neither works there is no anchor, the process itself
keeps the containers, and each has a guard (``keeper.guard``) instead of a namespace.

The control socket carries JSON, one object per packet. From the agent: ``spawn`` (id, join; descriptors: as for
``child.become``) and ``signal`` (id, signal, group). From the keeper: first the isolation, then one ``ended`` (id,
code) for every id that was spawned. Only the agent holds its end: when it closes, the keeper ends.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
from typing import Any, Final, NoReturn

from trikubelet.embedded.keeper import child, guard
from trikubelet.embedded.keeper import syscalls as sys_
from trikubelet.embedded.keeper.root import Root

CONTROL_FD: Final = 3
_PACKET_BYTES_MAX: Final = 4096
_FDS_MAX: Final = 8
_JOIN_FD_MIN: Final = 64  # far from the numbers a child rearranges
_CONTAINER_NAMESPACES: Final = sys_.CLONE_NEWPID | sys_.CLONE_NEWNS | sys_.CLONE_NEWUTS


class Keeper:
    """Owns the mapping of its children to containers and commands."""

    def __init__(self, control: socket.socket, *, namespaces: bool) -> None:
        self._control = control
        self._namespaces = namespaces
        self._pids: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if namespaces else -1

    def run(self, about: dict[str, Any]) -> None:
        """Serve until the agent has gone."""
        wake_read, wake_write = socket.socketpair()
        for end in (wake_read, wake_write):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler in Python nothing is written to the fd
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        self._say(about)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == wake_read.fileno():
                    wake_read.recv(_PACKET_BYTES_MAX)
                    self._collect()
                elif not self._hear():
                    return

    def _say(self, what: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the agent has gone, which ``_hear`` finds
            self._control.send(json.dumps(what).encode())

    def _hear(self) -> bool:
        """Receive one packet. False at the end of the socket."""
        room = socket.CMSG_SPACE(_FDS_MAX * array.array("i").itemsize)
        packet, ancillary, _, _ = self._control.recvmsg(_PACKET_BYTES_MAX, room, socket.MSG_CMSG_CLOEXEC)
        if not packet:
            return False
        fds = array.array("i")
        for _, _, data in ancillary:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        asked = json.loads(packet)
        if "spawn" in asked:
            self._spawn(asked["spawn"], asked["join"], fds.tolist())
        else:
            self._signal(asked["id"], asked["signal"], group=asked["group"])
        return True

    def _spawn(self, id_: str, join: str | None, fds: list[int]) -> None:
        try:
            pid = self._fork(join, fds)
        except OSError as error:  # no memory, no pids left, or the container to join has just ended
            with contextlib.suppress(OSError):
                os.write(fds[1], json.dumps({"error": f"cannot make a process: {error.strerror}"}).encode() + b"\n")
            self._say({"ended": id_, "code": child.START_ERROR_CODE})
        else:
            self._pids[id_] = pid
            self._ids[pid] = id_
        finally:
            for fd in fds:
                os.close(fd)

    def _fork(self, join: str | None, fds: list[int]) -> int:
        if not self._namespaces:
            pid = os.fork()
            if pid == 0:
                guard.run(fds)
            return pid
        if join is None:
            pid = sys_.clone(_CONTAINER_NAMESPACES)
            if pid == 0:
                child.become(fds, own_namespaces=True)
            return pid
        if join not in self._pids:
            raise ProcessLookupError(3, "the container has ended")
        opened = os.pidfd_open(self._pids[join])
        target = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _JOIN_FD_MIN)
        os.close(opened)
        try:
            # The next child is created in the container's process namespace; later ones in our own again.
            sys_.setns(target, sys_.CLONE_NEWPID)
            try:
                pid = sys_.clone(0)
                if pid == 0:
                    child.become(fds, own_namespaces=False, join=target)
            finally:
                sys_.setns(self._own_pids, sys_.CLONE_NEWPID)
            return pid
        finally:
            os.close(target)

    def _signal(self, id_: str, number: int, *, group: bool) -> None:
        pid = self._pids.get(id_)
        if pid is None:  # it has ended; its ``ended`` is on the way
            return
        with contextlib.suppress(ProcessLookupError):
            if not self._namespaces:
                guard.forward(pid, number)
            elif group:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            id_ = self._ids.pop(pid, None)
            if id_ is None:  # an adopted orphan
                continue
            del self._pids[id_]
            code = os.waitstatus_to_exitcode(status)
            self._say({"ended": id_, "code": code if code >= 0 else 128 - code})  # 128 + the signal, as shells do


def main() -> NoReturn:
    """``argv``: number of the control socket, the agent's pid, and an empty directory to try mounts upon."""
    control_fd, agent, staging = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys_.die_with_parent(signal.SIGKILL)
    if os.getppid() != agent:  # the agent has ended already
        os._exit(1)
    if control_fd != CONTROL_FD:
        os.dup2(control_fd, CONTROL_FD, inheritable=False)
        os.close(control_fd)
    os.set_inheritable(CONTROL_FD, False)
    control = socket.socket(fileno=CONTROL_FD)
    reasons = []
    for extra in (0, sys_.CLONE_NEWUSER):
        why_not = _isolate(control, staging, extra)
        reasons.append(why_not)
    sys_.adopt_orphans()
    Keeper(control, namespaces=False).run({"isolation": "none", "reason": "; ".join(reasons)})
    os._exit(0)


def _isolate(control: socket.socket, staging: str, extra: int) -> str:
    """Clone the keeper into a process namespace, and end with it; or return why that is not possible here."""
    read, write = os.pipe()
    user, group = os.geteuid(), os.getegid()
    try:
        pid = sys_.clone(sys_.CLONE_NEWPID | extra)
    except OSError as error:
        os.close(read)
        os.close(write)
        return str(error)
    if pid == 0:
        os.close(read)
        try:
            sys_.die_with_parent(signal.SIGKILL)
            if extra:
                _map_to_itself(user, group)
            _try_container(staging)
        except OSError as error:
            os.write(write, str(error).encode())
            os._exit(1)
        os.close(write)
        Keeper(control, namespaces=True).run({"isolation": "user namespace" if extra else "root", "reason": ""})
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        reason = file.read().decode()
    if reason:
        os.waitpid(pid, 0)
        return reason
    control.close()
    os.waitpid(pid, 0)
    os._exit(0)


def _map_to_itself(user: int, group: int) -> None:
    """In a new user namespace: map the user and group to themselves. No others can be mapped."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def _try_container(staging: str) -> None:
    """Try once what every container needs: some machines allow the namespaces but nothing in them."""
    read, write = os.pipe()
    pid = sys_.clone(_CONTAINER_NAMESPACES)
    if pid == 0:
        try:
            Root(staging).build([], readonly=False)
        except BaseException as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        reason = file.read().decode()
    os.waitpid(pid, 0)
    if reason:
        raise OSError(1, reason)


if __name__ == "__main__":
    main()
