"""Tables on a narrow terminal: no line is wrapped, and what is piped is never narrowed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from shell.cli.test_status_page import sick
from shell.cli.test_top_command import USED
from shell.localkit import NOW_NS, FakeAgent, FakeUse, FakeView, event, pod, served
from trikubelet.cli import asking
from trikubelet.cli.main import main
from trikubelet.cli.narrow import NarrowTable, without_middle
from trikubelet.core.kubectl.pod_row import COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

LONG = "checkout-frontend-7d9c5b6f4-x2k9f"
ROWS = [(LONG, "0/1", "CrashLoopBackOff", "11 (3m52s ago)", "34m"), ("web-n1", "1/1", "Running", "0", "5m")]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            86,
            [
                "NAME                                READY   STATUS             RESTARTS         AGE",
                f"{LONG}   0/1     CrashLoopBackOff   11 (3m52s ago)   34m",
                "web-n1                              1/1     Running            0                5m",
            ],
        ),
        (
            69,
            [
                "NAME                              READY STATUS           RESTARTS AGE",
                f"{LONG} 0/1   CrashLoopBackOff 11       34m",
                "web-n1                            1/1   Running          0        5m",
            ],
        ),
        (
            52,
            [
                "NAME             READY STATUS           RESTARTS AGE",
                "checkout…4-x2k9f 0/1   CrashLoopBackOff 11       34m",
                "web-n1           1/1   Running          0        5m",
            ],
        ),
        (
            51,
            [
                "NAME                READY STATUS           RESTARTS",
                "checkout-…6f4-x2k9f 0/1   CrashLoopBackOff 11",
                "web-n1              1/1   Running          0",
            ],
        ),
        (
            39,
            [
                "NAME             READY STATUS",
                "checkout…4-x2k9f 0/1   CrashLoopBackOff",
                "web-n1           1/1   Running",
            ],
        ),
        (
            38,
            ["NAME                  STATUS", "checkout-f…b6f4-x2k9f CrashLoopBackOff", "web-n1                Running"],
        ),
        (20, ["NAME             STA", "checkout…4-x2k9f Cra", "web-n1           Run"]),
    ],
)
def test_narrower_terminal_costs_blanks_then_the_middle_of_names_then_columns(width: int, lines: list[str]) -> None:
    assert lines == NarrowTable(COLUMNS, width).lines(ROWS)


def test_end_of_a_text_is_cut_before_its_table_has_no_place_or_kind_left() -> None:
    headings = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
    row = ("4m13s", "Normal", "Pulled", "pod/web-n1", 'Successfully pulled image "app:1" in 12ms')

    assert [
        "LAST SEEN TYPE   REASON OBJECT     MESSAGE",
        "4m13s     Normal Pulled pod/web-n1 Successfully pulled im",
    ] == (NarrowTable(headings, 57).lines([row]))
    assert ["TYPE   REASON OBJECT     MESSAGE", "Normal Pulled pod/web-n1 Successfully pul"] == (
        NarrowTable(headings, 41).lines([row])
    )


def test_rows_that_come_later_are_narrowed_like_the_first() -> None:
    table = NarrowTable(COLUMNS, 39)

    assert [] == table.lines([])
    assert 3 == len(table.lines(ROWS))
    assert [f"{without_middle(LONG[::-1], 16)} 0/1   Terminating"] == table.lines(
        [(LONG[::-1], "0/1", "Terminating", "12 (1s ago)", "35m")]
    )


def test_first_row_that_fits_does_not_let_a_later_one_wrap() -> None:
    table = NarrowTable(COLUMNS, 50)

    assert ["NAME     READY   STATUS    RESTARTS   AGE", "web-n1   1/1     Running   0          5m"] == table.lines(
        ROWS[1:]
    )
    assert [ROWS[0][0] + "   0/1     Crash"] == [line[:49] for line in table.lines(ROWS[:1])]
    assert [50] == [len(line) for line in table.lines(ROWS[:1])]


def test_unknown_amounts_are_a_dash() -> None:
    headings, row = ("NAME", "CPU(cores)", "MEMORY(bytes)"), ("web", "<unknown>", "<unknown>")

    assert ["NAME CPU MEMORY", "web  -   -"] == NarrowTable(headings, 30).lines([row])


@given(
    st.lists(st.tuples(*[st.text("ab c-", max_size=50)] * len(COLUMNS)), max_size=5),
    st.integers(1, 59),
    st.booleans(),
)
def test_no_line_is_longer_than_the_terminal(rows: list[tuple[str, ...]], width: int, with_headings: bool) -> None:
    lines = NarrowTable(COLUMNS, width, show_headings=with_headings).lines(rows)

    assert len(rows) + (with_headings and bool(rows)) == len(lines)
    assert [] == [line for line in lines if len(line) > width]


@pytest.mark.parametrize(
    ("is_narrowed", "columns", "words"),
    [
        (True, "59", "get pods"),
        (True, "40", "get pods -A"),
        (True, "40", "get pods,events"),
        (True, "40", "get events"),
        (True, "40", "get pods -L app --no-headers"),
        (True, "30", "top pods --containers -A"),
        (False, "60", "get pods"),
        (False, "40", "get pods -o wide"),
        (False, "40", "get pods --show-labels"),
        (False, "40", "get pods -o custom-columns=NAME:.metadata.name,UID:.metadata.uid,N:.spec.nodeName"),
    ],
)
async def test_tables_are_narrowed_on_narrow_terminals_alone(
    is_narrowed: bool,
    columns: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(asking, "now_ns", lambda: NOW_NS)
    monkeypatch.setenv("COLUMNS", columns)
    view = FakeView([pod(LONG), sick("web-n1")], [event(pod(), "Pulled", "a rather long message " * 5)])

    async def printed() -> str:
        async with served(view, tmp_path, FakeAgent(), stats=FakeUse([USED])) as agent:
            assert 0 == await trio.to_thread.run_sync(main, [*words.split(), f"--socket={agent.socket_path}"])
        return capsys.readouterr().out

    piped = await printed()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = await printed()

    assert is_narrowed is (piped != shown)
    assert is_narrowed is (max(map(len, shown.splitlines())) <= int(columns))
