"""The three commands by which the node suite starts and stops its kubelet, where systemd is not the machine's first
process or must not hear of it: ``systemd-run``, ``systemctl`` and ``sudo``.

    python unit_commands.py DIRECTORY systemd-run --unit=NAME COMMAND …        NAME.json, NAME.pid in DIRECTORY

They know as much as the suite asks for: a unit has a command and a log file, is started, killed, restarted and listed.
``node_suite.py`` puts them first in the suite's PATH. A unit's processes stay in the mount namespace of the suite,
which the machine's systemd would leave.
"""

from __future__ import annotations

import fnmatch
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STOP_SECONDS_MAX = 90.0
"""From SIGTERM to SIGKILL, as systemd's DefaultTimeoutStopSec."""
_LOOK_SECONDS = 0.1
NOT_RUNNING = 3
"""The exit code of ``systemctl is-active`` for a unit that does not run."""
NO_SUCH_UNIT = 5


class Units:
    """The units that were started from one directory, which keeps the command and the process id of each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, name: str, command: Sequence[str], log: str) -> None:
        """Define a unit and start it."""
        (self._directory / f"{name}.json").write_text(json.dumps({"command": list(command), "log": log}))
        self.start(name)

    def start(self, name: str) -> None:
        """Start a unit, unless it runs. Raises FileNotFoundError where there is none of that name."""
        if self.process(name):
            return
        unit = json.loads((self._directory / f"{name}.json").read_text())
        with Path(unit["log"]).open("ab") as log:
            started = subprocess.Popen(
                unit["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self._directory / f"{name}.pid").write_text(str(started.pid))

    def kill(self, name: str) -> None:
        """Send SIGTERM to a unit, if it runs."""
        with suppress(ProcessLookupError):
            if process := self.process(name):
                os.kill(process, signal.SIGTERM)

    def stop(self, name: str) -> None:
        """Send SIGTERM, and SIGKILL to a unit that does not end; return when it has ended."""
        self.kill(name)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while process := self.process(name):
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)

    def process(self, name: str) -> int:
        """The process id of a unit that runs, or 0. A process that only waits for its parent to notice has ended."""
        with suppress(OSError, ValueError):
            process = int((self._directory / f"{name}.pid").read_text())
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            return 0 if state in "ZX" else process
        return 0

    def names(self, pattern: str = "*") -> list[str]:
        """The units whose name with ``.service`` matches a shell pattern."""
        found = (path.stem for path in sorted(self._directory.glob("*.json")))
        return [name for name in found if fnmatch.fnmatch(f"{name}.service", pattern)]


def install(directory: Path, state: Path) -> None:
    """Make ``directory`` one in which the three commands are found; their units are kept in ``state``."""
    for path in (directory, state):
        path.mkdir(parents=True)
    for name in ("systemd-run", "systemctl", "sudo"):
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -P {Path(__file__).resolve()} {state} {name} "$@"\n')
        script.chmod(0o755)


def main(words: Sequence[str]) -> int:
    """Carry out one of the commands; the exit code is returned."""
    directory, command, *rest = words
    units = Units(Path(directory))
    match command:
        case "sudo":
            while rest and rest[0].startswith("-"):
                rest.pop(0)
            os.execvp(rest[0], rest)
        case "systemd-run":
            return _systemd_run(units, rest)
        case "systemctl":
            verb, *named = [word for word in rest if not word.startswith("-")] or [""]
            return _systemctl(units, verb, "".join(named[:1]), running_only="--state=running" in rest)
    raise AssertionError(command)


def _systemd_run(units: Units, words: list[str]) -> int:
    if "--version" in words:
        print("systemd 252")  # from 240 on the suite asks for a log that is appended to
        return 0
    name, log = f"run-{os.getpid()}", os.devnull
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word.startswith("--unit="):
            name = _name(word.partition("=")[2])
        elif word in ("-p", "--property"):
            key, _, value = words.pop(0).partition("=")
            if key == "StandardError":
                log = value.removeprefix("append:").removeprefix("file:")
    units.run(name, words, log)
    print(f"Running as unit: {name}.service")
    return 0


def _systemctl(units: Units, verb: str, unit: str, *, running_only: bool) -> int:
    name = _name(unit)
    match verb:
        case "list-units":
            for one in units.names(unit or "*"):
                state = "running" if units.process(one) else "exited"
                if state == "running" or not running_only:
                    print(f"  {one}.service loaded active {state} {one}")
        case "kill":
            units.kill(name)
        case "stop":
            units.stop(name)
        case "start" | "restart" if name not in units.names():
            print(f"unit {unit} not found", file=sys.stderr)
            return NO_SUCH_UNIT
        case "start":
            units.start(name)
        case "restart":
            units.stop(name)
            units.start(name)
        case "is-active":
            return 0 if units.process(name) else NOT_RUNNING
        case "reset-failed" | "daemon-reload" | "mask":
            pass
        case _:
            print(f"systemctl: unknown command {verb} (the node suite of another release may need it)", file=sys.stderr)
            return 1
    return 0


def _name(unit: str) -> str:
    return Path(unit).name.removesuffix(".service")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
