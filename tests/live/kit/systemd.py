"""A systemd of a test's own, as PID 1 of its own namespaces, with cgroups of its own to rule.

It starts nothing but itself, and sees the machine's kernel settings read-only. Its cgroups lie below one directory in
every tree of the machine, and it takes that for the root.

    start ─► it answers ─► `command` runs its tools ─► killed with all it started, its cgroups removed
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

from trikubelet.host.cgroups import Hierarchies, read_hierarchies

from . import marked, places
from .daemon import await_that

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSTEMD = Path("/lib/systemd/systemd")
START_SECONDS_MAX = 60.0

# $1: the directory of its cgroups; the rest: the trees.
ENTER = 'root=$1; shift; for tree; do echo $$ > "$tree/$root/cgroup.procs"; done;'
OWN_WORLD = ' exec unshare --cgroup --mount --pid --uts --ipc --fork --kill-child sh -ec "$0" "$root" "$@"'  # $0: BEGIN
BEGIN = """
root=$0
mount --make-rprivate /
for tree; do mount --bind "$tree/$root" "$tree"; done
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mkdir -p /run/systemd/system
printf '[Unit]\\nDefaultDependencies=no\\n' > /run/systemd/system/nothing.target
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    %s --system --unit=nothing.target --show-status=no --log-target=null
"""


class Systemd:
    """Owns one systemd and its cgroups. Use as a context manager; ``hierarchies`` are its trees, as they are seen from
    outside."""

    def __init__(self) -> None:
        if not SYSTEMD.exists():
            raise places.NotInstalled(f"{SYSTEMD} is not there: install systemd")
        self._machine = read_hierarchies()
        self._root = marked.name()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hierarchies(self) -> Hierarchies:
        """Its trees."""
        of = {name: tree / self._root for name, tree in self._machine.of.items()}
        return Hierarchies(self._machine.version, of, tuple(tree / self._root for tree in self._machine.trees))

    @property
    def run(self) -> Path:
        """Its /run, as it is seen from outside."""
        return Path(f"/proc/{self._init}/root/run")

    def command(self, *words: str) -> Sequence[str]:
        """The line that runs one of its own tools."""
        return ["nsenter", f"--target={self._init}", "--mount", "--pid", "--", *words]

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        marked.remove_cgroups(self._root)

    def _begin(self) -> None:
        trees = self._machine.trees
        for tree in trees:
            (tree / self._root).mkdir()
            if (tree / "cpuset.cpus").exists():  # version 1: nobody can live where there are none
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (tree / self._root / file).write_text((tree / file).read_text())
        # It is to end with us, however we end.
        line = [
            "setpriv",
            "--pdeathsig=KILL",
            "sh",
            "-ec",
            ENTER + OWN_WORLD,
            BEGIN % SYSTEMD,
            self._root,
            *map(str, trees),
        ]
        self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL, start_new_session=True)
        await_that(self._answers, START_SECONDS_MAX, lambda: "systemd does not answer")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "systemd has ended"
        try:
            line = self.command("systemctl", "show", "--property=Version")
        except ValueError:  # it has not begun
            return False
        return subprocess.run(line, capture_output=True, check=False).returncode == 0

    @property
    def _init(self) -> int:
        assert self._process is not None
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
