"""What is read from results: tables, goals, comparisons, the file they are kept in, the bar while they are made."""

from __future__ import annotations

import io
import os
import termios

import msgspec
import pytest

from shell.benchmark.benchkit import cell, run_of, showing
from trikubelet.benchmark.goals import GOALS, goal_cells, goal_rows
from trikubelet.benchmark.grid import Mode, full_grid, in_order
from trikubelet.benchmark.plot import KINDS, lines
from trikubelet.benchmark.progress import Progress
from trikubelet.benchmark.report import EARLIER_RULES, page
from trikubelet.benchmark.results import FORMAT, CellResult, Memory, Round, Showing, read_run, spread, write_run
from trikubelet.benchmark.table import compared, rows


def result(which=None, **peers):
    return CellResult(cell=which or cell(), peers=peers)


def goal(what, run):
    """Reached, wanted and whether, of the goal whose words begin so."""
    (found,) = [row for row in goal_rows(run) if row[0].startswith(what)]
    return found[3:]


def test_what_is_written_is_what_is_read(tmp_path):
    run = run_of(result(ours=showing(3, 5), upstream=Showing(left_out="no Go")))
    write_run(tmp_path / "a.json", run)

    assert run == read_run(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [(b"[]", "not the results"), (b"{", "not the results"), (3, "in format 3, by other rules"), (1, "measure again")],
)
def test_a_file_that_is_no_run_is_named(tmp_path, said, complaint):
    path = tmp_path / "a.json"
    is_other = isinstance(said, int)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(run_of(), format=said)) if is_other else said)

    with pytest.raises(ValueError, match=rf"a\.json: .*{complaint}"):
        read_run(path)


def test_a_page_of_figures_by_earlier_rules_says_so_before_them():
    run = run_of(result(ours=showing(3)))
    assert "earlier rules" not in page(run)

    before, _, _ = page(msgspec.structs.replace(run, format=1)).partition("## What is wanted")
    assert "**These figures are of 2026-01-01 00:00 UTC, by earlier rules.**" in before
    assert EARLIER_RULES[1] in before


def test_what_was_measured_before_the_present_rules_can_be_told_for_every_format():
    assert [*range(1, FORMAT)] == [*EARLIER_RULES]


def test_a_page_says_of_how_many_cells_it_tells():
    whole = {*full_grid(), *goal_cells()}

    assert f"1 of the {len(whole)} cells of the full grid" in page(run_of(result(ours=showing(3))))
    assert f"All {len(whole)} cells of the full grid." in page(run_of(*map(result, whole)))


def test_minimum_median_and_ninth_decile():
    assert (1, 6, 10) == spread([11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1])
    assert (4, 4, 4) == spread([4])


def test_ratios_are_those_of_the_least_times_to_ours():
    ours, upstream = rows([result(ours=showing(4, 2), upstream=showing(30, 20, 40))])

    assert ("110 pods of 2, bytes, 1 % churn", "ours", "2.00", "3.00", "1.00") == (*ours[:4], ours[8])
    assert ("", "upstream", "20.0", "30.0", "10.00", "10.00") == (*upstream[:4], *upstream[8:10])


def test_row_shows_a_left_out_or_failed_peer():
    failed = Showing(rounds=[Round(wall_ns=1, cpu_ns=1, events=0, error="too long")])
    ours, upstream = rows([result(ours=failed, upstream=Showing(left_out="no Go"))])

    assert "1 of 1 failed: too long" == ours[-1]
    assert "no Go" == upstream[-1]


def test_a_goal_is_reached_missed_or_not_measured():
    which = cell(10_000)

    assert ("0.02", "≤ 0.02", "yes") == goal(
        "from bytes, 10,000", run_of(result(which, ours=showing(1), upstream=showing(50)))
    )
    assert ("0.04", "≤ 0.02", "NO") == goal(
        "from bytes, 10,000", run_of(result(which, ours=showing(2), upstream=showing(50)))
    )
    for there in ([], [result(which, ours=showing(2), upstream=Showing(left_out="no Go"))]):
        assert ("", "≤ 0.02", "not measured") == goal("from bytes, 10,000", run_of(*there))


def test_a_relist_that_failed_reaches_no_goal_by_being_quick():
    failed = Showing(rounds=[Round(wall_ns=1, cpu_ns=1, events=0, error="no list")])

    assert (
        "not measured"
        == goal("from bytes, 10,000", run_of(result(cell(10_000), ours=failed, upstream=showing(50))))[-1]
    )


