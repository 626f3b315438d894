"""``packaging/nightly.py`` with stages of a moment: what becomes of a run that is told to end, and of its summary."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shell.nightlykit import TOP, nightly
from shell.packaging.test_nightly import REPORT
from shell.processkit import ends, lives, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def kept(place: Path) -> dict[str, Any]:
    """The summary of a run whose files are there."""
    assert ["nightly", "nightly.json", "nightly.txt"] == sorted(path.name for path in place.iterdir())
    summary = json.loads((place / "nightly.json").read_text())
    assert nightly.table(summary) == (place / "nightly.txt").read_text()
    assert isinstance(summary, dict)
    return summary


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(nightly, "BUILD", tmp_path)
    monkeypatch.setattr(nightly, "LOGS", tmp_path / "nightly")
    return tmp_path


def runs(monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
    """These are all the stages there are: one, two, …"""
    named = zip(("one", "two"), scripts, strict=False)
    planned = [nightly.Stage(name, ("sh", "-c", script), 5) for name, script in named]
    monkeypatch.setattr(nightly, "plan", lambda _, __: planned)


ALONE = """
import os, sys
from pathlib import Path

sys.path.insert(0, {packaging!r})
import nightly

place = Path({place!r})
nightly.BUILD, nightly.LOGS = place / "build", place / "build" / "nightly"
script = f"cd {{place}}; echo $$ >pid.new; mv pid.new pid; while ! [ -e go ]; do sleep 0.02; done"
stages = [("one", script), ("two", "exit 0")]
nightly.plan = lambda _, __: [nightly.Stage(name, ("sh", "-c", it), 5, seeds=dict(order=7)) for name, it in stages]
looks = []

def told(interruption, told=nightly.Interruption.told):
    answer = told(interruption)
    if (place / "pid").exists():
        (place / "looked").touch()
    if (place / "looked").exists() and interruption._terminal is None:
        (place / "hung-up").touch()
    return answer

nightly.Interruption.told = told
code = nightly.main([])
(place / "done").write_text(str(code))
"""
"""A run in a process of its own. Its first stage ends when it is let."""


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts what runs `ALONE`, which is the file ``program.py``."""
    made: list[subprocess.Popen[bytes]] = []

    def start(*words: Any) -> subprocess.Popen[bytes]:
        (tmp_path / "program.py").write_text(ALONE.format(packaging=str(TOP / "packaging"), place=str(tmp_path)))
        (tmp_path / "build").mkdir()
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        made.append(process := subprocess.Popen(words, stdin=pipe, stdout=nowhere, start_new_session=True))
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()
    if (tmp_path / "pid").exists():
        (tmp_path / "go").touch()  # for whoever should have ended and has not


def outcomes(summary: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    return {row["stage"]: row["outcome"] for row in summary["stages"]}, summary["not_run"]


def told_after(ask: Callable[..., Any], call: int) -> Callable[..., Any]:
    """Run the same, but signal the process to end after that many calls."""
    calls: list[object] = []

    def asked(*words: Any, **more: Any) -> Any:
        answer = ask(*words, **more)
        calls.append(words)
        if len(calls) == call:
            signal.raise_signal(signal.SIGTERM)
        return answer

    return asked


@pytest.mark.slow
def test_a_stage_that_fails_does_not_keep_the_next_from_being_run_and_is_counted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "report").write_text(REPORT)
    runs(monkeypatch, f"cp {place}/report {place}/nightly/one.xml; rm {place}/report; exit 3", "exit 0")
    before = signal.getsignal(signal.SIGTERM)

    assert 1 == nightly.main([])
    summary = kept(place)
    assert ({"one": "failed", "two": "held"}, []) == outcomes(summary)
    assert (False, 3, 1) == (summary["held"], summary["stages"][0]["failed"], summary["stages"][0]["passed"])
    assert before is signal.getsignal(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "call", "outcome"),
    [
        ("versions", 1, {}),
        ("_write", 1, {}),
        ("run", 1, {"one": "held"}),
        ("count", 1, {"one": "held"}),
        ("_write", 3, {}),
        ("_write", 5, {"one": "held"}),
        ("summarize", 2, {}),
        ("summarize", 3, {"one": "held"}),
    ],
)
def test_sigterm_between_two_stages_lets_what_has_begun_be_written_and_begins_no_other(
    step: str, call: int, outcome: dict[str, str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "exit 0", "exit 0")
    monkeypatch.setattr(nightly, step, told_after(getattr(nightly, step), call))

    assert 1 == nightly.main([])
    assert (outcome, ["one", "two"][len(outcome) :]) == outcomes(kept(place))


@pytest.mark.slow
def test_sigterm_as_soon_as_a_stage_has_begun_ends_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Begun(nightly.subprocess.Popen):  # type: ignore[misc,name-defined]  # of a script nobody has typed
        def __init__(self, command: list[str], **words: Any) -> None:
            super().__init__(command, **words)
            if command[-1].startswith("exec sleep"):
                signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(nightly.subprocess, "Popen", Begun)
    runs(monkeypatch, "exec sleep 4243", "exit 0")

    assert 1 == nightly.main([])
    assert ({"one": "interrupted"}, ["two"]) == outcomes(kept(place))


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("TERM", "TERM"), ("TERM", "INT"), ("INT", "INT"), ("HUP", "TERM")])
def test_second_signal_during_a_stages_end_still_writes_the_result(
    first: str, second: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage itself tells us, and again when it is told in turn. Of a terminal's interrupt it would have heard."""
    hears = "kill -TERM $$;" if first == "INT" else ""
    told = f"trap 'kill -{second} {os.getpid()}; exit 9' TERM; kill -{first} {os.getpid()}; {hears}"
    runs(monkeypatch, f"{told} while :; do sleep 0.1; done", "exit 0")

    assert 1 == nightly.main([])
    summary = kept(place)
    assert ({"one": "interrupted"}, ["two"]) == outcomes(summary)
    assert 9 == summary["stages"][0]["exit_code"]


@pytest.mark.slow
def test_what_the_run_before_left_is_not_taken_for_this_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "nightly.json").write_text('{"held": true}')
    runs(monkeypatch, f"cp {place}/nightly.json {place}/nightly/seen")

    assert 0 == nightly.main([])
    seen = json.loads((place / "nightly" / "seen").read_text())
    assert (False, {"one": "begun, no result"}, []) == (seen["held"], *outcomes(seen))


