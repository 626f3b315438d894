"""One virtual machine: started, stopped, rebooted, cut from its power, and asked through ssh.

    off ── start ─► running ─┬─ reboot ──► running (another boot)
     ▲                       ├─ power_off ─► off
     │                       └─ cut_power ─► off (lost: whatever the guest had not written to its disk)
     └───────────────────────────┘

The emulated processor is 10 to 20 times slower than the host's, so every deadline here is in minutes.
"""

from __future__ import annotations

import shlex
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from live.kit.daemon import await_that
from live.kit.network import free_port

from .qemu import Shape

if TYPE_CHECKING:
    from pathlib import Path

    from .qemu import Image

BOOT_SECONDS_MAX: Final = 600.0
END_SECONDS_MAX: Final = 300.0
COMMAND_SECONDS_MAX: Final = 300.0
_UNREACHABLE: Final = 255
"""ssh's own exit code."""


class Machine:
    """Owns the process of QEMU, the connection to the guest and the files ``console`` and ``ssh`` in ``directory``."""

    def __init__(self, image: Image, disk: Path, directory: Path, shape: Shape | None = None) -> None:
        self.disk = disk
        self._image = image
        self._directory = directory
        self._shape = shape or Shape()
        self._port = 0
        self._qemu: subprocess.Popen[bytes] | None = None
        self._connection: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """True while the machine has power."""
        return self._qemu is not None and self._qemu.poll() is None

    def start(self) -> None:
        """Switch the machine on; return when systemd has started everything. Raises RuntimeError with the console."""
        assert not self.running, "the machine is on"
        self._port = free_port()
        command = self._image.machine(self.disk, self._port, self._shape)
        with (self._directory / "qemu.log").open("ab") as log:
            self._qemu = subprocess.Popen(
                command, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        await_that(self._connected, BOOT_SECONDS_MAX, lambda: f"no ssh: {self._story()}", every_seconds=1)
        self.run("systemctl is-system-running --wait", codes=(0, 1))  # 1: a unit has failed, which a test may want

    def run(self, command: str, *, stdin: str = "", codes: tuple[int, ...] = (0,)) -> str:
        """Run a shell command as root and return its output. Raises RuntimeError unless its exit code is expected."""
        done = self.attempt(command, stdin=stdin)
        if done.returncode not in codes:
            raise RuntimeError(f"{command!r} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def attempt(self, command: str, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a shell command as root, whatever its result."""
        return subprocess.run(
            self._ssh("-S", "ssh", "root@127.0.0.1", command),
            cwd=self._directory,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )

    def write(self, path: str, text: str) -> None:
        """Write a file, in one step for its readers. Its directory is made."""
        quoted, beside = shlex.quote(path), shlex.quote(f"{path}.new")
        self.run(f"mkdir -p $(dirname {quoted}) && cat >{beside} && mv {beside} {quoted}", stdin=text)

    def send(self, source: Path, path: str) -> None:
        """Copy a file of the host to the machine."""
        with source.open("rb") as content:
            command = self._ssh("-S", "ssh", "root@127.0.0.1", f"cat >{shlex.quote(path)}")
            subprocess.run(command, cwd=self._directory, stdin=content, timeout=COMMAND_SECONDS_MAX, check=True)

    def reboot(self) -> None:
        """``systemctl reboot``; return when the next boot is done."""
        self._leave("systemctl reboot")
        self.start()

    def power_off(self) -> None:
        """``systemctl poweroff``; return when the machine is off."""
        self._leave("systemctl poweroff")

    def cut_power(self) -> None:
        """Switch the machine off without a word to the guest. Nothing to do for one that is off."""
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
        self._disconnect()

    def wait(self) -> None:
        """Return when the machine is off."""
        assert self._qemu is not None, "the machine is off"
        self._qemu.wait()

    def shell(self) -> str:
        """Return the command that opens a shell on the machine."""
        return shlex.join(self._ssh("root@127.0.0.1"))

    def collect(self) -> None:
        """Write the journal of all boots to ``journal.log``. Nothing to do if the machine is off."""
        if self.running:
            journal = self.attempt("journalctl --no-pager -o short-precise")
            (self._directory / "journal.log").write_text(journal.stdout + journal.stderr)

    def _leave(self, command: str) -> None:
        assert self._qemu is not None, "the machine is off"
        qemu = self._qemu
        self.run(command, codes=(0, _UNREACHABLE))  # the connection may end before the command
        try:
            qemu.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{command!r} did not end the machine: {self._story()}") from None
        self._disconnect()

    def _connected(self) -> bool:
        if not self.running:
            raise RuntimeError(f"QEMU has ended: {self._story()}")
        if self._connection is None or self._connection.poll() is not None:
            self._connection = subprocess.Popen(
                self._ssh("-M", "-S", "ssh", "-N", "root@127.0.0.1"),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return (self._directory / "ssh").exists()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection.wait()
        with suppress(FileNotFoundError):
            (self._directory / "ssh").unlink()

    def _ssh(self, *words: str) -> list[str]:
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=60")
        given = [word for option in options for word in ("-o", option)]
        return ["ssh", "-F", "none", "-i", str(self._image.key), "-p", str(self._port), *given, *words]

    def _story(self) -> str:
        found = [self._directory / name for name in ("qemu.log", "console")]
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in found if path.exists())
