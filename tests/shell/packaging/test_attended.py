"""``packaging/attended.py``: nothing that a command started outlives it, whatever became of the command."""

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

from shell.processkit import WAIT_SECONDS_MAX, lives, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[3]
ATTENDED = TOP / "packaging" / "attended.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),  # above the waits of one test together
    pytest.mark.skipif(sys.platform != "linux", reason="it is the command alone there"),
]

AWAY = "env -i PATH=$PATH setsid sh -c 'echo $$ >$0/pid.new; mv $0/pid.new $0/pid; exec sleep 4244' \"$0\" &"
"""A process that nothing of the caller's is left of: no environment, no session, and soon no parent."""

LAST_UNTIL_GO = "--finally=sh -c 'echo >there; while ! [ -e go ]; do sleep 0.02; done; echo done'"
"""It says when it has begun, and ends when it is let."""


def line(place: Path, script: str, *words: str) -> list[str]:
    return [sys.executable, str(ATTENDED), *words, "sh", "-c", script, str(place)]


def changed_line(change: str, place: Path, script: str, *words: str) -> list[str]:
    """Run the same, but ``change`` first, which knows ``attended``, ``os``, ``signal`` and ``time``."""
    program = "import os, signal, sys, time; sys.path.insert(0, sys.argv.pop(1)); import attended\n"
    program += f"{change}\nsys.exit(attended.main(sys.argv[1:]))"
    return [sys.executable, "-c", program, str(ATTENDED.parent), *words, "sh", "-c", script, str(place)]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    made: list[subprocess.Popen[str]] = []
    yield made
    for process in made:
        process.kill()
        process.communicate()


LIVE_CHORES = ["live-core", "live", "record", "conformance", "bench-cluster"]


@pytest.mark.parametrize(("code", "script"), [(0, "true"), (4, "exit 4"), (137, "kill -9 $$"), (127, "exec nope")])
def test_the_commands_exit_code_is_ours(code: int, script: str, tmp_path: Path) -> None:
    done = subprocess.run(line(tmp_path, script), capture_output=True, text=True, timeout=60, check=False)

    assert code == done.returncode
    assert "left behind" not in done.stderr


@pytest.mark.parametrize(("code", "end"), [(1, "exit 0"), (4, "exit 4"), (137, "kill -9 $$")])
def test_what_it_leaves_is_named_and_ended_and_then_it_has_not_held(code: int, end: str, tmp_path: Path) -> None:
    script = f"{AWAY} while ! [ -e $0/pid ]; do sleep 0.02; done; {end}"
    words = line(tmp_path, script, "--grace=1")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    pid = wait_for(tmp_path / "pid")
    assert (code, f"attended: left behind, and killed: {pid} sleep 4244\n") == (done.returncode, done.stderr)
    assert not lives(pid)


def test_what_ends_by_itself_a_moment_later_is_no_fault(tmp_path: Path) -> None:
    done = subprocess.run(line(tmp_path, "sleep 0.2 &"), capture_output=True, text=True, timeout=60, check=False)

    assert (0, "") == (done.returncode, done.stderr)


