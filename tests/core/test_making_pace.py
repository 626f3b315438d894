"""How soon a thing is made again: the first two times at once, then after 1 s, doubled up to 10 s."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.making_pace import SECONDS_MAX, Made, made_again, may_be_made_at


def made(lives: list[float]) -> list[float]:
    """When each is made of things that last so long and are made again as soon as they may be; the first at 0."""
    now, before, times = 0.0, None, []
    for seconds in lives:
        now = may_be_made_at(before, now) or now
        before = made_again(before, now)
        times.append(now)
        now += seconds
    return times


@pytest.mark.parametrize(
    ("expected", "lives"),
    [
        pytest.param([0, 0, 1, 3, 7, 15, 25, 35, 45], [0.0] * 9, id="each dies at once"),
        pytest.param([0, 0.5, 1.5, 3.5, 7.5], [0.5] * 5, id="the pause counts from the making"),
        pytest.param([0, 15, 30, 45], [15.0] * 4, id="who lives longer than the pause waits for nothing"),
        pytest.param([0, 0, 1, 3, 23.5, 23.5, 24.5], [0, 0, 0, 20.5, 0, 0, 0], id="a good life is a new beginning"),
        pytest.param([0, 0, 1, 3, 22.5, 30.5], [0, 0, 0, 19.5, 0, 0], id="a shorter one is none"),
    ],
)
def test_a_thing_that_does_not_last_is_made_ever_more_rarely(expected: list[float], lives: list[float]) -> None:
    assert expected == made(lives)


@given(st.lists(st.floats(0, 60), max_size=30))
def test_of_things_that_do_not_last_three_never_come_within_a_second_and_none_waits_longer_than_the_bound(
    lives: list[float],
) -> None:
    times = made(lives)

    assert all(third - first >= 1.0 for first, third in zip(times, times[2:], strict=False))
    waits = [after - (before + life) for before, life, after in zip(times, lives, times[1:], strict=False)]
    assert all(wait <= SECONDS_MAX for wait in waits)


def test_what_was_never_made_may_be_made_now() -> None:
    assert may_be_made_at(None, 5.0) is None
    assert Made(5.0) == made_again(None, 5.0)
