"""Systemd as if: a ``systemctl`` that does nothing and notes what it was asked, and slices that take their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trikubelet.host.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCRIPT = """#!/bin/sh
[ "$1" = show ] && cat {version} && exit 0
echo "$@" >> {log}
[ -e {fails} ] || exit 0
cat {fails} >&2
exit 5
"""


class Systemctl:
    """``slices``: systemd's, as far as this one can do it. ``control``: where systemd keeps properties; ``units``: the
    directory of drop-ins."""

    def __init__(self, directory: Path) -> None:
        self.control = directory / "control"
        self.units = directory / "units"
        self._log, self._fails, self._version = (directory / name for name in ("asked", "fails", "version"))
        self._version.write_text("Version=252.38-1~deb12u1\n")
        script = directory / "systemctl"
        script.write_text(SCRIPT.format(log=self._log, fails=self._fails, version=self._version))
        script.chmod(0o755)
        self.slices = Slices((str(script),), self.control, self.units)

    def set_version(self, version: str) -> None:
        """Set the version that it reports."""
        self._version.write_text(f"Version={version}\n")

    def asked(self) -> list[str]:
        """Return the calls since the last time."""
        found = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.write_text("")
        return found

    def fail(self, words: str) -> None:
        """From now on it fails with these words; with none it does not."""
        if words:
            self._fails.write_text(words)
        else:
            self._fails.unlink()


class SlowSlices(Slices):
    """Slices without a process: each command takes a second and is obeyed half-way, so that of one that nobody waits
    for any more either is true. ``units`` are those there are; ``more_seconds`` are for the next command about one."""

    def __init__(self, control: Path, trees: Sequence[Path]) -> None:
        super().__init__(control=control, units=control / "units")
        self.control = control
        self.units: set[str] = set()
        self.more_seconds: dict[str, float] = {}
        self._trees = trees

    async def _run(self, *words: str) -> bytes:
        if words[0] == "show":
            await trio.lowlevel.checkpoint()
            return b"Version=252"
        unit = next(word for word in words if word.endswith(".slice"))
        await trio.sleep(0.5)
        if words[0] == "stop":
            self.units.discard(unit)
            for directory in [found for tree in self._trees for found in tree.rglob(unit)]:
                directory.rmdir()
        elif words[0] == "start":
            self.units.add(unit)
        else:
            (self.control / f"{unit}.d").mkdir(parents=True, exist_ok=True)
        await trio.sleep(0.5 + self.more_seconds.pop(unit, 0.0))
        return b""
