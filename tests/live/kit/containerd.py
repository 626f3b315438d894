"""A containerd for the live tests, as the distribution ships it or of the 2.x line: how it is configured, started and
given images, and what its own tools tell of it. What any runtime of the tests does is in ``daemon.py``.

Called by the fixtures in ``tests/live/conftest.py``.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from . import configuration, images, places
from .daemon import Daemon
from .events import EventLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def distribution() -> tuple[configuration.Programs, Callable[..., str]]:
    """The distribution's containerd and the configuration format it reads. Raises NotInstalled."""
    containerd = places.program("containerd")
    programs = configuration.Programs(
        containerd=containerd,
        ctr=places.program("ctr"),
        runc=places.program("runc"),
        shims=containerd.parent,
        plugins=places.network_plugins(),
    )
    return programs, configuration.version_2


def newer() -> tuple[configuration.Programs, Callable[..., str]]:
    """The containerd 2.x and runc that install.sh built, and their configuration format. Raises NotInstalled."""
    containerd = places.built("containerd", places.CONTAINERD_VERSION, "containerd")
    programs = configuration.Programs(
        containerd=containerd,
        ctr=places.built("containerd", places.CONTAINERD_VERSION, "ctr"),
        runc=places.built("runc", places.RUNC_VERSION, "runc"),
        shims=containerd.parent,
        plugins=places.network_plugins(),
    )
    return programs, configuration.version_3


class Containerd(Daemon):
    """Owns one running containerd; see `Daemon`. `ctr` may be called by several threads."""

    name = "containerd"

    def __init__(self, programs: configuration.Programs, configure: Callable[..., str]) -> None:
        self._programs = programs
        self._text = configure
        super().__init__()

    @property
    def version(self) -> str:
        """As ``containerd --version`` has it, for instance ``2.2.9``; a distribution adds its own suffix."""
        told = subprocess.run([self._programs.containerd, "--version"], capture_output=True, text=True, check=True)
        return told.stdout.split()[2].removeprefix("v")

    @property
    def program(self) -> Path:
        """The program of the daemon."""
        return self._programs.containerd

    @property
    def major(self) -> int:
        """1 or 2: container events, RuntimeConfig and handler features are there from 2 on."""
        return int(self.version.split(".")[0])

    def ctr(self, *words: str, seconds: float = 60) -> str:
        """What ``ctr`` prints, asked in the namespace the CRI uses. Raises RuntimeError with its complaint."""
        command = [str(self._programs.ctr), "-a", str(self._layout.socket), "-n", "k8s.io", *words]
        done = subprocess.run(self.inside(command), capture_output=True, text=True, timeout=seconds, check=False)
        if done.returncode:
            raise RuntimeError(f"ctr {' '.join(words)} failed: {done.stderr.strip()}")
        return done.stdout

    def tasks(self) -> dict[str, int]:
        """The running process of each container and sandbox, by id. Unchanged means: not restarted."""
        rows = (line.split() for line in self.ctr("tasks", "list").splitlines()[1:])
        return {row[0]: int(row[1]) for row in rows if row[2] == "RUNNING"}

    def events(self) -> EventLog:
        """A log of containerd's own events from when it is entered; see `EventLog`. One restart ends it."""
        listen = [str(self._programs.ctr), "-a", str(self._layout.socket), "-n", "k8s.io", "events"]

        def speak() -> None:
            self.ctr("namespaces", "label", "k8s.io", f"heard={time.monotonic_ns()}")

        return EventLog(self.inside(listen), speak)

    def trust(self, address: str, known_as: str = "") -> None:
        """Lets images be pulled from the registry at ``address`` (host and port), which speaks plain HTTP; ``known_as``
        is whose images those are by their names, if not its own."""
        known = self._layout.registries / (known_as or address)
        known.mkdir(parents=True, exist_ok=True)  # of a registry that was there before, by chance
        (known / "hosts.toml").write_text(f'server = "http://{address}"\n')

    def _command(self) -> tuple[list[str], Mapping[str, str]]:
        path = f"{self._programs.shims}{os.pathsep}{places.SEARCH_PATH}"
        return [str(self._programs.containerd), "--config", str(self._layout.config)], {**os.environ, "PATH": path}

    def _kill_tasks(self) -> None:
        """Kill all tasks. A task that never started, and one that containerd wrongly takes for running, can only be
        deleted beneath the CRI, which neither stops nor removes them ("failed to get task pid: context canceled",
        "cannot delete running task")."""
        super()._kill_tasks()
        for id_ in self.ctr("tasks", "list", "--quiet").split():
            with suppress(RuntimeError):  # it has gone meanwhile
                self.ctr("tasks", "delete", "--force", id_)

    def _configure(self) -> None:
        self._layout.config.write_text(self._text(self._layout, self._programs, images.PAUSE))

    def _import_images(self) -> None:
        self.ctr("images", "import", "--all-platforms", str(images.imported()))
