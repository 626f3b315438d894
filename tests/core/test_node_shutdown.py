"""In which order pods end before their machine does, and how long each has."""

from __future__ import annotations

import pytest

from trikubelet.core.node_shutdown import ShutdownGroup, delay_seconds, grace_seconds, group_of, shutdown_groups
from trikubelet.model.kubelet_configuration import KubeletConfiguration, ShutdownGracePeriod
from trikubelet.testing.builders import pod

CRITICAL = 2_000_000_000


@pytest.mark.parametrize(
    ("total", "critical", "expected"),
    [
        (0, 0, ()),
        (30, 10, (ShutdownGroup(0, 20), ShutdownGroup(CRITICAL, 10))),
        (30, 0, (ShutdownGroup(0, 30), ShutdownGroup(CRITICAL, 0))),
        (10, 10, (ShutdownGroup(0, 0), ShutdownGroup(CRITICAL, 10))),
    ],
)
def test_critical_pods_have_the_end_of_the_time(
    total: float, critical: float, expected: tuple[ShutdownGroup, ...]
) -> None:
    made = KubeletConfiguration(shutdown_grace_period=total, shutdown_grace_period_critical_pods=critical)

    assert expected == shutdown_groups(made)
    assert total == delay_seconds(expected)


def test_groups_by_priority_end_from_the_lowest_on() -> None:
    entries = (ShutdownGracePeriod(1000, 5), ShutdownGracePeriod(-10, 3), ShutdownGracePeriod(CRITICAL, 7))
    made = KubeletConfiguration(shutdown_grace_period_by_pod_priority=entries)

    assert (ShutdownGroup(-10, 3), ShutdownGroup(1000, 5), ShutdownGroup(CRITICAL, 7)) == shutdown_groups(made)
    assert 15 == delay_seconds(shutdown_groups(made))


def test_groups_that_have_no_time_at_all_are_none() -> None:
    made = KubeletConfiguration(shutdown_grace_period_by_pod_priority=(ShutdownGracePeriod(0, 0),))

    assert () == shutdown_groups(made)


@pytest.mark.parametrize(
    ("priority", "place"),
    [(None, 0), (-5, 0), (0, 0), (99, 0), (100, 1), (101, 1), (CRITICAL - 1, 1), (CRITICAL, 2), (CRITICAL + 1000, 2)],
)
def test_a_pod_is_of_the_last_group_that_it_reaches(priority: int | None, place: int) -> None:
    groups = (ShutdownGroup(0, 1), ShutdownGroup(100, 1), ShutdownGroup(CRITICAL, 1))

    assert place == group_of(pod("a", priority=priority), groups)


@pytest.mark.parametrize(("own", "expected"), [(None, 20), (5, 5), (20, 20), (600, 20), (0, 0)])
def test_a_pod_has_its_own_grace_or_its_groups_time(own: int | None, expected: int) -> None:
    assert expected == grace_seconds(pod("a", grace=own), ShutdownGroup(0, 20))  # type: ignore[arg-type]
