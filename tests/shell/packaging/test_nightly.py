"""``packaging/nightly.py``: what it reads out of reports and logs, the summary it makes of that, and which stages there
are. `test_nightly_runs.py` runs some, `test_attended.py` has what it starts them by."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest

from shell.nightlykit import TOP, counted_tests, nightly

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="2" failures="1" skipped="1" tests="6">
<testcase classname="shell.test_a" name="test_one" time="0.001" />
<testcase classname="shell.test_a" name="test_two[x]"><failure message="no">…</failure></testcase>
<testcase classname="shell.test_a" name="test_two[x]"><error message="nor this">…</error></testcase>
<testcase classname="shell.test_a" name="test_three"><skipped message="not here" /></testcase>
<testcase classname="shell.test_b" name="test_four"><error message="of a fixture">…</error></testcase>
<testcase classname="" name="tests.shell.test_c"><error message="collection">…</error></testcase>
</testsuite></testsuites>"""

CARGO = """
running 2 tests
test frames::holds ... ok
test properties::any bytes ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 3 tests
test mutator::finds ... FAILED
test mutator::is_slow ... ignored
test mutator::ends ... ok

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
"""

SIMULATION = """seeds 5 to 7
seed 6 (member): pod p1-1 is stopped as COMPLETED and has not ended

the trace of seed 6; it replays with --seed 6 --life member:

seed 6 (member) did not hold: pod p1-1 is stopped as COMPLETED and has not ended
5 of 6 lives of 3 seeds held (0.5 simulated hours)
"""


Counts = counted_tests.Counts


def stages(*words: str) -> dict[str, Any]:
    return {stage.name: stage for stage in nightly.plan(nightly._parse(words), SystemRandom())}


def test_a_test_that_failed_twice_is_one_and_so_is_one_that_could_not_begin() -> None:
    failed = ("shell.test_a::test_two[x]", "shell.test_b::test_four", "tests.shell.test_c")
    assert Counts(1, 3, 1, failed) == counted_tests.read_junit(REPORT, Path("nowhere"))


@pytest.mark.parametrize("report", ["", REPORT[:-60]])
def test_a_report_that_was_never_ended_counts_nothing(report: str) -> None:
    assert Counts() == nightly.count("collected 4000 items\n", report, TOP)


FAILING = """
import pytest

@pytest.fixture
def broken():
    raise OSError

@pytest.mark.parametrize("word", ["a.b", "c::d/e.py"])
def test_word(word):
    assert not word

class TestAll:
    class TestDeep:
        def test_in_a_class(self):
            assert False

def test_of_a_fixture(broken):
    pass

def test_that_holds():
    pass
"""


