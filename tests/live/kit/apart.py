"""A copy of this machine with a network and process ids of its own, in which containerd runs at its usual places.

A page that begins on an empty machine is followed there: /etc, /var, ports, bridges and packet filters are the copy's,
and every process in it ends with it. Cgroups are the machine's, so pods get the parent ``cgroup``, which goes at the
end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from . import marked, places
from .daemon import await_that
from .throwaway import Throwaway

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SOCKET = "/run/containerd/containerd.sock"
_STATE = "/var/lib/containerd"
"""No overlay can lie on the copy's overlay, so containerd's directory is a tmpfs."""


class Apart(Throwaway):
    """Owns the copy, its containerd, and the cgroups of its pods. ``shared``: directories that are the machine's own
    there."""

    _unshared: ClassVar[Sequence[str]] = (*Throwaway._unshared, "--net", "--pid", "--fork", "--kill-child")

    def __init__(self, shared: Iterable[Path] = ()) -> None:
        self.cgroup = marked.name()
        self._shared = (*shared, places.LIVE.parent.parent, Path(sys.prefix), places.cache())

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        marked.remove_cgroups(self.cgroup)

    def start_containerd(self) -> None:
        """Start containerd, or start it again as a restart of its unit would: its containers live on."""
        self.end_containerd()
        self.start("sh", "-c", "exec containerd >>/containerd.log 2>&1")
        version = ("ctr", "version")
        await_that(lambda: 0 == self.run(*version).returncode, 90, lambda: self.run("cat", "/containerd.log").stdout)

    def end_containerd(self) -> None:
        """End containerd, if it runs."""
        if self.run("pkill", "-x", "containerd").returncode == 0:
            await_that(lambda: self.run("pgrep", "-x", "containerd").returncode == 1, 60, lambda: "containerd stays")

    def terminate(self, process: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM to a command that runs in the copy: nsenter waits for it, and does not hand signals on."""
        subprocess.run(["pkill", "-TERM", "-P", str(process.pid)], check=False)

    def _set_up(self) -> str:
        mounts = [f"mkdir -p {self.root}{path} && mount --bind {path} {self.root}{path}" for path in self._shared]
        own = [
            f"mount -t proc proc {self.root}/proc",
            f"mkdir -p {self.root}{_STATE} && mount -t tmpfs throwaway {self.root}{_STATE}",
            "ip link set lo up",
        ]
        return "\n".join([*mounts, *own, ""])

    def _entered(self) -> list[str]:
        of = f"/proc/{self._holder.pid}/ns"
        return [*super()._entered(), f"--net={of}/net", f"--pid={of}/pid_for_children"]