def test_a_command_that_is_told_to_end_may_do_so_in_good_order_and_then_the_last_is_run(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    script = f"trap 'echo bye; exit 5' TERM; {AWAY} while :; do sleep 0.1; done"
    words = line(tmp_path, script, "--finally=echo last")
    started.append(process := subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    pid = wait_for(tmp_path / "pid")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (5, "bye\nlast\n", False) == (process.returncode, out, lives(pid))


@pytest.mark.parametrize(("code", "end", "then"), [(0, "true", "true"), (7, "true", "exit 7"), (4, "exit 4", "exit 7")])
def test_the_last_is_run_however_the_command_ended(code: int, end: str, then: str, tmp_path: Path) -> None:
    words = line(tmp_path, f"echo first; {end}", f"--finally=sh -c 'echo last; {then}'")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert (code, "first\nlast\n") == (done.returncode, done.stdout)


def test_an_interrupt_of_all_of_them_is_heard_once(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    script = "trap 'echo bye; sleep 0.5; exit 6' INT; echo there; while :; do sleep 0.1; done"
    words = line(tmp_path, script)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    started.append(process)
    assert process.stdout is not None
    assert "there\n" == process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (6, "bye\n") == (process.returncode, out)


def test_when_it_is_killed_itself_the_command_is_told_to_end(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    script = "trap 'echo >$0/bye; exit' TERM; echo there; while :; do sleep 0.1; done"
    started.append(process := subprocess.Popen(line(tmp_path, script), stdout=subprocess.PIPE, text=True))
    assert process.stdout is not None
    assert "there\n" == process.stdout.readline()
    process.kill()

    wait_for(tmp_path / "bye")


def test_early_signal_ends_the_attendant_all_the_same(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    change = f"""
def late(pid, pass_signals=attended._pass_signals):
    while not os.path.exists({str(tmp_path / "pid")!r}):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)
    return pass_signals(pid)
attended._pass_signals = late"""
    words = changed_line(change, tmp_path, f"{AWAY} exec sleep 4245", "--finally=echo last")
    started.append(process := subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (143, "last\n", False) == (process.returncode, out, lives(wait_for(tmp_path / "pid")))


@pytest.mark.parametrize("last", [1, 2], ids=["of the attendant", "of the command"])
def test_a_parent_that_has_ended_already_is_no_parent_to_wait_for(last: int, tmp_path: Path) -> None:
    change = f"""
looks = []
def getppid(real=os.getppid):
    looks.append(real())
    return looks[-1] if len(looks) <= {last} else 1
os.getppid = getppid"""
    words = changed_line(change, tmp_path, "exec sleep 4245")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert (143, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("number", ["INT", "QUIT", "TERM", "HUP", "ALRM", "PIPE"])
def test_the_last_hears_signals(number: str, tmp_path: Path) -> None:
    words = line(tmp_path, "true", f"--finally=sh -c 'kill -{number} $$; echo alive'")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert (128 + signal.Signals[f"SIG{number}"], "") == (done.returncode, done.stdout)


def test_the_last_goes_on_when_we_are_told_to_end_once_more(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    process = subprocess.Popen(line(tmp_path, "true", LAST_UNTIL_GO), stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    started.append(process)
    wait_for(tmp_path / "there")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        process.send_signal(number)
    (tmp_path / "go").touch()
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (0, "done\n") == (process.returncode, out)


@pytest.mark.parametrize(("key", "echo"), [("\x03", "^C"), ("\x1c", "^\\")], ids=["interrupt", "quit"])
def test_the_last_goes_on_whatever_is_typed_and_may_write(
    key: str, echo: str, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    # The terminal is one that stops who writes to it from the background.
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    script = f"trap : INT QUIT; stty tostop; {shlex.join(line(tmp_path, 'true', LAST_UNTIL_GO))}; echo code $?"
    words = [sys.executable, "-c", terminal, "bash", "-c", script]
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=out, text=True, cwd=tmp_path)
    started.append(process)
    assert process.stdin is not None
    wait_for(tmp_path / "there")
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    for typed in range(1, 6):
        process.stdin.write(key)
        process.stdin.flush()
        while (tmp_path / "out").read_text().count(echo) < typed:  # the signal has been sent before
            assert time.monotonic() < deadline
            time.sleep(0.02)
    (tmp_path / "go").touch()
    process.communicate(timeout=WAIT_SECONDS_MAX)

    told = (tmp_path / "out").read_text()
    assert ["done", "code 0"] == re.findall(r"done|code \d+", told), told


def test_an_interrupt_by_ctrl_backslash_is_one_to_end_in_good_order_too(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    script = "trap 'echo bye; exit 6' QUIT; echo there; while :; do sleep 0.1; done"
    words = line(tmp_path, script, "--finally=echo last")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    started.append(process)
    assert process.stdout is not None
    assert "there\n" == process.stdout.readline()
    os.killpg(process.pid, signal.SIGQUIT)
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (6, "bye\nlast\n") == (process.returncode, out)


def test_last_command_runs_without_a_reader(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    script = f"{AWAY} while ! [ -e $0/pid ]; do sleep 0.02; done"
    words = line(tmp_path, script, "--grace=0.1", "--finally=echo last")
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=write, text=True, timeout=60, check=False)
    finally:
        os.close(write)

    assert (1, "last\n") == (done.returncode, done.stdout)
    assert not lives(wait_for(tmp_path / "pid"))


def test_the_last_has_a_bound_and_leaves_nothing_either(tmp_path: Path) -> None:
    last = f"{AWAY} exec sleep 4246".replace("$0", str(tmp_path)).replace("'", "'\"'\"'")
    change = "attended.FINALLY_SECONDS_MAX = 2; attended.HURRIED_SECONDS_MAX = 0.1"
    words = changed_line(change, tmp_path, "true", f"--finally=sh -c '{last}'")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert 137 == done.returncode
    assert "has not ended after 2 s, and is killed\n" in done.stderr
    assert not (tmp_path / "pid").exists() or not lives(wait_for(tmp_path / "pid"))


def test_a_terminal_that_hangs_up_tells_it_to_end(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    words = line(tmp_path, f"trap 'echo bye; exit 5' TERM; {AWAY} while :; do sleep 0.1; done")
    started.append(process := subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    pid = wait_for(tmp_path / "pid")
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=WAIT_SECONDS_MAX)

    assert (5, "bye\n", False) == (process.returncode, out, lives(pid))


@pytest.mark.skipif(shutil.which("make") is None, reason="there is nothing that could run a chore")
@pytest.mark.parametrize("chore", LIVE_CHORES)
def test_what_starts_runtimes_and_control_planes_is_attended_and_swept_before_and_after(chore: str) -> None:
    words = ["make", "--dry-run", chore]
    told = subprocess.run(words, cwd=TOP, capture_output=True, text=True, timeout=60, check=True).stdout
    lines = [line for line in told.splitlines() if "live.kit" in line or "pytest" in line or "cluster.py" in line]

    before, run = lines
    assert re.fullmatch(r"exec \S+ packaging/attended.py env PYTHONPATH=tests \S+ -m live.kit sweep", before)
    assert re.match(r'\(?exec \S+ packaging/attended.py --finally="env .* -m live.kit sweep --expect-nothing" ', run)