@pytest.mark.slow
def test_by_the_names_of_those_that_failed_pytest_runs_them_again(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "core"
    folder.mkdir(parents=True)
    (folder / "test_zz_order.py").write_text(FAILING)
    (folder / "test_unreadable.py").write_text("def:")

    def run(*words: str) -> Any:
        pytest_words = [
            "-q",
            "-p",
            "no:cacheprovider",
            "--junitxml=report",
            "--rootdir=.",
            "--continue-on-collection-errors",
        ]
        words = (sys.executable, "-m", "pytest", *pytest_words, *words)
        subprocess.run(words, cwd=tmp_path, stdout=subprocess.DEVNULL, timeout=60, check=False)
        return counted_tests.read_junit((tmp_path / "report").read_text(), tmp_path)

    first = run()
    assert (1, 5) == (first.passed, first.failed)
    assert {
        "tests/core/test_unreadable.py",
        "tests/core/test_zz_order.py::test_of_a_fixture",
        "tests/core/test_zz_order.py::test_word[a.b]",
        "tests/core/test_zz_order.py::test_word[c::d/e.py]",
        "tests/core/test_zz_order.py::TestAll::TestDeep::test_in_a_class",
    } == set(first.failed_names)
    again = run(*first.failed_names)
    assert (0, set(first.failed_names)) == (again.passed, set(again.failed_names))


def test_cargo_and_the_simulation_tell_by_their_logs() -> None:
    assert Counts(3, 1, 1, ("mutator::finds",)) == nightly.count(CARGO, "", TOP)
    assert Counts(5, 1, 0, ("seed 6 (member)",)) == nightly.count(SIMULATION, "", TOP)


def test_a_stage_that_runs_tests_of_two_kinds_has_the_sum() -> None:
    counts = nightly.count(CARGO, REPORT, TOP)

    assert (4, 4, 2) == (counts.passed, counts.failed, counts.skipped)
    assert "mutator::finds" in counts.failed_names
    assert "shell.test_b::test_four" in counts.failed_names


ABOUT: dict[str, Any] = {
    "commit": "abc and changes",
    "date": "2026-01-02T03:04:05+00:00",
    "cores": 2,
    "seconds": 70,
    "versions": {"python": "3.11.7", "containerd 2": "2.2.9"},
    "command": "python packaging/nightly.py --seeds=9",
    "not_chosen": [],
}


def result(name: str, outcome: str, counts: Any, code: int = 0, **seeds: int) -> Any:
    return nightly.Result(nightly.Stage(name, ("make", "a b"), 5, seeds=seeds), outcome, code, 12.4, counts)


def test_the_summary_names_what_failed_and_what_was_not_run_and_is_json() -> None:
    results = [
        result("lint", nightly.HELD, Counts()),
        result("order", nightly.FAILED, Counts(1, 2, 3, ("a::b", "c::d")), 2, order=77),
    ]
    planned = [one.stage for one in results] + [nightly.Stage("live", ("make", "live"), 9)]
    summary = json.loads(json.dumps(nightly.summarize(ABOUT, planned, results)))

    assert (False, ["live"], "abc and changes") == (summary["held"], summary["not_run"], summary["commit"])
    expected = {
        "stage": "order",
        "outcome": "failed",
        "exit_code": 2,
        "seconds": 12,
        "passed": 1,
        "failed": 2,
        "skipped": 3,
        "failed_names": ["a::b", "c::d"],
        "reruns": 0,
        "seeds": {"order": 77},
        "command": "make 'a b'",
        "log": "build/nightly/order.log",
    }
    assert expected == summary["stages"][1]
    lines = [re.sub(" +", " ", line) for line in nightly.table(summary).splitlines()]
    assert "python packaging/nightly.py --seeds=9" == lines[2]
    assert lines[4:8] == [
        "stage seconds passed failed skipped outcome",
        "lint 12 - - - held",
        "order 12 1 2 3 failed",
        "live not run",
    ]
    assert "NOT HELD" in lines
    assert {" a::b", " c::d", " order: order 77", " order: make 'a b'", " python: 3.11.7"} <= set(lines)
    assert lines.index("commands") < lines.index(" order: make 'a b'")


def test_it_held_when_every_stage_did() -> None:
    results = [result("lint", nightly.HELD, Counts())]
    summary = nightly.summarize(ABOUT, [one.stage for one in results], results)

    assert (True, True) == (summary["held"], summary["whole"])
    assert "held" in nightly.table(summary).splitlines()
    assert "chosen" not in nightly.table(summary)


@pytest.mark.parametrize(("held", "verdict"), [(True, "held"), (False, "NOT HELD")])
def test_a_part_of_the_night_cannot_be_taken_for_the_whole(held: bool, verdict: str) -> None:
    results = [result("otel", nightly.HELD if held else nightly.FAILED, Counts())]
    about = ABOUT | {"not_chosen": ["lint", "live"], "command": "python packaging/nightly.py --only otel"}
    summary = nightly.summarize(about, [one.stage for one in results], results)

    assert (held, False, ["lint", "live"]) == (summary["held"], summary["whole"], summary["not_chosen"])
    lines = nightly.table(summary).splitlines()
    assert "PART OF THE NIGHT: otel; not chosen: lint, live" == lines[1]
    assert f"{verdict}, of a part of the night" in lines
    assert verdict not in lines
    assert {"lint       not chosen", "live       not chosen"} <= set(lines)
    assert "python packaging/nightly.py --only otel" in lines


def test_of_a_stage_that_runs_the_seeds_and_the_command_are_reported() -> None:
    stage = nightly.Stage("order", ("make", "test"), 5, seeds={"order": 77})
    summary = nightly.summarize(ABOUT, [stage, nightly.Stage("live", ("make", "live"), 9)], [], stage)

    row = summary["stages"][0]
    assert ("begun, no result", None, None) == (row["outcome"], row["exit_code"], row["seconds"])
    assert ({"order": 77}, "make test", ["live"]) == (row["seeds"], row["command"], summary["not_run"])
    lines = [re.sub(" +", " ", line) for line in nightly.table(summary).splitlines()]
    assert {"order - - - - begun, no result", "order: begun, no result, build/nightly/order.log"} <= set(lines)
    assert {"NOT HELD", " order: order 77", " order: make test"} <= set(lines)


def test_of_a_thousand_failed_tests_the_table_has_some_and_the_json_all() -> None:
    names = tuple(f"a::{number}" for number in range(1000))
    results = [result("order", nightly.FAILED, Counts(0, 1000, 0, names), 1)]
    summary = nightly.summarize(ABOUT, [], results)

    assert 1000 == len(summary["stages"][0]["failed_names"])
    assert 50 == nightly.table(summary).count("  a::")
    assert "  … and 950 more" in nightly.table(summary).splitlines()


def test_what_was_drawn_is_handed_on_and_told() -> None:
    planned = stages("--seeds=9", "--fuzz-seconds=120", "--limit=live=7,lint=0.5")

    order, examples = planned["order"].seeds["order"], planned["fuzz"].seeds["examples"]
    assert f'PYTEST=-m "" -p randomly --randomly-seed={order}' in planned["order"].command
    assert {"TRIKUBELET_EXPLORE": str(order), "PYTHONHASHSEED": str(order)} == planned["order"].environment
    assert ("make", "sim", "SEEDS=9", f"SIM=--first={planned['seeds'].seeds['first seed']}") == planned["seeds"].command
    assert str(planned["fuzz"].seeds["mutations"]) == planned["fuzz"].environment["RELIST_FUZZ_SEED"]
    assert str(examples) == planned["fuzz"].environment["TRIKUBELET_EXPLORE"]
    assert str(examples) == planned["fuzz"].environment["PROPTEST_RNG_SEED"]
    assert str(planned["cargo"].seeds["examples"]) == planned["cargo"].environment["PROPTEST_RNG_SEED"]
    assert (7, 0.5) == (planned["live"].minutes_max, planned["lint"].minutes_max)
    assert planned["order"].seeds != stages()["order"].seeds


def test_every_chore_that_is_called_is_one_of_the_makefiles() -> None:
    rules = set(re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(), re.MULTILINE))

    assert {stage.command[1] for stage in stages().values() if stage.command[0] == "make"} <= rules
    assert "nightly" in rules


