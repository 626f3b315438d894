"""The stand-ins for systemd's commands by which upstream's node suite starts, restarts and ends its kubelet."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from live.kit import unit_commands
from live.kit.unit_commands import NO_SUCH_UNIT, NOT_RUNNING, Units

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the state of a process is read from /proc")

SECONDS_MAX = 60.0


class Machine:
    """Owns a directory of commands and the units started by them."""

    def __init__(self, directory: Path) -> None:
        self.commands, self.state = directory / "commands", directory / "units"
        unit_commands.install(self.commands, self.state)
        self.units = Units(self.state)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The result of one of the commands, found by PATH."""
        environment = {**os.environ, "PATH": f"{self.commands}:{os.environ['PATH']}"}
        return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine without units; those that are left are stopped."""
    made = Machine(tmp_path)
    yield made
    for name in made.units.names():
        made.units.stop(name)


def wait(satisfied: Callable[[], bool]) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + SECONDS_MAX
    while not satisfied():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def started(machine: Machine, log: Path, *command: str) -> int:
    """The process id of a kubelet that the suite's own words started."""
    options = (
        "-p",
        "Delegate=true",
        "-p",
        f"StandardError=append:{log}",
        "--slice=runtime.slice",
        "--remain-after-exit",
    )
    done = machine.run("systemd-run", *options, "--unit=kubelet-20261129.service", *command)
    assert 0 == done.returncode, done.stderr
    return machine.units.process("kubelet-20261129")


def test_a_unit_appends_to_its_log_and_is_listed(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text("before\n")

    assert started(machine, log, "sh", "-c", "echo started; exec sleep 1000")

    wait(lambda: log.read_text() == "before\nstarted\n")
    listed = machine.run("sudo", "systemctl", "list-units", "*kubelet*", "--state=running").stdout
    assert "kubelet-20261129.service loaded active running" in listed
    assert 0 == machine.run("systemctl", "is-active", "kubelet-20261129").returncode


def test_a_killed_unit_is_no_longer_running_and_can_be_restarted(machine: Machine, tmp_path: Path) -> None:
    first = started(machine, tmp_path / "log", "sleep", "1000")

    machine.run("sudo", "systemctl", "kill", "kubelet-20261129")

    wait(lambda: not machine.units.process("kubelet-20261129"))
    assert NOT_RUNNING == machine.run("systemctl", "is-active", "kubelet-20261129").returncode
    assert "" == machine.run("systemctl", "list-units", "*kubelet*", "--state=running").stdout
    assert "exited" in machine.run("systemctl", "list-units", "*kubelet*").stdout
    assert 0 == machine.run("systemctl", "restart", "kubelet-20261129").returncode
    assert machine.units.process("kubelet-20261129") not in (0, first)


def test_a_unit_that_ignores_sigterm_is_stopped_all_the_same(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_commands, "STOP_SECONDS_MAX", 0.0)
    log = tmp_path / "log"
    started(machine, log, "sh", "-c", "trap '' TERM; echo deaf; exec sleep 1000")
    wait(lambda: log.read_text() == "deaf\n")

    machine.units.stop("kubelet-20261129")

    assert not machine.units.process("kubelet-20261129")


def test_an_unknown_unit_cannot_be_started(machine: Machine) -> None:
    assert NO_SUCH_UNIT == machine.run("systemctl", "start", "kubelet-1").returncode


def test_sudo_runs_the_command_without_its_own_options(machine: Machine) -> None:
    assert "-a,b" == machine.run("sudo", "-E", "printf", "%s,%s", "-a", "b").stdout
