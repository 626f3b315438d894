"""What a live test run left behind is taken away, and a run that should have left nothing has failed by it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from live.kit import __main__ as by_hand
from live.kit import instance, marked, network

TOP = Path(__file__).parents[3]


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only hierarchy of cgroups, and whose place for what live tests make, are made up and empty."""
    hierarchy, temporary = tmp_path / "cgroups", tmp_path / "tmp"
    hierarchy.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(instance, "hierarchies", lambda: [hierarchy])
    monkeypatch.setattr(instance, "TEMPORARY", temporary)
    monkeypatch.setattr(instance, "BASE", temporary / "trikubelet-live")
    return hierarchy


@pytest.fixture
def dead_one() -> str:
    """Return the objects marked by an ended process."""
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
def test_what_is_swept_is_reported_and_is_a_failure_where_nothing_was_expected(
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


def test_wait_for_another_sweep_times_out_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "TEMPORARY", tmp_path)
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
        others = {"tkmade-", "tkmade-1-2", f"{dead_one}-more", "tkmade-999999-1-extra", "tkmade-999999-1-", "somebodys"}
        others |= {"tkmade-\u0669-1-1", "tkmade-0999999-1-1", "tkmade-tkmade-999999-1-1"}
        for name in (dead_one, own, *others):
            (hierarchy / name / "pod").mkdir(parents=True)

        assert [dead_one] == marked.sweep_abandoned()
        assert [place] == list(temporary.iterdir())
        assert {own, *others} == {path.name for path in hierarchy.iterdir()}
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


def test_what_is_no_number_of_an_instance_is_not_swept_as_one(hierarchy: Path) -> None:
    others = {"007", "\u0667", "200", "1234567", "-1", "notes"}
    for name in others:
        (instance.BASE / name).mkdir(parents=True)

    assert [] == instance.sweep_abandoned()
    assert others == {path.name for path in instance.BASE.iterdir()}


def claimed(number: int, *cgroups: str) -> instance.Instance:
    """An instance whose test run is no more, with the cgroups that it owns at the top."""
    made = instance.Instance(number)
    made.directory.mkdir(parents=True)
    made.record.write_text(json.dumps({"pid": 1, "started": "another", "before": {}}))
    for name in cgroups:
        instance.own_cgroup(made, name)
    return made


def test_a_cgroup_that_an_abandoned_instance_owns_goes_with_it(
    hierarchy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("remove_bridge", "remove_port_rules"):
        monkeypatch.setattr(network, name, lambda _: None)
    monkeypatch.setattr(network, "links", set)
    monkeypatch.setattr(network, "translation_rules", list)
    second = hierarchy.with_name("second")
    monkeypatch.setattr(instance, "hierarchies", lambda: [hierarchy, second])
    (hierarchy / "kubelet.slice").mkdir()
    made = claimed(151, "kubepods", "kubelet.slice")
    for one in (hierarchy / "kubepods/burstable", second / "kubepods", second / "kubelet.slice"):
        one.mkdir(parents=True)

    assert [made] == instance.sweep_abandoned()
    assert [hierarchy / "kubelet.slice"] == list(hierarchy.iterdir())  # it was there before
    assert [] == list(second.iterdir())


def test_a_cgroup_in_which_another_kubelet_has_processes_cannot_be_owned(hierarchy: Path) -> None:
    pod = hierarchy / "kubepods/burstable/pod1"
    pod.mkdir(parents=True)
    (pod / "cgroup.procs").write_text("123\n")

    with pytest.raises(
        RuntimeError, match=r"kubepods has processes: another kubelet uses this machine \(stop it first"
    ):
        claimed(151, "kubepods")


def test_sweep_uses_one_place_whatever_tmpdir_is(tmp_path: Path) -> None:
    """As the numbers are, by which two runs share bridges and cgroups, and the sweep of one would end the other."""
    program = (
        "from live.kit import instance, marked\nwith marked.directory() as made: print(instance.BASE, made.parent)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(["tests", *sys.path])}
    words = [sys.executable, "-c", program]
    told = subprocess.run(words, cwd=TOP, env=environment, capture_output=True, text=True, timeout=60, check=True)

    assert f"{instance.BASE} {instance.TEMPORARY}\n" == told.stdout
    assert [] == list(tmp_path.iterdir())


def test_the_gate_looks_where_the_live_tests_make_what_they_make() -> None:
    places = re.findall(r"^TEMPORARY=(.*?)(?: +#.*)?$", (TOP / ".ci/run").read_text(), re.MULTILINE)

    assert [str(instance.TEMPORARY)] == places
    assert instance.BASE == instance.TEMPORARY / "trikubelet-live"
