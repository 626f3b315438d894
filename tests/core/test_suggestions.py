"""What is suggested for a misspelt name."""

from __future__ import annotations

import pytest

from trikubelet.model.faults import NEAR_ONES_MAX, nearest


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (["volume", "image"], 'did you mean "volume"?'),
        (["image"], ""),
        ([f"volume-{n}" for n in range(NEAR_ONES_MAX)], 'did you mean "volume-'),
        ([f"volume-{n}" for n in range(NEAR_ONES_MAX + 1)], ""),
    ],
    ids=["near", "none is near", "many", "too many"],
)
def test_the_nearest_is_suggested_unless_there_are_too_many(known: list[str], said: str) -> None:
    found = nearest("volune", known)

    assert found.startswith(said)
    assert bool(said) == bool(found)
