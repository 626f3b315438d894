"""Systemd's slices as cgroups of pods: created, changed and stopped with ``systemctl``.

Upstream talks to systemd over D-Bus. ``systemctl`` does the same over systemd's private socket, so a node needs neither
a bus nor a library for it, and an operator can repeat each command by hand. Each call starts a process, so only changes
are sent. Properties are set for this boot only; their files below ``/run`` are removed with the slice.

``systemctl`` cannot set one property that upstream sets, ``DefaultDependencies=no``. With default dependencies a
shutdown of the machine stops slices, and so their containers, together with the services and not after them. Therefore
two drop-ins are written before the first slice starts. Systemd reads them when it loads a slice: until the next boot,
slices that an earlier agent started keep their dependencies.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.containers.slices import ACCOUNTING, properties, version_of
from trikubelet.kit.plain_file import put_plain
from trikubelet.kit.program import ProgramFailed, run_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trikubelet.core.containers.cgroup_values import Setting

SYSTEMCTL: Final = ("systemctl", "--no-ask-password", "--quiet")
CONTROL: Final = Path("/run/systemd/system.control")
UNITS: Final = Path("/run/systemd/system")
DROP_IN: Final = "10-trikubelet.conf"
DROP_IN_TEXT: Final = """\
# Written by trikubelet: pods outlive the services that a shutdown stops.
[Unit]
DefaultDependencies=no
"""
SECONDS_MAX: Final = 25.0
"""For one command: the default timeout of a D-Bus call."""
AT_ONCE_MAX: Final = 4
NOT_LOADED: Final = "not loaded"
"""Part of systemctl's error for an unknown unit."""
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Slices:
    """Owns the properties set on each slice. Methods raise OSError if systemd rejects a command, or times out."""

    def __init__(self, systemctl: Sequence[str] = SYSTEMCTL, control: Path = CONTROL, units: Path = UNITS) -> None:
        self._systemctl = systemctl
        self._control = control
        self._units = units
        self._version = 0
        self._limiter = trio.CapacityLimiter(AT_ONCE_MAX)
        self._held: dict[str, dict[str, str]] = {}

    async def hold(self, unit: str, settings: Iterable[Setting]) -> None:
        """Start this slice if needed, with these settings in addition to its earlier ones."""
        before = self._held.get(unit, {})
        wanted = before | ACCOUNTING | properties(settings, await self._ask_version())
        # Set before the start, so that no process runs in the slice without its limits.
        await self._set_properties(unit, {name: value for name, value in wanted.items() if before.get(name) != value})
        if unit not in self._held:
            await self._run("start", unit)
        self._held[unit] = wanted

    async def change(self, unit: str, settings: Iterable[Setting]) -> None:
        """Change the settings of a slice that is not the agent's."""
        await self._set_properties(unit, properties(settings, await self._ask_version()))

    async def loosen(self, unit: str) -> None:
        """Let this slice and those below it start without default dependencies. Systemd applies drop-ins to slices by
        the prefix of their names since version 239."""
        await trio.lowlevel.checkpoint()
        stem = unit.removesuffix(".slice")
        for name in (unit, f"{stem}-.slice"):
            place = self._units / f"{name}.d"
            place.mkdir(mode=0o755, parents=True, exist_ok=True)
            put_plain(place / DROP_IN, DROP_IN_TEXT.encode())

    def is_known(self, unit: str) -> bool:
        """True if this slice was started and not yet stopped, by this agent or, since the last boot, by another."""
        return unit in self._held or self._properties(unit).is_dir()

    async def release(self, unit: str) -> None:
        """Stop this slice and everything in it."""
        try:
            await self._run("stop", unit)
        except OSError as error:
            if NOT_LOADED not in str(error):
                raise
        self._held.pop(unit, None)
        shutil.rmtree(self._properties(unit), ignore_errors=True)

    def _properties(self, unit: str) -> Path:
        """Return systemd's directory for the properties of ``set-property``."""
        return self._control / f"{unit}.d"

    async def _set_properties(self, unit: str, values: Mapping[str, str]) -> None:
        if values:
            words = [f"{name}={value}" for name, value in values.items()]
            await self._run("set-property", "--runtime", unit, *words)

    async def _ask_version(self) -> int:
        """Return systemd's version; queried once."""
        if not self._version:
            self._version = version_of((await self._run("show", "--property=Version")).decode())
        return self._version

    async def _run(self, *words: str) -> bytes:
        async with self._limiter:
            try:
                return await run_program([*self._systemctl, *words], _ENVIRONMENT, run_seconds_max=SECONDS_MAX)
            except ProgramFailed as error:
                raise OSError(f"systemctl {' '.join(words)}: {error}") from error

    def __repr__(self) -> str:
        return f"<Slices: {len(self._held)} held>"
