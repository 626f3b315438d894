"""A container's root: the machine's own file system with the pod's volumes in it, in a mount namespace of its own.

Nothing is ever created on the machine's file system for this. The new root is a small tmpfs in which every entry of
``/`` is bound; where a volume's mount point does not exist, the nearest directory above it that does is covered by a
tmpfs with the same entries bound in it, and the mount point is made there:

    /            tmpfs: usr, etc, var … bound from the machine, and the made mount point ``page``
    /page        the pod's emptyDir
    /dev         tmpfs: null, tty, shm … bound, and the made file ``termination-log``

Before anything is mounted, everything is made a slave of the machine's mounts: what is mounted here does not propagate
there. In a chroot, the directory that is the root becomes the root of the mount namespace first. Called in a forked
child that is about to become a container, never in the keeper.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any, Final

from trikubelet.embedded.keeper import syscalls as sys_

if TYPE_CHECKING:
    from collections.abc import Iterable

TMPFS_DATA: Final = "size=16m,nr_inodes=8192,mode=755"
"""Options of each covering tmpfs: for mount points, and for files that a container writes next to them."""

_OLD: Final = "/.old-root"
_PROC: Final = "/proc"
_NEVER_READONLY: Final = frozenset({"proc", "dev"})
# statvfs' bits and mount's, which differ in one: what a remount must keep, or an unprivileged one is refused.
_KEPT_FLAGS: Final = (
    (2, sys_.MS_NOSUID),
    (4, sys_.MS_NODEV),
    (8, sys_.MS_NOEXEC),
    (1024, sys_.MS_NOATIME),
    (2048, sys_.MS_NODIRATIME),
    (4096, sys_.MS_RELATIME),
)


class MountRefused(Exception):
    """A mount cannot be made; the message names it."""


class Root:
    """Owns one container's mount namespace while it is built. ``staging``: an empty directory to build it on."""

    def __init__(self, staging: str) -> None:
        self._staging = staging
        self._covers: list[str] = []  # the tmpfses of ours
        self._placed: list[str] = []

    def build(self, mounts: Iterable[dict[str, Any]], *, readonly: bool) -> None:
        """Make the new root and enter it. ``mounts``: container_path, host_path, readonly, recursive. Raises OSError,
        and MountRefused for a mount that cannot be made."""
        _own_all_mounts()
        sources = [(_open(mount), mount) for mount in mounts]
        self._enter(readonly)
        for fd, mount in sources:
            try:
                self._place(fd, mount)
            except OSError as error:
                raise MountRefused(
                    f"cannot mount {mount['host_path']} at {mount['container_path']}: {error.strerror}"
                ) from error
            finally:
                os.close(fd)
        # Refused where parts of /proc are hidden from us; the machine's own then stays, with the machine's pids.
        with contextlib.suppress(OSError):
            sys_.mount("proc", "/proc", "proc", sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC)
        sys_.detach(_OLD)
        os.rmdir(_OLD)
        if readonly:
            for cover in self._covers:
                _remount_readonly(cover)

    def _enter(self, readonly: bool) -> None:
        new = self._staging
        sys_.mount("tmpfs", new, "tmpfs", sys_.MS_NOSUID | sys_.MS_NODEV, TMPFS_DATA)
        sys_.mount(None, new, None, sys_.MS_UNBINDABLE)  # or it would be bound into itself
        _mirror("/", new)
        os.mkdir(new + _OLD)
        sys_.pivot_root(new, new + _OLD)
        os.chdir("/")
        sys_.mount(None, "/", None, sys_.MS_PRIVATE)
        self._covers.append("/")
        if readonly:
            for entry in os.scandir("/"):
                if (
                    entry.is_dir(follow_symlinks=False)
                    and f"/{entry.name}" != _OLD
                    and entry.name not in _NEVER_READONLY
                ):
                    sys_.make_readonly(f"/{entry.name}")

    def _place(self, fd: int, mount: dict[str, Any]) -> None:
        target = os.path.normpath(mount["container_path"])
        if target == "/":
            raise MountRefused(f"cannot mount {mount['host_path']} over the root directory")
        real = os.path.realpath(target)
        if real == _PROC or real.startswith(f"{_PROC}/"):  # the container's own would cover it
            raise MountRefused(
                f"cannot mount {mount['host_path']} at {mount['container_path']}: {_PROC} shows the container's own "
                "processes, and nothing can be mounted there; choose another mountPath"
            )
        self._ensure(target, is_directory=stat.S_ISDIR(os.fstat(fd).st_mode))
        target = os.path.realpath(target)
        sys_.mount(f"/proc/self/fd/{fd}", target, None, sys_.MS_BIND | sys_.MS_REC)
        if mount["recursive"]:
            sys_.make_readonly(target)
        elif mount["readonly"]:
            _remount_readonly(target)
        self._placed.append(target)

    def _ensure(self, target: str, *, is_directory: bool) -> None:
        """Make a mount point of the right kind at ``target`` if there is none."""
        if os.path.exists(target):
            if os.path.isdir(target) != is_directory:
                raise MountRefused(f"{target} is {'no' if is_directory else 'a'} directory on this machine")
            return
        base = os.path.dirname(target)
        while not os.path.exists(base):
            base = os.path.dirname(base)
        if not os.path.isdir(base):
            raise MountRefused(f"cannot make {target}: {base} is not a directory")
        real = os.path.realpath(base)
        if not self._is_ours(real):
            self._cover(real)
        target = os.path.join(real, os.path.relpath(target, base))
        os.makedirs(target if is_directory else os.path.dirname(target), mode=0o755, exist_ok=True)
        if not is_directory:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))

    def _is_ours(self, real: str) -> bool:
        """True if a directory may be created in ``real``: it is a tmpfs of ours, or a volume of this container, where
        every runtime creates mount points."""
        if any(real == placed or real.startswith(placed + "/") for placed in self._placed):
            return True
        device = os.stat(real).st_dev
        return any(os.stat(cover).st_dev == device for cover in self._covers)

    def _cover(self, directory: str) -> None:
        """Cover ``directory`` with a tmpfs that has the same entries."""
        below = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sys_.mount("tmpfs", directory, "tmpfs", sys_.MS_NOSUID, TMPFS_DATA)
            self._covers.append(directory)
            _mirror(f"/proc/self/fd/{below}", directory)
        finally:
            os.close(below)


