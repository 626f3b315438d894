"""Lists of CPUs, as the kernel and upstream's state files write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.topology.cpu_list import ID_MAX, list_text, parse_list


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", set()),
        ("\n", set()),
        ("0", {0}),
        ("0-3,5\n", {0, 1, 2, 3, 5}),
        ("5,0-2,2-3", {0, 1, 2, 3, 5}),
        (str(ID_MAX), {ID_MAX}),
    ],
)
def test_list_is_read_in_any_order(text: str, ids: set[int]) -> None:
    assert ids == parse_list(text)


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "1, 2", "0-3:1/2", "²", "0-99999999999", "1.5"])
def test_damaged_list_raises_a_value_error_that_names_the_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"list|range"):
        parse_list(text)


@pytest.mark.parametrize(
    ("ids", "text"), [([], ""), ([3], "3"), ([1, 0], "0-1"), ([0, 1, 2, 4, 6, 7], "0-2,4,6-7"), ([5, 5], "5")]
)
def test_text_is_sorted_with_ranges(ids: list[int], text: str) -> None:
    assert text == list_text(ids)


@given(st.frozensets(st.integers(0, 300)))
def test_written_list_is_read_again(ids: frozenset[int]) -> None:
    assert ids == parse_list(list_text(ids))