def test_lists_beyond_the_limit_work_when_no_relist_fails():
    failed = Showing(rounds=[Round(wall_ns=1, cpu_ns=1, events=0, error="too long")])
    which = cell(10_000, Mode.UNARY, 0)

    assert ("0", "works", "yes") == goal("unary lists beyond", run_of(result(which, ours=showing(1), upstream=failed)))
    assert ("1", "works", "NO") == goal("unary lists beyond", run_of(result(which, ours=failed, upstream=failed)))


def test_memory_kept_is_what_is_in_use_more_than_before_anything_was_known():
    before = Memory(400_000, 1, 1)
    peers = {name: showing(1, before=before) for name in ("ours", "upstream")}

    assert ("0.6", "< 8 MB", "yes") == goal(
        "memory kept", run_of(result(cell(9_000, churn=0.0, unknown=True), **peers))
    )


def test_growth_compares_the_time_of_one_container():
    small, large = (result(cell(pods, churn=0), ours=showing(ms)) for pods, ms in ((10_000, 2), (50_000, 20)))

    assert ("2", "≤ 1.25: linear", "NO") == goal("CPU a container", run_of(small, large))


def test_the_stall_is_the_longest_and_the_quietest_round_stands_beside_it():
    counted = [Round(wall_ns=1, cpu_ns=1, events=0, stall_ns=ms * 10**6) for ms in (12, 9)]
    run = run_of(result(cell(10_000, Mode.STREAMED), ours=showing(1, counted=counted)))
    (row,) = [row for row in goal_rows(run) if row[0].startswith("event loop")]

    assert ("-", "12.0 ms, 9.00 ms in the quietest of 2 rounds", "12", "≤ 10 ms", "NO") == row[1:]
    assert "stall 9.00 to 12.0 ms" in rows(run.results)[0][-1]


def test_what_go_ever_allocated_is_not_compared_with_what_python_holds():
    def counted(allocs):
        return showing(1, counted=[Round(wall_ns=1, cpu_ns=1, events=0, allocs=allocs, alloc_bytes=10**6)])

    run = run_of(result(cell(10_000, churn=0), ours=counted(12), upstream=counted(3_570_152)))
    (row,) = [row for row in goal_rows(run) if row[0].startswith("Python's memory blocks")]
    ours, upstream = rows(run.results)

    assert ("-", "12", "12") == row[1:4]
    assert "12 blocks held more, 1.0 MB at most" in ours[-1]
    assert "3,570,152 allocations, 1.0 MB in all" in upstream[-1]


def test_a_peer_that_plays_fewer_rounds_is_compared_over_those():
    which = cell(10_000)
    run = run_of(result(which, ours=showing(3, 4, 1), upstream=showing(60, 30)))

    assert ("30.0 ms", "3.00 ms", "0.1") == next(row[1:4] for row in goal_rows(run) if row[0].startswith("from bytes"))
    assert ("10.00", "10.00") == rows(run.results)[1][8:10]
    assert "0.100 → 0.100" == compared(run, run)[0][-1]
    assert f"| {which} | 1.00 | 1.00 | 10.00, 10.00 |" in page(run)


def test_the_peak_is_taken_when_unchanged_and_churning_rounds_have_been_played():
    def crowd(*peaks):
        cells = in_order([cell(9_000, Mode.STREAMED, churn) for churn in (0, 0.01)])
        return run_of(
            *(
                result(which, ours=Showing(rounds=showing(1).rounds, memory=Memory(1, 1, peak * 10**6)))
                for which, peak in zip(cells, peaks, strict=False)
            )
        )

    assert ("162", "< 130 MB", "NO") == goal("peak RSS", crowd(110, 120, 162))
    assert ("", "< 130 MB", "not measured") == goal("peak RSS", crowd(110))


def test_every_goal_has_its_row():
    assert [goal.what for goal in GOALS] == [row[0] for row in goal_rows(run_of())]


def test_two_runs_are_compared_where_both_have_a_cell():
    before = run_of(result(ours=showing(4), upstream=showing(40)), result(cell(5_000), ours=showing(1)))
    now = run_of(result(ours=showing(2), upstream=showing(40)), result(cell(1_000), ours=showing(1)))

    assert [("110 pods of 2, bytes, 1 % churn", "4.00 → 2.00", "4.00 → 2.00", "0.100 → 0.050")] == compared(now, before)