def _own_all_mounts() -> None:
    """Cut the mount namespace's mounts off from the machine's, and make the root directory the root of them all.

    In a chroot the root directory may be no mount, and the mount that it is in cannot be reached from there: every
    change below it would be visible to the machine, and pivot_root would fail. Joining the mount namespace once more
    leads to its root.
    """
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        sys_.setns(namespace, sys_.CLONE_NEWNS)
        sys_.mount(None, "/", None, sys_.MS_REC | sys_.MS_SLAVE)
        if os.path.samestat(os.fstat(root), os.stat("/")):
            return
        os.fchdir(root)
        path = os.getcwd()
        sys_.mount(path, path, None, sys_.MS_BIND | sys_.MS_REC)
        os.chdir(path)
        sys_.pivot_root(".", ".")
        sys_.detach(".")  # the former root lies over the new one
        os.chdir("/")
    finally:
        os.close(root)
        os.close(namespace)


def _open(mount: dict[str, Any]) -> int:
    try:
        return os.open(mount["host_path"], os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise MountRefused(
            f"cannot mount {mount['host_path']} at {mount['container_path']}: {error.strerror}"
        ) from error


def _mirror(source: str, target: str) -> None:
    """Bind every entry of ``source`` in ``target``; links are recreated. Entries removed meanwhile are left out."""
    status = os.stat(source)
    with contextlib.suppress(OSError):  # only root can, and not in a namespace of one user
        os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    for entry in os.scandir(source):
        try:
            _mirror_entry(entry, f"{target}/{entry.name}")
        except FileNotFoundError:
            continue


def _mirror_entry(entry: os.DirEntry[str], target: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
        return
    if entry.is_dir(follow_symlinks=False):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    sys_.mount(entry.path, target, None, sys_.MS_BIND | sys_.MS_REC)


def _remount_readonly(target: str) -> None:
    had = os.statvfs(target).f_flag
    kept = sum(flag for bit, flag in _KEPT_FLAGS if had & bit)
    sys_.mount(None, target, None, sys_.MS_BIND | sys_.MS_REMOUNT | sys_.MS_RDONLY | kept)
