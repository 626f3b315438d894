"""The ranges of priorities in the metrics of resizes."""

from __future__ import annotations

import msgspec
import pytest

from core.podkit import container, pod
from trikubelet.core.resize.priority import priority_bucket


@pytest.mark.parametrize(
    ("expected", "priority"),
    [
        ("normal", None),
        ("normal", 0),
        ("medium", 1),
        ("medium", 99_999),
        ("high", 100_000),
        ("high", 1_999_999_999),
        ("system-critical", 2_000_000_000),
        ("low", -1),
        ("low", -999),
        ("very-low", -1000),
    ],
)
def test_priority_bucket_is_upstreams(expected: str, priority: int | None) -> None:
    it = pod(container("a"))
    assert expected == priority_bucket(
        msgspec.structs.replace(it, spec=msgspec.structs.replace(it.spec, priority=priority))
    )


def test_priority_bucket_of_a_pod_that_is_gone_is_unknown() -> None:
    assert "unknown" == priority_bucket(None)
