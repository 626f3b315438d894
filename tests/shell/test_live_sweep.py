"""What a live test run left behind is taken away, and a run that should have left nothing has failed by it."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from live.kit import __main__ as by_hand
from live.kit import instance

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "left", "code"),
    [
        pytest.param(["sweep"], [151, 152], 0, id="left"),
        pytest.param(["sweep", "--expect-nothing"], [151, 152], 1, id="left where nothing should be"),
        pytest.param(["sweep", "--expect-nothing"], [], 0, id="nothing left"),
    ],
)
def test_what_is_swept_is_told_and_is_a_failure_where_nothing_was_expected(
    words: list[str], left: list[int], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
