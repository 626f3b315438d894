"""What a live test run left behind is taken away, and a run that should have left nothing has failed by it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest

from live.kit import __main__ as by_hand
from live.kit import instance, marked

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only hierarchy of cgroups, and whose directory for temporary files, are made up and empty."""
    hierarchy, temporary = tmp_path / "cgroups", tmp_path / "tmp"
    hierarchy.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(instance, "hierarchies", lambda: [hierarchy])
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(instance, "BASE", temporary / "trikubelet-live")
    return hierarchy


@pytest.fixture
def dead_one() -> str:
    """What is marked by a process that is no more."""
    with subprocess.Popen(["sleep", "600"]) as process:
        marks = marked.name(process.pid)
        process.kill()
    return marks


@pytest.mark.parametrize(
    ("words", "left", "code"),
    [
        pytest.param(["sweep"], [151, 152], 0, id="left"),
        pytest.param(["sweep", "--expect-nothing"], [151, 152], 1, id="left where nothing should be"),
        pytest.param(["sweep", "--expect-nothing"], [], 0, id="nothing left"),
    ],
)
def test_what_is_swept_is_told_and_is_a_failure_where_nothing_was_expected(
    words: list[str],
    left: list[int],
    code: int,
    hierarchy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(instance, "sweep_abandoned", lambda: [instance.Instance(number) for number in left])

    assert code == by_hand.main(words)
    assert [f"swept tklive-{number}" for number in left] == capsys.readouterr().out.splitlines()


def test_who_waits_for_another_ones_sweep_gives_up_and_names_him(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "BASE", tmp_path / "trikubelet-live")
    monkeypatch.setattr(instance, "ALONE_SECONDS_MAX", 0.0)
    other = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match=f"held by process {os.getpid()} "):
            instance.sweep_abandoned()
    finally:
        os.close(other)

    assert [] == instance.sweep_abandoned()


def test_what_is_marked_by_a_process_that_is_no_more_is_taken_away_and_nothing_else(
    hierarchy: Path, dead_one: str
) -> None:
    temporary = hierarchy.with_name("tmp")
    own = marked.name()
    with marked.directory() as place:
        (temporary / dead_one / "deep").mkdir(parents=True)
        (temporary / dead_one / "deep/file").touch()
        for name in (dead_one, own, "tkmade-", "tkmade-1-2", f"{dead_one}-more", "somebodys"):
            (hierarchy / name / "pod").mkdir(parents=True)

        assert [dead_one] == marked.sweep_abandoned()
        assert [place] == list(temporary.iterdir())
        assert {own, "tkmade-", "tkmade-1-2", f"{dead_one}-more", "somebodys"} == {
            path.name for path in hierarchy.iterdir()
        }
    assert [] == list(temporary.iterdir())
    marked.remove_cgroups(own)
    marked.remove_cgroups(own)
    assert not (hierarchy / own).exists()


def test_the_sweep_by_hand_tells_of_what_is_marked_too(
    hierarchy: Path, dead_one: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (hierarchy / dead_one).mkdir()

    assert 1 == by_hand.main(["sweep", "--expect-nothing"])
    assert f"swept {dead_one}\n" == capsys.readouterr().out
