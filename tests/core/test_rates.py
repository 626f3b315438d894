"""Rates out of two readings."""

from __future__ import annotations

import pytest

from trikubelet.core.stats.rates import Rate, advanced

S = 10**9


@pytest.mark.parametrize(
    ("wanted", "before", "at_ns", "cpu_ns"),
    [
        (Rate(5 * S, 7), None, 5 * S, 7),
        (Rate(15 * S, 7 + 5 * S, S // 2), Rate(5 * S, 7), 15 * S, 7 + 5 * S),
        (Rate(6 * S, 7, 0), Rate(5 * S, 7), 6 * S, 7),
        (Rate(5 * S, 7, 3), Rate(5 * S, 7, 3), 5 * S + S - 1, 99),  # too soon to tell: what was told before
        (Rate(15 * S, 6), Rate(5 * S, 7, 3), 15 * S, 6),  # another one of the same name
        (Rate(4 * S, 8), Rate(5 * S, 7, 3), 4 * S, 8),  # the clock was set
    ],
)
def test_a_rate_is_what_was_used_since_the_reading_before(
    wanted: Rate, before: Rate | None, at_ns: int, cpu_ns: int
) -> None:
    assert wanted == advanced(before, at_ns, cpu_ns)


@pytest.mark.parametrize(
    ("nanocores", "before", "started_ns"),
    [
        (S // 4, None, 2 * S),
        (S // 4, Rate(5 * S, 3 * S, 9), 2 * S),  # another one of the same name
        (None, None, 10 * S - S + 1),  # it has just started
        (None, None, 11 * S),  # the clock was set
        (2 * S // 5, Rate(5 * S, 0, 9), 2 * S),
    ],
)
def test_the_first_rate_is_the_mean_since_the_start(
    nanocores: int | None, before: Rate | None, started_ns: int
) -> None:
    assert Rate(10 * S, 2 * S, nanocores) == advanced(before, 10 * S, 2 * S, started_ns)
