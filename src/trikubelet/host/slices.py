"""Systemd's slices, as cgroups of pods: made, changed and taken down by its own tool, ``systemctl``.

Upstream speaks to systemd over D-Bus. ``systemctl`` does the same over systemd's private socket, so that a node needs
neither a bus nor a library for it, and what was done can be read, and done again, by hand. It costs a process, so only
changes are sent. Properties are set for this boot only; what systemd keeps of them on its disk in memory goes with the
slice.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.containers.slices import ACCOUNTING, properties
from trikubelet.kit.program import ProgramFailed, run_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trikubelet.core.containers.cgroup_values import Setting

SYSTEMCTL: Final = ("systemctl", "--no-ask-password", "--quiet")
CONTROL: Final = Path("/run/systemd/system.control")
SECONDS_MAX: Final = 25.0
"""For one command: what D-Bus gives a call."""
AT_ONCE_MAX: Final = 4
NOT_LOADED: Final = "not loaded"
"""In its error for a unit it does not have."""
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Slices:
    """Owns the properties set on each slice. Raises OSError for what systemd refuses, or does not do in time."""

    def __init__(self, systemctl: Sequence[str] = SYSTEMCTL, control: Path = CONTROL) -> None:
        self._systemctl = systemctl
        self._control = control
        self._limiter = trio.CapacityLimiter(AT_ONCE_MAX)
        self._held: dict[str, dict[str, str]] = {}

    async def hold(self, unit: str, settings: Iterable[Setting]) -> None:
        """Start this slice if needed, with these settings in addition to those it was given before."""
        before = self._held.get(unit, {})
        wanted = before | ACCOUNTING | properties(settings)
        news = [f"{name}={value}" for name, value in wanted.items() if before.get(name) != value]
        if news:
            await self._run("set-property", "--runtime", unit, *news)
        if unit not in self._held:
            await self._run("start", unit)
        self._held[unit] = wanted

    def is_known(self, unit: str) -> bool:
        """Whether this slice was started and not yet stopped, by this agent or, since the last boot, by another."""
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
        """Where systemd keeps the properties of ``set-property``."""
        return self._control / f"{unit}.d"

    async def _run(self, *words: str) -> None:
        async with self._limiter:
            try:
                await run_program([*self._systemctl, *words], _ENVIRONMENT, run_seconds_max=SECONDS_MAX)
            except ProgramFailed as error:
                raise OSError(f"systemctl {' '.join(words)}: {error}") from error

    def __repr__(self) -> str:
        return f"<Slices: {len(self._held)} held>"