def test_a_picture_shows_each_kind_of_relist_fewest_containers_first():
    run = run_of(
        result(cell(1_000), ours=showing(3)),
        result(cell(110), ours=showing(2), upstream=showing(9)),
        result(cell(110, churn=0.1), ours=showing(9)),
        result(cell(50_000, churn=0), ours=showing(7)),
        result(cell(9_000, churn=0.0, unknown=True), ours=showing(8)),
        result(cell(110, Mode.UNARY), ours=showing(4)),
        result(cell(10_000, Mode.UNARY), ours=showing(6)),
        result(cell(10_000, Mode.STREAMED), ours=showing(5)),
        result(cell(10_000, Mode.STREAMED, status_latency_seconds=0.05), ours=showing(99)),
    )
    first, still, churning = KINDS.values()
    files, socket = frozenset({Mode.BYTES}), frozenset({Mode.UNARY, Mode.STREAMED})

    assert {"ours": [(220, 2.0), (2_000, 3.0)], "upstream": [(220, 9.0)]} == lines(run, files, churning)
    assert {"ours": [(100_000, 7.0)]} == lines(run, files, still)
    assert {"ours": [(18_000, 8.0)]} == lines(run, files, first)
    assert {"ours": [(220, 4.0), (20_000, 5.0)]} == lines(run, socket, churning)


def test_the_bar_counts_containers_and_guesses_the_rest():
    now = iter([0.0, 30.0, 60.0])
    progress = Progress([cell(), cell(5_000)], io.StringIO(), seconds=lambda: next(now))
    progress.done(result())

    assert "[###·····················] 1/2, 5 min left" == progress.bar()


@pytest.mark.parametrize(("columns", "shown"), [(40, 39), (300, 118), (0, 118)])
def test_the_bar_fits_the_terminal_it_is_written_over_on(columns, shown):
    reading, writing = os.openpty()
    termios.tcsetwinsize(writing, (24, columns))
    with os.fdopen(writing, "w") as terminal, os.fdopen(reading, "rb") as screen:
        Progress([cell()], terminal).now(cell(), "x" * 200)
        told = screen.read1().decode()

    assert shown == len(told.removeprefix("\r\x1b[K"))


def test_the_page_names_the_code_by_its_trees_which_stay_when_a_history_is_rewritten():
    told = page(run_of(result(cell(110), ours=showing(1)), trees={"rust/relist/src": "0123abc", "src/x": "4567def"}))

    assert "\nThe code is that of the git trees 0123abc (rust/relist/src) and 4567def (src/x).\n" in told
    assert "git trees" not in page(run_of(result(cell(110), ours=showing(1))))


def test_the_page_tells_goals_losses_disagreements_and_every_cell():
    upstream = Showing(rounds=[Round(wall_ns=10**6, cpu_ns=4 * 10**6, events=n) for n in (0, 1)])
    run = run_of(
        result(cell(10_000), ours=showing(2, 2), upstream=upstream, pure=Showing(left_out="no patience")),
        result(cell(110), ours=showing(1), upstream=showing(50)),
        commit="0123abc",
        version="1.2.3",
    )
    told = page(run)

    assert "0123abc" not in told, "a history that was rewritten does not have it"
    assert (
        "00:00 UTC of version 1.2.3 in 0 minutes, on 2 processors\n(a processor), 4 GiB, Linux 6.1, Python 3.11."
        in told
    )
    assert "from bytes, 10,000 pods, 1 % churn: CPU to upstream's | 4.00 ms | 2.00 ms | 0.5 | ≤ 0.02 | NO |" in told
    assert f"1 of {len(GOALS)} are reached, 1 are not, {len(GOALS) - 2} not measured." in told
    assert (
        "In 2 rounds all peers reported the same number of events, and another in 1 of 2 rounds of 10,000 pods" in told
    )
    assert "| 10,000 pods of 2, bytes, 1 % churn | upstream | 0.50 | 2.00 |" in told
    assert "| 110 pods of 2, bytes, 1 % churn | 1.00 | 1.00 | 50.00, 50.00 |  |  | 1.0 MB |" in told
    assert "| 2.00 | 2.00 | 0.50, 2.00 |  | no patience | 1.0 MB |" in told


def test_the_page_claims_no_loss_where_there_is_none():
    assert "## Where others are quicker\n\nIn no cell.\n" in page(run_of(result(ours=showing(1), upstream=showing(2))))


@pytest.mark.parametrize(("first_ms", "told"), [(85, "1.50 | 1.5 | < 2: side by side | yes"), (120, "2.20 | 2.2 | <")])
def test_the_first_published_is_wanted_after_one_call_and_not_after_its_three_one_by_one(first_ms, told):
    def took(first: int) -> Showing:
        one = Round(wall_ns=1, cpu_ns=1, events=0, list_ns=10 * 10**6, first_published_ns=first * 10**6)
        return Showing(rounds=[one])

    hundred = cell(1_000, Mode.UNARY, 0.1, status_latency_seconds=0.05)
    run = run_of(CellResult(cell=hundred, peers={"ours": took(first_ms), "upstream": took(165)}))

    assert f"in status calls | 3.10 | {told}" in page(run)
