"""A systemd-logind of a test's own, on a bus of its own: real both, and the machine stays up.

bus (dbus-daemon) ─► systemd-logind, in a mount namespace with its own /run/systemd and settings ─► answers
                └─► programs/systemd_manager.py, in the place of the systemd that would carry a shutdown out
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from . import marked, places
from .daemon import await_that

if TYPE_CHECKING:
    from collections.abc import Sequence

LOGIND = Path("/lib/systemd/systemd-logind")
MANAGER = Path(__file__).parent.parent / "programs" / "systemd_manager.py"
START_SECONDS_MAX = 60.0
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type><listen>%s</listen><auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/>
  </policy>
</busconfig>
"""
OWN_WORLD = """
mount -t tmpfs tmpfs /run/systemd
mkdir -p /run/systemd/seats /run/systemd/sessions /run/systemd/users /run/systemd/inhibit
mount -t tmpfs tmpfs /etc/systemd
mkdir /etc/systemd/logind.conf.d
mount --bind "$1" /etc/systemd/logind.conf.d
exec "$0"
"""


class Logind:
    """Owns the three processes. Use as a context manager. ``address``: of the bus; ``settings``: the directory that it
    takes for /etc/systemd/logind.conf.d."""

    def __init__(self) -> None:
        for program, package in ((LOGIND, "systemd"), (Path("/usr/bin/dbus-daemon"), "dbus-daemon")):
            if not program.exists():
                raise places.NotInstalled(f"{program} is not there: install {package}")
        self._left = ExitStack()
        directory = self._left.enter_context(marked.directory())
        self.address = f"unix:path={directory}/bus"
        self.settings = directory / "settings"
        self._directory = directory
        self._manager: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self._left.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._left.close()

    def shut_down(self) -> None:
        """As ``systemctl poweroff`` does; returns when it was taken note of."""
        self._call("PowerOff", "b", "false")

    def call_off(self) -> None:
        """What was to be started for the shutdown fails. It has begun when no delay is left."""
        assert self._manager is not None
        self._manager.send_signal(signal.SIGUSR1)

    def delays(self) -> list[str]:
        """Who delays a shutdown now."""
        return re.findall(r'"shutdown" "(\w+)" "[^"]*" "delay"', self._call("ListInhibitors"))

    def _call(self, *words: str) -> str:
        where = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
        line = ["busctl", f"--address={self.address}", "call", *where, *words]
        done = subprocess.run(line, check=False, capture_output=True, text=True)
        assert 0 == done.returncode, f"{words}: {done.stderr}; {self._story()}"
        return done.stdout

    def _begin(self) -> None:
        self.settings.mkdir()
        configuration = self._directory / "bus.conf"
        configuration.write_text(BUS % self.address)
        self._run("bus", ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile"])
        await_that((self._directory / "bus").exists, START_SECONDS_MAX, self._story)
        world = ["unshare", "--mount", "--propagation=private", "sh", "-ec", OWN_WORLD, str(LOGIND), str(self.settings)]
        logind = self._run("logind", world)
        self._manager = self._run("manager", [sys.executable, str(MANAGER), self.address, str(logind.pid)])
        await_that(lambda: "ready" in (self._directory / "manager.log").read_text(), START_SECONDS_MAX, self._story)
        await_that(self._answers, START_SECONDS_MAX, self._story)

    def _answers(self) -> bool:
        line = ["busctl", f"--address={self.address}", "status", "org.freedesktop.login1"]
        return subprocess.run(line, capture_output=True, check=False).returncode == 0

    def _run(self, name: str, line: Sequence[str]) -> subprocess.Popen[str]:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DBUS_SYSTEM_BUS_ADDRESS": self.address}
        with (self._directory / f"{name}.log").open("wb") as said:
            # It is to end with us, however we end.
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", *line],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=environment,
                text=True,
                start_new_session=True,
            )
        self._left.callback(process.wait)
        self._left.callback(process.kill)
        return process

    def _story(self) -> str:
        """What all of them said."""
        return "; ".join(f"{path.name}: {path.read_text(errors='replace')}" for path in self._directory.glob("*.log"))
