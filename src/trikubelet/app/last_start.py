"""Records the command line of each start of the agent in its root directory.

    argv, systemd's unit ─► LastStart ─► last-start.json ─► "start it again with: …", `trikubelet doctor`

A command that finds no agent repeats the line that started the last one. A general hint could name only an agent with
the default flags, which is another agent, on another root directory and possibly on another runtime. The record has no
secrets in it (``app.flags.written_again``). Clients read it, so this module imports nothing that only an agent needs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from trikubelet.app.paths import START_RECORD
from trikubelet.core.masking import MASK
from trikubelet.kit.plain_file import open_plain, put_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RECORD_BYTES_MAX: Final = 16 * 1024
"""A longer command line is not recorded."""
NO_FLAG: Final = "--v=0"
"""Stands for no flags at all, without which a command at a terminal prints its help; it has no effect."""
_CGROUPS: Final = Path("/proc/self/cgroup")
_CGROUP_BYTES_MAX: Final = 8 * 1024


class LastStart(msgspec.Struct, frozen=True):
    """A start of an agent. ``program``: the words that call it; ``flags``: the agent's, without secrets; ``unit``: the
    arguments of ``systemctl`` for the unit that started it, empty without one."""

    program: tuple[str, ...]
    flags: tuple[str, ...]
    unit: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the line that starts such an agent again."""
        if self.unit:
            return shlex.join(("systemctl", *self.unit[:-1], "start", self.unit[-1]))
        return shlex.join((*self.program, *self.flags))

    @property
    def advice(self) -> str:
        """Return advice for starting such an agent again."""
        secrets = f", with the secrets in place of {MASK}" if MASK in self.command else ""
        return f"start it again with: `{self.command}`{secrets}"

    @property
    def known_flags(self) -> list[str]:
        """Return the flags whose values are known: those without a masked secret."""
        return [flag for flag in self.flags if MASK not in flag]


def this_start(argv0: str, flags: Sequence[str], environment: Mapping[str, str]) -> LastStart:
    """Return the start of this process, by the name it was called by and its flags, already without secrets."""
    return LastStart(_program(argv0), tuple(flags) or (NO_FLAG,), _unit(environment))


def record_start(root_dir: Path, start: LastStart) -> None:
    """Record it. A start does not fail because it cannot be recorded: then an older record is removed, which would name
    another command line."""
    record = root_dir / START_RECORD
    content = msgspec.json.encode(start)
    try:
        if last_start(root_dir) == start:  # a full disk is then no problem
            return
        if len(content) > RECORD_BYTES_MAX:
            raise ValueError
        put_plain(record, content + b"\n")
    except (OSError, ValueError):
        with suppress(OSError):
            record.unlink()


def last_start(root_dir: Path) -> LastStart | None:
    """Return the start recorded there. None if there is none, it is damaged, or another user wrote it, whose command
    must not be recommended."""
    try:
        with open_plain(str(root_dir / START_RECORD)) as record:
            if os.fstat(record.fileno()).st_uid not in (0, os.geteuid()):
                return None
            found = msgspec.json.decode(record.read(RECORD_BYTES_MAX + 1), type=LastStart)
    except (OSError, ValueError):
        return None
    return found if found.program and found.flags else None


def _program(argv0: str) -> tuple[str, ...]:
    """Return the shortest words that call this program from any directory."""
    path = os.path.abspath(argv0)
    name = os.path.basename(path)
    if name == "__main__.py":  # python -m trikubelet
        return (sys.executable, "-m", "trikubelet")
    found = shutil.which(name)
    return (name,) if found and os.path.realpath(found) == os.path.realpath(path) else (path,)


def _unit(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the unit whose main process this is. Everything started below a service is in its cgroup, cron's jobs too,
    but only the main process of one like ours has a socket to notify systemd."""
    if not environment.get("NOTIFY_SOCKET"):
        return ()
    try:
        with open_plain(str(_CGROUPS)) as file:
            lines = file.read(_CGROUP_BYTES_MAX).decode(errors="replace").splitlines()
    except OSError:
        return ()
    for line in lines:
        place = line.rpartition(":")[2]
        if line.startswith(("0::", "1:name=systemd:")) and place.endswith(".service"):
            unit = place.rpartition("/")[2]
            return ("--user", unit) if "/user@" in place else (unit,)
    return ()
