"""How long a crashing container waits: 10 s, doubled up to 5 min, counted from its end, forgotten after a good run."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.podkit import container, pod
from trikubelet.core.restarts import (
    BackoffEntry,
    BackoffLimits,
    backoff_key,
    backoff_next,
    backoff_remaining,
)
from trikubelet.model import k8s

SECOND = 1_000_000_000
LIMITS = BackoffLimits()
T0 = 1_000_000 * SECOND


def crashes(times: int, limits: BackoffLimits = LIMITS, run_seconds: float = 1) -> list[float]:
    """The delays of a container that runs that long, ends, waits as long as it must and starts again."""
    now, entry, delays = T0, None, []
    for _ in range(times):
        finished = now + int(run_seconds * SECOND)
        delay = backoff_remaining(entry, finished, finished, limits)
        delays.append(delay)
        now = finished + int(delay * SECOND)
        entry = backoff_next(entry, finished, now, limits)
    return delays


def test_the_first_restart_is_at_once_and_then_the_delay_doubles_up_to_its_maximum() -> None:
    assert [0, 10, 20, 40, 80, 160, 300, 300, 300] == crashes(9)


def test_the_limits_can_be_smaller() -> None:
    assert [0, 1, 2, 4, 5, 5] == crashes(6, BackoffLimits(1, 5))
    assert [0, 5, 5] == crashes(3, BackoffLimits(10, 5))


def test_the_delay_counts_from_the_end_of_the_container() -> None:
    entry = BackoffEntry(40, T0)
    assert [40, 15, 0, 0] == [backoff_remaining(entry, T0, T0 + after * SECOND, LIMITS) for after in (0, 25, 40, 500)]


@pytest.mark.parametrize(("expected", "run_seconds"), [(300, 599), (300, 600), (0, 601)])
def test_a_run_of_more_than_ten_minutes_is_forgiven(expected: float, run_seconds: int) -> None:
    entry = BackoffEntry(300, T0)
    finished = T0 + run_seconds * SECOND
    assert expected == backoff_remaining(entry, finished, finished, LIMITS)


def test_after_a_good_run_it_begins_with_the_first_delay() -> None:
    finished = T0 + 601 * SECOND
    assert BackoffEntry(10, finished + 7) == backoff_next(BackoffEntry(300, T0), finished, finished + 7, LIMITS)


A = container("a")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param((pod("a"), container("a", image="image:2")), id="image"),
        pytest.param((pod("a"), container("b")), id="container"),
        pytest.param(
            (pod("a"), container("a", resources=k8s.ResourceRequirements(limits={"memory": "1Gi"}))), id="resources"
        ),
        pytest.param((pod("a", meta={"uid": "2"}), A), id="uid"),
        pytest.param((pod("a", meta={"name": "other"}), A), id="name"),
        pytest.param((pod("a", meta={"namespace": "other"}), A), id="namespace"),
    ],
)
def test_another_of_any_of_these_has_a_back_off_of_its_own(other: tuple[k8s.Pod, k8s.Container]) -> None:
    assert backoff_key(pod("a"), A) != backoff_key(*other)


def test_a_change_of_anything_else_does_not_forgive() -> None:
    args = msgspec.structs.replace(A, args=("--quiet",))
    assert backoff_key(pod("a"), A) == backoff_key(pod("a", "b", meta={"labels": {"x": "y"}}), args)


def test_the_order_in_which_resources_are_written_does_not_forgive() -> None:
    def limited(*names: str) -> k8s.Container:
        return container("a", resources=k8s.ResourceRequirements(limits=dict.fromkeys(names, "1")))

    assert backoff_key(pod("a"), limited("cpu", "memory")) == backoff_key(pod("a"), limited("memory", "cpu"))


ENTRIES = st.builds(BackoffEntry, st.sampled_from([10.0, 20.0, 300.0]), st.integers(T0, T0 + 100 * SECOND))


@given(st.none() | ENTRIES, st.integers(0, 10_000), st.integers(0, 10_000))
def test_delays_grow_up_to_the_maximum(entry: BackoffEntry | None, run_seconds: int, waited_seconds: int) -> None:
    finished = T0 + run_seconds * SECOND
    now = finished + waited_seconds * SECOND
    assert 0 <= backoff_remaining(entry, finished, now, LIMITS) <= LIMITS.seconds_max
    following = backoff_next(entry, finished, now, LIMITS)
    assert LIMITS.first_seconds <= following.seconds <= LIMITS.seconds_max
    assert now == following.set_at
    if entry is not None and backoff_remaining(replace(entry, seconds=1e9), finished, finished, LIMITS) > 0:
        assert following.seconds >= entry.seconds


def test_clock_that_was_set_back_delays_no_restart() -> None:
    entry = BackoffEntry(40, T0 + 7200 * SECOND)
    finished = T0 + 7201 * SECOND
    assert [40, 0] == [backoff_remaining(entry, finished, now, LIMITS) for now in (finished, T0 + 2 * SECOND)]
    # Set back after it had run for long, to a time that is still after it was started.
    ran, set_back = entry.set_at + 590 * SECOND, entry.set_at + 10 * SECOND
    assert 0 == backoff_remaining(entry, ran, set_back, BackoffLimits(10, 300))
