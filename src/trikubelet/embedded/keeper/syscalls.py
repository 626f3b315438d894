"""The system calls that Python 3.11 has no function for: clone3, mount, pivot_root, setns, prctl.

Every function raises OSError as the calls of ``os`` do. ``PyDLL`` keeps the interpreter's lock during a call: so
``clone`` returns twice to the same interpreter in the same state.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_NOATIME: Final = 1024
MS_NODIRATIME: Final = 2048
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_UNBINDABLE: Final = 1 << 17
MS_PRIVATE: Final = 1 << 18
MS_SLAVE: Final = 1 << 19
MS_RELATIME: Final = 1 << 21
MNT_DETACH: Final = 2

_PR_SET_PDEATHSIG: Final = 1
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38

# Numbers of calls younger than the C libraries that occur; since 5.0 they are the same on every architecture but alpha.
_CLONE3: Final = 435
_MOUNT_SETATTR: Final = 442
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_MOUNT_ATTR_RDONLY: Final = 1
# pivot_root has no wrapper in the C library and a number per architecture.
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "armv7l": 218, "s390x": 217, "ppc64le": 203}

_libc = ctypes.PyDLL(None, use_errno=True)


def _checked(result: int, what: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what or None)
    return result


def clone(flags: int) -> int:
    """Fork into new namespaces and return the child's pid, or 0 in the child. For processes with one thread only."""
    sigchld = 17
    arguments = (ctypes.c_uint64 * 8)(flags, 0, 0, 0, sigchld, 0, 0, 0)
    return _checked(_libc.syscall(_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments)), "clone3")


def setns(fd: int, flags: int) -> None:
    """Join the namespaces behind ``fd``: a pidfd, or one file of /proc/PID/ns."""
    _checked(_libc.setns(fd, flags), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    _checked(
        _libc.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data)),
        f"mount {target}",
    )


def detach(target: str) -> None:
    """umount2(2), lazily."""
    _checked(_libc.umount2(_bytes(target), MNT_DETACH), f"umount {target}")


def make_readonly(target: str) -> None:
    """Everything mounted at and below ``target`` becomes read-only. Raises OSError ENOSYS before Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    _checked(
        _libc.syscall(
            _MOUNT_SETATTR,
            _AT_FDCWD,
            _bytes(target),
            _AT_RECURSIVE,
            ctypes.byref(attributes),
            ctypes.c_size_t(ctypes.sizeof(attributes)),
        ),
        f"read-only {target}",
    )


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root of this mount namespace and put the former one at ``old``, below it."""
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root is not known for {os.uname().machine}")
    _checked(_libc.syscall(number, _bytes(new), _bytes(old)), "pivot_root")


def die_with_parent(signal: int) -> None:
    """Get ``signal`` when the thread that forked this process ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal), 0, 0, 0), "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "PR_SET_CHILD_SUBREAPER")


def no_new_privileges() -> None:
    """No later execve may gain privileges."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "PR_SET_NO_NEW_PRIVS")


def drop_capability(number: int) -> None:
    """Take a capability out of the bounding set: dropped permanently with the next execve."""
    _checked(_libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0), f"drop capability {number}")


def set_hostname(name: bytes) -> None:
    """The host name in this UTS namespace."""
    _checked(_libc.sethostname(name, ctypes.c_size_t(len(name))), "sethostname")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
