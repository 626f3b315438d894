"""The text format, read back with Prometheus' own parser."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from trikubelet.kit.distribution import Distribution
from trikubelet.server.exposition import (
    SAMPLES_PER_STEP_MAX,
    Family,
    counter,
    exposed,
    gauge,
    histogram,
    in_steps,
    labels,
    sample,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(st.text().filter(lambda text: "\r" not in text and text.isprintable() | ("\n" in text)), st.integers(0, 2**63))
@example("", 2**53 + 1)
def test_any_label_and_number_survives(value: str, number: int) -> None:
    text = exposed([Family("a_total", "counter", "Help.", [sample("a_total", labels(x=value, y="1"), number)])])

    (family,) = text_string_to_metric_families(text.decode())
    (found,) = family.samples
    # Prometheus keeps a float of it; the parser has an int for what is written as one, however large.
    assert ("counter", {"x": value, "y": "1"}, float(number)) == (family.type, found.labels, float(found.value))


def test_a_sample_bears_the_moment_it_was_measured_at_in_milliseconds() -> None:
    assert 'a{x="1"} 2.5 1700000000123\n' == sample("a", labels(x="1"), 2.5, 1_700_000_000_123_999_999)
    assert "a 2\n" == sample("a", "", 2)


def test_a_metric_without_samples_is_left_out() -> None:
    assert b"" == exposed([Family("a", "gauge", "Help.", [])])


def test_keys_become_labels_as_go_says_them() -> None:
    assert ['a{x="1",y="true"} 2\n'] == gauge("a", "Help.", {("1", True): 2}, "x", "y").samples
    assert ['a{x="one"} 2\n'] == counter("a", "Help.", {"one": 2}, "x").samples
    assert ["a 2.5\n"] == gauge("a", "Help.", 2.5).samples


def test_a_distribution_is_reported_with_its_bounds_its_sum_and_its_count() -> None:
    spread = Distribution((0.5, 1))
    for value in (0.25, 1.0, 3.0):
        spread.add(value)

    told = [
        'a_bucket{le="0.5"} 1\n',
        'a_bucket{le="1"} 2\n',
        'a_bucket{le="+Inf"} 3\n',
        "a_sum 4.25\n",
        "a_count 3\n",
    ]
    assert told == histogram("a", "Help.", spread).samples
    assert 'a_bucket{x="y",le="0.5"} 1\n' == histogram("a", "Help.", {"y": spread}, "x").samples[0]


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (0.005, "0.005"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1, "1"),
        (2.5, "2.5"),
        (10.0, "10"),
        (100000, "100000"),
        (1e6, "1e+06"),
        (1048576, "1.048576e+06"),
        (16777216, "1.6777216e+07"),
        (float("inf"), "+Inf"),
    ],
)
def test_a_bound_is_written_as_go_writes_it(bound: float, said: str) -> None:
    assert f'a_bucket{{le="{said}"}} 0\n' == histogram("a", "Help.", Distribution((bound,))).samples[0]


def test_parts_of_one_metric_have_one_head() -> None:
    text = exposed([gauge("a", "Help.", {"1": 1}, "x"), gauge("a", "Help.", {"2": 2}, "x")]).decode()

    assert '# HELP a Help.\n# TYPE a gauge\na{x="1"} 1\na{x="2"} 2\n' == text


async def test_others_have_their_turn_while_a_long_text_is_put_together(autojump_clock: trio.testing.MockClock) -> None:
    made: list[int] = []
    seen: list[int] = []

    def families() -> Iterator[Family]:
        for number in range(20):
            made.append(number)
            yield gauge(f"a{number}", "Help.", {str(one): one for one in range(SAMPLES_PER_STEP_MAX // 2)}, "x")

    async def watch() -> None:
        while len(made) < 20:
            seen.append(len(made))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        text = await in_steps(families())

    assert text == exposed(families())
    # Two families are a step, and Trio may run either task first: twice in a row the one, then the other.
    assert 4 >= max(later - earlier for earlier, later in itertools.pairwise(seen))
