"""Which of two versions of one object is newer."""

from __future__ import annotations

import pytest

from trikubelet.core.resource_version import is_older, may_be_newer

LONG = "9" * 5000
"""More digits than Python's int reads."""


@pytest.mark.parametrize(
    ("expected", "version", "than"),
    [
        (True, "9", "10"),
        (False, "10", "9"),
        (False, "10", "10"),
        (False, "010", "10"),
        (True, "10", LONG),
        (False, LONG, "10"),
        (False, "x", "10"),
        (False, "9", ""),
        (False, "", "9"),
    ],
)
def test_resource_versions_are_compared_as_numbers(expected: bool, version: str, than: str) -> None:
    assert expected == is_older(version, than)


@pytest.mark.parametrize(
    ("expected", "version", "than"),
    [
        (True, "100", "99"),
        (False, "99", "100"),
        (False, "99", "99"),
        (True, "1", ""),
        (True, "x", "y"),
        (False, "x", "x"),
    ],
)
def test_what_is_neither_the_same_nor_older_is_news(expected: bool, version: str, than: str) -> None:
    assert expected == may_be_newer(version, than)