def test_a_stage_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="there is no stage lents: name some of lint, order"):
        nightly.main(["--only=lents"])
    assert 0 == nightly.main(["--list", "--only=lint"])
    assert ["make lint"] == [line.split("min  ")[1] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("--only=,", "argument --only: it names no stage"),
        ("--only=", "argument --only: it names no stage"),
        ("--limit=live", "argument --limit: 'live' is not STAGE=MINUTES with a number above 0"),
        ("--limit=lint=1,live=long", "argument --limit: 'live=long' is not STAGE=MINUTES with a number above 0"),
        ("--limit=live=0", "argument --limit: 'live=0' is not STAGE=MINUTES with a number above 0"),
        ("--limit=live=nan", "argument --limit: 'live=nan' is not STAGE=MINUTES with a number above 0"),
        ("--limit==5", "argument --limit: '=5' is not STAGE=MINUTES with a number above 0"),
        ("--seeds=0", "argument --seeds: '0' is not a whole number above 0"),
        ("--examples=-5", "argument --examples: '-5' is not a whole number above 0"),
    ],
)
def test_a_word_that_means_nothing_is_refused_in_one_line(
    word: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        nightly.main([word, "--list"])
    assert f"nightly: error: {complaint}" == capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outcome", "code", "script", "minutes"),
    [
        ("held", 0, "echo hello", 1.0),
        ("failed", 3, "echo hello; exit 3", 1.0),
        ("ended at its limit", 143, "echo hello; exec sleep 4243", 0.02),
    ],
)
def test_a_stage_ends_as_its_command_does_or_at_its_limit(
    outcome: str, code: int, script: str, minutes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Begun(subprocess.Popen):  # type: ignore[type-arg]  # of bytes
        """It is waited for only once the command runs: what is told to end before Python has begun just ends."""

        def wait(self, timeout: float | None = None) -> int:
            deadline = time.monotonic() + 60
            while not (tmp_path / "begun").exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            return super().wait(timeout)

    monkeypatch.setattr(nightly, "LOGS", tmp_path)
    monkeypatch.setattr(nightly.subprocess, "Popen", Begun)
    done = nightly.run(
        nightly.Stage("some", ("sh", "-c", f"echo >{tmp_path}/begun; {script}"), minutes), nightly.Interruption()
    )

    assert (outcome, code, Counts()) == (done.outcome, done.exit_code, done.counts)


def test_what_was_run_on_is_all_known_or_said_not_to_be() -> None:
    versions = nightly.versions()

    assert re.fullmatch(r"1\.\d+\.\d+", versions["Kubernetes"])
    assert "not pinned" not in versions.values()
