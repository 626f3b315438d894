"""This machine once more, to install things on: what is changed there is changed nowhere else, and gone at the end.

An overlay over the machine's root, in memory, seen by a mount namespace of its own; /proc, /dev and /sys are the
machine's, and of agents and kubelets that ran here nothing is left. No process runs in it but those that are started
through it. It looks as if systemd ran it, or not, as the test wants: then ``systemctl`` is a script that writes down
what it was told.
"""

from __future__ import annotations

import subprocess
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Self

from . import places

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROOT = "/mnt"
_SET_UP = f"""
set -e
mount -t tmpfs throwaway {_ROOT}
mkdir {_ROOT}/upper {_ROOT}/work {_ROOT}/root
mount -t overlay throwaway -o lowerdir=/,upperdir={_ROOT}/upper,workdir={_ROOT}/work {_ROOT}/root
for there in dev sys; do mount --rbind /$there {_ROOT}/root/$there; done
mount -t tmpfs throwaway {_ROOT}/root/run
rm -rf {_ROOT}/root/var/cache/trikubelet {_ROOT}/root/var/lib/kubelet {_ROOT}/root/etc/trikubelet
rm -rf {_ROOT}/root/var/lib/trikubelet {_ROOT}/root/etc/kubernetes
"""
_THERE = "echo there\nexec sleep infinity\n"
_TOLD = "/systemctl.told"
_SYSTEMCTL = f'#!/bin/sh\necho "$@" >>{_TOLD}\n'
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


class Throwaway:
    """Owns the copy and every process started in it. Use as a context manager."""

    root: ClassVar[str] = f"{_ROOT}/root"
    _unshared: ClassVar[Sequence[str]] = ("--mount", "--propagation=private")
    """Options of unshare(1): what the copy has to itself."""

    def _set_up(self) -> str:
        """The commands, beside those of every copy, that set this one up."""
        return f"mount --rbind /proc {self.root}/proc\n"

    def _entered(self) -> list[str]:
        """Options of nsenter(1) for what the copy has to itself."""
        return [f"--mount=/proc/{self._holder.pid}/ns/mnt"]

    def __enter__(self) -> Self:
        places.require_machine()
        made = ["unshare", *self._unshared, "sh", "-c", _SET_UP + self._set_up() + _THERE]
        self._started: list[subprocess.Popen[bytes]] = []
        self._holder = subprocess.Popen(made, stdout=subprocess.PIPE, text=True)
        try:
            assert self._holder.stdout is not None
            assert "there\n" == self._holder.stdout.readline(), "no copy of this machine could be made"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()

    def run(self, *command: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
        """A command to its end, however it ends; ``given`` on standard input."""
        line = self.inside(command)
        done = subprocess.run(line, input=given, capture_output=True, timeout=120, check=False, env=_ENVIRONMENT)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    def must(self, *command: str, given: bytes = b"") -> str:
        """What a command printed. Raises AssertionError with all it said when it does not end well."""
        done = self.run(*command, given=given)
        assert 0 == done.returncode, (command, done.stdout, done.stderr)
        return done.stdout

    def start(self, *command: str) -> None:
        """A command that lives until `stop`, or until the copy goes."""
        self._started.append(subprocess.Popen(self.inside(command), env=_ENVIRONMENT, stdout=subprocess.DEVNULL))

    def stop(self) -> None:
        """End what was started."""
        while self._started:
            process = self._started.pop()
            process.kill()
            process.wait()

    def inside(self, command: Iterable[str]) -> list[str]:
        """A command as it is run in the copy."""
        return ["nsenter", *self._entered(), "--", "chroot", self.root, *command]

    # ---- files ----

    def write(self, path: str, text: str | bytes, mode: int = 0o644) -> None:
        """A file, with the directories above it."""
        self.must("mkdir", "-p", str(PurePosixPath(path).parent))
        given = text if isinstance(text, bytes) else text.encode()
        self.must("sh", "-c", 'cat >"$1"', "sh", path, given=given)
        self.must("chmod", f"{mode:o}", path)

    def there(self, path: str) -> bool:
        """Whether there is such a file, directory or link."""
        return 0 == self.run("ls", "-d", path).returncode

    # ---- systemd ----

    def pretend_systemd(self) -> None:
        """From now on it looks as if systemd ran this machine."""
        self.must("mkdir", "-p", "/run/systemd/system")
        self.write("/usr/bin/systemctl", _SYSTEMCTL, 0o755)

    def systemd_was_told(self) -> list[str]:
        """What systemctl was called with since this was asked last, oldest first."""
        told = self.run("cat", _TOLD).stdout.splitlines()
        self.must("rm", "-f", _TOLD)
        return told
