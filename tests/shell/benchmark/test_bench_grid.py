"""Which cells there are, and in which order."""

from __future__ import annotations

from itertools import groupby

import pytest

from trikubelet.benchmark.goals import GOALS, goal_cells
from trikubelet.benchmark.grid import Cell, Crowd, Mode, full_grid, grid, in_order


def test_a_socket_is_unary_as_far_as_a_reply_reaches_and_streamed_beyond():
    cells = grid([6_650, 6_651], [2], ["socket"], [0.0], [0.0])

    assert {6_650: Mode.UNARY, 6_651: Mode.STREAMED} == {cell.crowd.pods: cell.crowd.mode for cell in cells}


def test_latency_is_measured_where_there_are_calls_that_could_wait():
    cells = grid([110], [1], ["bytes", "unary"], [0.0, 0.1], [0.0, 0.05])

    assert [
        Cell(Crowd(110, 1, Mode.BYTES), unknown=True),
        Cell(Crowd(110, 1, Mode.BYTES), 0.0),
        Cell(Crowd(110, 1, Mode.BYTES), 0.1),
        Cell(Crowd(110, 1, Mode.UNARY), unknown=True),
        Cell(Crowd(110, 1, Mode.UNARY), 0.0),
        Cell(Crowd(110, 1, Mode.UNARY), 0.1),
        Cell(Crowd(110, 1, Mode.UNARY), 0.1, 0.05),
    ] == cells


def test_every_crowd_is_together_begins_unknown_and_has_no_cell_twice():
    cells = in_order([*full_grid(), *goal_cells()])
    crowds = [list(mine) for _, mine in groupby(cells, key=lambda cell: cell.crowd)]

    assert len({cell.crowd for cell in cells}) == len(crowds)
    assert all([True] + [False] * (len(mine) - 1) == [cell.unknown for cell in mine] for mine in crowds)
    assert len(set(cells)) == len(cells)
    assert {cell for goal in GOALS for cell in goal.cells} <= set(cells)


@pytest.mark.parametrize(
    ("cell", "changed", "one_by_one", "side_by_side"),
    [
        (Cell(Crowd(1_000, 2, Mode.UNARY), 0.1, 0.05), 100, 15.0, 0.2),
        (Cell(Crowd(1_000, 16, Mode.UNARY), 0.1, 0.05), 100, 85.0, 0.4),
        (Cell(Crowd(110, 2, Mode.UNARY), 0.001, 0.05), 1, 0.15, 0.05),
        (Cell(Crowd(110, 2, Mode.UNARY), 0.0, 0.05), 0, 0.0, 0.0),
        (Cell(Crowd(110, 1, Mode.UNARY), unknown=True), 110, 0.0, 0.0),
        (Cell(Crowd(1_000, 2, Mode.BYTES), 1, 0.05), 1_000, 0.0, 0.0),
    ],
    ids=str,
)
def test_status_calls_wait_for_each_pod_and_container_in_its_turn(cell, changed, one_by_one, side_by_side):
    assert changed == cell.changed
    assert one_by_one == pytest.approx(cell.wait_seconds(1, 1))
    assert side_by_side == pytest.approx(cell.wait_seconds(32, 16))
