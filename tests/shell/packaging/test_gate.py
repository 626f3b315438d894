"""``.ci/run`` over a Makefile of the test's own: what it says of a run that held, failed or was ended, and what is left
of that."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shell.processkit import WAIT_SECONDS_MAX, ends, lives

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[3]
AWAY = "env -i PATH=$PATH setsid sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 4251' &"
"""A process that has neither the run's mark nor its session."""
ATTENDED = f"exec {sys.executable} packaging/attended.py"
IN_GOOD_ORDER = f"trap 'echo >bye; exit 5' TERM INT; {AWAY} while :; do sleep 0.1; done"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),  # above the waits of one test together
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("make") is None, reason="no make, or not GNU's timeout"),
]


class Gate:
    """A checkout in which every chore holds but that of the tests, which is ``script``. Of the ``machine`` nothing is
    looked at unless that is said: live tests beside this one may begin and end meanwhile."""

    def __init__(self, place: Path, script: str, *, machine: bool = False, **constants: int) -> None:
        self.place = place
        run = (TOP / ".ci" / "run").read_text()
        values = {name: str(value) for name, value in constants.items()} | {"TEMPORARY": str(place / "tmp")}
        if not machine:
            values |= dict.fromkeys(("NETWORK", "MOUNTS"), os.devnull) | {"CGROUPS": str(place / "none")}
        for name, value in values.items():
            run, found = re.subn(rf"^{name}=[^ \n]+", f"{name}={shlex.quote(value)}", run, flags=re.MULTILINE)
            assert 1 == found, name
        self._write(".ci/run", run)
        self._write("packaging/attended.py", (TOP / "packaging" / "attended.py").read_text())
        self._write("script.sh", script)
        self._write("Makefile", "lint test-otel sim smoke live-core:\n\t@true\ntest:\n\t@exec sh script.sh $$PPID\n")
        for name in ("cargo", "cc", "git"):  # of which it would install what is missing
            self._write(f"programs/{name}", "#!/bin/sh\n")
        self._write("programs/python3", '#!/bin/sh\n[ "$2" != --path ] || echo "$PATH"\n')  # usable_cargo.py
        self.words = ["bash", str(place / ".ci" / "run")]
        self.environment = {"PATH": f"{place}/programs:{os.environ['PATH']}", "TMPDIR": str(place / "other")}
        for name in ("tmp", "other"):
            (place / name).mkdir()

    def _write(self, name: str, text: str) -> None:
        file = self.place / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run(self, *before: str) -> subprocess.CompletedProcess[str]:
        words = [*before, *self.words]
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=200, check=False)

    def start(self, *before: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, *self.words],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, name: str) -> str:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not (self.place / name).exists():
            assert time.monotonic() < deadline, f"there is no {name}"
            time.sleep(0.02)
        return (self.place / name).read_text().strip()


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    made: list[subprocess.Popen[str]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


def table(out: str) -> dict[str, str]:
    """Return the rows of the stages in the table at the end."""
    rows = out.replace("\r", "").rpartition("seconds\n")[2].splitlines()
    return {row[:46].strip(): re.sub(r"^ *(\d+ s|-) +", "", row[46:]) for row in rows}


LATER = [
    "tests of traces, with the extra they need",
    "cargo test",
    "simulation: the fixed seeds",
    "the single file",
    "the core of the live tests",
]


def test_it_holds_when_every_stage_did(tmp_path: Path) -> None:
    done = Gate(tmp_path, "true").run()

    assert 0 == done.returncode, done.stdout
    assert {"held", "holds"} == set(table(done.stdout).values())
    assert ("holds", 9) == (table(done.stdout)["all of it"], len(table(done.stdout)))


@pytest.mark.parametrize("words", [["--list"], ["--help"], ["lint", "-x"], [""]])
def test_a_word_is_refused_before_anything_is_run(words: list[str], tmp_path: Path) -> None:
    gate = Gate(tmp_path, "true")
    gate.words += words
    done = gate.run()

    assert (2, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n")), done
    assert done.stderr.startswith(f".ci/run: it takes no words, and was given {' '.join(words)}: ")


def test_it_stops_at_the_first_that_does_not_and_names_what_was_not_run(tmp_path: Path) -> None:
    done = Gate(tmp_path, "exit 3").run()

    assert 2 == done.returncode
    told = table(done.stdout)
    assert "FAILED with 2" == told["tests, as CONTRIBUTING says"]
    assert ["not run"] * 5 == [told[name] for name in LATER]
    assert ("held", "does not hold") == (told["nothing is left behind"], told["all of it"])


@pytest.mark.parametrize("whom", ["it alone", "its group"])
@pytest.mark.parametrize(("code", "number"), [(130, signal.SIGINT), (143, signal.SIGTERM), (129, signal.SIGHUP)])
def test_interrupt_ends_the_stage_in_order_and_fails_the_run(
    code: int, number: signal.Signals, whom: str, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    gate = Gate(tmp_path, f"{ATTENDED} sh -c {shlex.quote(IN_GOOD_ORDER)}")
    started.append(process := gate.start())
    pid = gate.wait_for("pid")
    if whom == "it alone":
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert code == process.returncode, out
    assert (tmp_path / "bye").exists()
    assert not lives(pid)
    told = table(out)
    assert "cut short" == told["tests, as CONTRIBUTING says"]
    assert ["not run"] * 5 == [told[name] for name in LATER]
    assert ("held", "does not hold") == (told["nothing is left behind"], told["all of it"]), out


def test_an_interrupt_from_a_terminal_is_heard(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    gate = Gate(tmp_path, f"{ATTENDED} sh -c {shlex.quote(IN_GOOD_ORDER)}")
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    started.append(process := gate.start(sys.executable, "-c", terminal))
    pid = gate.wait_for("pid")
    assert process.stdin is not None
    process.stdin.write("\x03")
    process.stdin.flush()
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (130, True, False) == (process.returncode, (tmp_path / "bye").exists(), lives(pid)), out
    assert "does not hold" == table(out)["all of it"]


def test_an_attendant_is_waited_for_longer_than_the_rest(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    # make does not end of itself, because its child does not, and is killed; it is past all other waits by then.
    last = "trap '' TERM; while kill -0 $0; do sleep 0.1; done; sleep 5; echo >last"
    script = f'{ATTENDED} --finally="sh -c {shlex.quote(last)} $1" sh -c {shlex.quote("echo >there; exec sleep 4252")}'
    script = script.replace("$0", "\\$0")
    gate = Gate(tmp_path, script, SETTLE_SECONDS_MAX=0, HURRIED_SECONDS_MAX=3)
    run = tmp_path / ".ci" / "run"
    run.write_text(run.read_text().replace("--kill-after=30", "--kill-after=1"))
    started.append(process := gate.start())
    gate.wait_for("there")
    process.terminate()
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (143, True) == (process.returncode, (tmp_path / "last").exists()), out
    assert "held" == table(out)["nothing is left behind"]


def test_what_is_left_behind_is_named_and_ended_and_it_does_not_hold(tmp_path: Path) -> None:
    script = "setsid sh -c 'echo $$ >pid; exec sleep 4253' & while ! [ -s pid ]; do sleep 0.02; done"
    done = Gate(tmp_path, script, SETTLE_SECONDS_MAX=0).run()

    pid = (tmp_path / "pid").read_text().strip()
    assert 1 == done.returncode
    assert f"process {pid} sleep 4253 \n" in done.stdout
    assert ends(pid)
    told = table(done.stdout)
    assert ("FAILED", "does not hold") == (told["nothing is left behind"], told["all of it"])


def test_what_was_there_before_or_is_another_runs_is_not_ours(tmp_path: Path) -> None:
    pid = os.getpid()
    script = f"""cd tmp/trikubelet-live && mkdir 8 9 ../tkmade-{pid}-1-1 ../tkmade-999999999-1-1
        echo '{{"pid": {pid}, "started": "1"}}' >9/owner.json"""
    gate = Gate(tmp_path, script, SETTLE_SECONDS_MAX=0)
    (tmp_path / "tmp" / "trikubelet-live" / "7").mkdir(parents=True)
    done = gate.run()

    assert 1 == done.returncode
    left = [line for line in done.stdout.splitlines() if line.startswith("directory ")]
    expected = ["tkmade-999999999-1-1", "trikubelet-live/8"]
    assert [f"directory {tmp_path}/tmp/{name}" for name in expected] == left


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has bridges, mounts and cgroups to leave behind")
def test_a_bridge_a_mount_and_a_cgroup_are_found(tmp_path: Path) -> None:
    script = """
        mkdir m; mount -t tmpfs tklive-177 m
        mkdir /sys/fs/cgroup/tklive-177 /sys/fs/cgroup/kubepods
        ip link add tklive-177 type bridge || exit 9"""
    gate = Gate(tmp_path, script, machine=True, SETTLE_SECONDS_MAX=0)
    alone = 'mount -t tmpfs tmpfs /sys/fs/cgroup && exec "$@"'  # nothing of it is the machine's
    done = gate.run("unshare", "--mount", "--net", "sh", "-c", alone, "sh")

    assert 1 == done.returncode
    cgroups = [f"cgroup /sys/fs/cgroup/{name}" for name in ("kubepods", "tklive-177")]
    assert "\n".join(["bridge tklive-177", *cgroups, f"mount {tmp_path}/m tklive-177"]) in done.stdout
