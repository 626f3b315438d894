"""`trikubelet bench relist` at the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import pytest
import trio

from shell.benchmark.benchkit import cell, run_of, showing
from trikubelet import __version__
from trikubelet.benchmark.lineup import lineup
from trikubelet.benchmark.results import CellResult, Round, Showing, read_run, write_run
from trikubelet.cli.commands.bench import trees
from trikubelet.cli.main import main


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "kept.json"
    write_run(path, run_of(CellResult(cell=cell(), peers={"ours": showing(2), "upstream": showing(50)})))
    return str(path)


def test_kept_results_are_shown_and_compared_without_measuring(kept, capsys):
    assert 0 == main(["bench", "relist", "--from", kept, "--compare", kept])

    shown = capsys.readouterr().out
    assert "110 pods of 2, bytes, 1 % churn  ours" in shown
    assert "not measured" in shown  # the goals' other cells
    assert "2.00 → 2.00" in shown


@pytest.mark.slow
def test_one_cell_by_flags_is_measured_and_written(tmp_path, capsys):
    path = tmp_path / "run.json"
    flags = ["--pods", "3", "--mode", "bytes", "--peers", "ours,pure", "--rounds", "2", "--output", str(path)]

    assert 0 == main(["bench", "relist", *flags])

    known = read_run(path).of(cell(3))
    assert [2, 2] == [len(known.peers[name].rounds) for name in ("ours", "pure")]
    assert known.peers["ours"].rounds[0].events == known.peers["pure"].rounds[0].events > 0
    assert "2/2" in capsys.readouterr().err


@pytest.mark.parametrize("done", [1, 0])
def test_results_until_an_interrupt_are_kept(done, tmp_path, monkeypatch, capsys):
    async def stopped(cells, peers, rules, progress):
        for one in cells[:done]:
            progress.done(CellResult(cell=one, peers={"ours": showing(2)}))
        raise KeyboardInterrupt

    monkeypatch.setattr("trikubelet.cli.commands.bench.measure", stopped)
    path = tmp_path / "run.json"

    assert 130 == main(["bench", "relist", "--pods", "5", "--peers", "ours", "--output", str(path)])
    assert bool(done) == path.exists()
    assert bool(done) == ("stopped: 1 cells were measured" in capsys.readouterr().err)


def test_a_run_in_which_ours_always_failed_is_no_success(tmp_path, monkeypatch, capsys):
    async def failing(cells, peers, rules, progress):
        failed = Round(wall_ns=1, cpu_ns=1, events=0, error="the list has more than 262144 items")
        for one in cells:
            progress.done(CellResult(cell=one, peers={"ours": Showing(rounds=[failed])}))

    monkeypatch.setattr("trikubelet.cli.commands.bench.measure", failing)
    path = tmp_path / "run.json"
    words = ["--pods", "5", "--mode", "bytes", "--peers", "ours", "--output", str(path)]

    assert 1 == main(["bench", "relist", *words])
    assert "ours failed in every round of 2 cells" in capsys.readouterr().err
    assert path.exists()


def test_a_full_disk_is_reported_with_its_file_and_the_table_is_shown(kept, capsys):
    assert 1 == main(["bench", "relist", "--from", kept, "--output", "/dev/full"])
    told = capsys.readouterr()
    assert "error: --output: /dev/full: No space left on device\n" == told.err
    assert "110 pods of 2, bytes" in told.out


def test_a_run_that_nohup_started_outlives_its_terminal(monkeypatch):
    seen = []

    async def quick(cells, peers, rules, progress):
        seen.append(signal.getsignal(signal.SIGHUP))
        for one in cells:
            progress.done(CellResult(cell=one, peers={"ours": showing(2)}))

    monkeypatch.setattr("trikubelet.cli.commands.bench.measure", quick)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert 0 == main(["bench", "relist", "--pods", "5", "--mode", "bytes", "--peers", "ours"])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert [signal.SIG_IGN] == seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_end_leaves_no_files_and_keeps_what_it_measured(number, tmp_path, monkeypatch, capsys):
    async def measuring(cells, peers, rules, progress):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=tmp_path):
            progress.done(CellResult(cell=cells[0], peers={"ours": showing(2)}))
            os.kill(os.getpid(), number)
            await trio.sleep_forever()

    monkeypatch.setattr("trikubelet.cli.commands.bench.measure", measuring)
    before = signal.getsignal(number)
    path = tmp_path / "run.json"

    assert 130 == main(["bench", "relist", "--pods", "5", "--peers", "ours", "--output", str(path)])
    assert [path] == list(tmp_path.iterdir())
    assert "stopped: 1 cells were measured" in capsys.readouterr().err
    assert before is signal.getsignal(number)


def test_runs_without_a_common_cell_are_said_to_have_none(kept, tmp_path, capsys):
    other = tmp_path / "other.json"
    write_run(other, run_of(CellResult(cell=cell(5_000), peers={"ours": showing(2)})))

    assert 0 == main(["bench", "relist", "--from", kept, "--compare", str(other)])
    assert "nothing to compare: the two runs have no cell in common" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--output", "--plot"])
def test_what_cannot_be_written_is_reported_before_anything_is_measured(flag, tmp_path, monkeypatch, capsys):
    async def never(*_):
        pytest.fail("it was measured")

    monkeypatch.setattr("trikubelet.cli.commands.bench.measure", never)
    monkeypatch.setattr("trikubelet.cli.commands.bench.can_draw", lambda: None)

    assert 1 == main(["bench", "relist", "--pods", "5", "--peers", "ours", flag, str(tmp_path / "none/x")])
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


def test_without_git_the_version_is_reported(tmp_path, monkeypatch):
    async def quick(cells, peers, rules, progress):
        for one in cells:
            progress.done(CellResult(cell=one, peers={"ours": showing(2)}))

    monkeypatch.setattr("trikubelet.cli.commands.bench.measure", quick)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "run.json"

    assert 0 == main(["bench", "relist", "--pods", "5", "--mode", "bytes", "--peers", "ours", "--output", str(path)])
    assert (__version__, {}) == (read_run(path).commit, read_run(path).trees)


def test_a_run_names_the_trees_of_what_it_measured_but_for_those_that_were_edited(tmp_path, monkeypatch):
    def git(*words):
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", "-C", tmp_path, *author, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    monkeypatch.setattr("trikubelet.cli.commands.bench.HERE", tmp_path)
    assert {} == trees()
    git("init", "--quiet")
    for name in ("rust/relist/src/diff.rs", "src/trikubelet/pleg/pleg.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("as committed")
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    (tmp_path / "src/trikubelet/pleg/pleg.py").write_text("edited")

    assert {"rust/relist/src": git("rev-parse", "HEAD:rust/relist/src")} == trees()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["relist", "--pods", "0"], "invalid value for --pods: '0' is not a whole number from 1 to 100000"),
        (["relist", "--churn", "2"], "invalid value for --churn: '2' is not a fraction from 0 to 1, such as 0.01"),
        (["relist", "--status-latency", "x"], "invalid value for --status-latency: 'x' is not a duration"),
        (
            ["relist", "--mode", "bytes,air"],
            "invalid value for --mode: 'air' is not one of bytes, socket, unary, streamed",
        ),
        (
            ["relist", "--peers", "docker"],
            "invalid value for --peers: 'docker' is not one of ours, upstream, port, pure",
        ),
        (["relist", "--grid", "full", "--pods", "5"], "--grid says which cells already; leave out --pods"),
        (
            ["relist", "--from", "nowhere.json", "--churn", "0", "--pods", "5", "--rounds", "3"],
            "--from measures nothing, and shows all that was measured; leave out --pods, --churn, --rounds",
        ),
        (["relist", "--from", "nowhere.json", "--grid", "full"], "leave out --grid"),
        (["relist", "--from", "nowhere.json"], "error: --from: nowhere.json: No such file or directory"),
        (["relist", "--compare", "nowhere.json"], "error: --compare: nowhere.json: No such file or directory"),
        (["relist", "--output", "/none/a", "--pods", "1"], "error: --output: /none/a: No such file or directory"),
        (["relist", "--peers", "port,ours,port"], "invalid value for --peers: port is named twice"),
        (
            ["relist", "--peers", "port", "--peers", "ours"],
            "flag --peers is given twice: write its list with commas",
        ),
        (
            ["relist", "--pods", "1,100000", "--containers-per-pod", "3"],
            "--pods 100000 with --containers-per-pod 3: 300000 containers, and of lists of more than 262144 ",
        ),
        (["fast"], 'invalid value "fast" for what (one of relist)'),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_reported_in_one_line(words, complaint, capsys):
    assert (1 if "No such file" in complaint else 2) == main(["bench", *words])

    said = capsys.readouterr().err
    assert complaint in said
    assert 1 == said.count("\n")


def test_a_picture_without_its_library_says_what_to_install(kept, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    assert 1 == main(["bench", "relist", "--from", kept, "--plot", str(tmp_path / "picture")])
    assert "pip install matplotlib" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "left_out", "command"),
    [
        ("echo no-go", "no Go", ()),
        ("echo bad luck >&2; exit 3", "it could not be built: bad luck", ()),
        ("echo /a/program", "", ("/a/program",)),
        (None, "its sources are in a checkout of trikubelet only", ()),
    ],
)
def test_upstream_takes_part_where_it_can_be_built(script, left_out, command, tmp_path):
    build = tmp_path / "build.sh"
    if script is not None:
        build.write_text(f"#!/bin/sh\n{script}\n")
        build.chmod(0o755)
    (upstream,) = lineup(["upstream"], build)

    assert (left_out, command) == (upstream.left_out, upstream.command)


def test_a_peer_left_out_has_its_reason_in_the_table(tmp_path, capsys):
    path = tmp_path / "kept.json"
    write_run(path, run_of(CellResult(cell=cell(), peers={"upstream": Showing(left_out="no Go")})))

    assert 0 == main(["bench", "relist", "--from", str(path)])
    assert "no Go" in capsys.readouterr().out
