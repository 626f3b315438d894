"""``packaging/nightly.py`` with stages of a moment: what becomes of a run that is told to end, and of its summary."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from shell.nightlykit import nightly
from shell.test_nightly import REPORT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


def outcomes(summary: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    return {row["stage"]: row["outcome"] for row in summary["stages"]}, summary["not_run"]


def told_after(ask: Callable[..., Any], call: int) -> Callable[..., Any]:
    """The same, but the process is told to end when it has been asked so often."""
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
        ("_write", 3, {"one": "held"}),
        ("summarize", 2, {"one": "held"}),
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
def test_who_is_told_a_second_time_while_a_stage_ends_still_writes_how_it_ended(
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
    assert (False, ["one"]) == (seen["held"], seen["not_run"])