@pytest.mark.slow
def test_the_logs_of_the_run_before_do_not_stand_beside_the_summary_of_this_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = place / "nightly"
    logs.mkdir()
    for name in ("one.log", "one.xml", "two.log", "two.xml", "http_fuzz.json", "my notes.log"):
        (logs / name).write_text("of another day")
    runs(monkeypatch, f"ls {logs}", "exit 0")

    assert 0 == nightly.main(["--only=one"])
    assert "my notes.log\none.log\n" == (logs / "one.log").read_text()
    assert ["my notes.log", "one.log"] == sorted(path.name for path in logs.iterdir())


@pytest.mark.slow
def test_what_was_asked_for_is_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "exit 0", "exit 0")

    assert 0 == nightly.main(["--only=two", "--limit", "two=4"])
    summary = kept(place)
    assert (True, False, ["one"]) == (summary["held"], summary["whole"], summary["not_chosen"])
    assert "python packaging/nightly.py --only=two --limit two=4" == summary["command"]


@pytest.mark.slow
def test_of_a_run_that_is_killed_the_summary_names_the_stage_and_what_was_drawn_for_it(
    tmp_path: Path, alone: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = alone(sys.executable, tmp_path / "program.py")
    pid = wait_for(tmp_path / "pid")
    process.kill()
    process.wait()

    summary = kept(tmp_path / "build")
    assert ({"one": "begun, no result"}, ["two"]) == outcomes(summary)
    assert ({"order": 7}, ["sh", "-c"]) == (summary["stages"][0]["seeds"], summary["stages"][0]["command"].split()[:2])
    assert ends(pid)  # by its attendant, who has lost his parent


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it is known there which process a terminal tells")
@pytest.mark.parametrize("where", ["foreground", "background"])
def test_terminal_hangup_ends_its_foreground_processes(
    where: str, tmp_path: Path, alone: Callable[..., subprocess.Popen[bytes]]
) -> None:
    # Only the leader of the session is told by the kernel; this one waits for its child, as make does.
    program = f"{shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'program.py'))}"
    leader = {
        "foreground": f"trap : HUP; {program}; exit",
        "background": f"set -m; trap : HUP; {program} & wait; wait",
    }[where]
    terminal = alone(sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", "bash", "-c", leader)
    pid = wait_for(tmp_path / "pid")
    wait_for(tmp_path / "looked")
    terminal.kill()
    if where == "background":
        wait_for(tmp_path / "hung-up")
        (tmp_path / "go").touch()
    wait_for(tmp_path / "done")

    expected = {"foreground": ({"one": "interrupted"}, ["two"]), "background": ({"one": "held", "two": "held"}, [])}
    assert expected[where] == outcomes(kept(tmp_path / "build"))
    assert not lives(pid)
