"""Flags and numbers out of a request's query."""

from __future__ import annotations

import pytest

from trikubelet.core.query import COUNT_MAX, Unprocessable, flag, whole


@pytest.mark.parametrize(
    ("value", "query"),
    [
        (False, {}),
        (True, {"x": ""}),
        *((True, {"x": word}) for word in ("1", "t", "T", "true", "True", "TRUE")),
        *((False, {"x": word}) for word in ("0", "f", "F", "false", "False", "FALSE")),
    ],
)
def test_a_flag_is_read_as_go_reads_it(value: bool, query: dict[str, str]) -> None:
    assert value is flag(query, "x")


def test_what_is_neither_true_nor_false_is_said_to_be_so() -> None:
    with pytest.raises(ValueError, match=r"^x=maybe: write true or false$"):
        flag({"x": "maybe"}, "x")


@pytest.mark.parametrize(
    ("value", "query"),
    [
        (None, {}),
        (None, {"x": ""}),
        (0, {"x": "0"}),
        (7, {"x": "007"}),
        (COUNT_MAX, {"x": str(COUNT_MAX)}),
        (COUNT_MAX, {"x": "9223372036854775807"}),
    ],
)
def test_a_number_is_read(value: int | None, query: dict[str, str]) -> None:
    assert value == whole(query, "x")


@pytest.mark.parametrize("word", ["-1", "+1", "1.0", "x", " 1", "1_0", "٣", "²", "9" * 5000, "9223372036854775808"])
def test_what_is_no_number_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"^x=.*: write a whole number, 0 or more$"):
        whole({"x": word}, "x")


@pytest.mark.parametrize(("word", "good"), [("2", False), ("3", True), ("12", True), ("13", False), ("100", False)])
def test_bounds_are_of_the_numbers_that_may_be_written(word: str, good: bool) -> None:
    if good:
        assert int(word) == whole({"x": word}, "x", 3, 12)
    else:
        with pytest.raises(ValueError, match=f"^x={word}: write a whole number from 3 to 12$"):
            whole({"x": word}, "x", 3, 12)


@pytest.mark.parametrize(
    ("word", "is_number"),
    [("-1", True), ("0", True), (str(-(2**63)), True), (str(-(2**63) - 1), False), (str(2**63), False), ("--1", False)],
)
def test_a_number_out_of_bounds_is_told_from_what_is_none(word: str, is_number: bool) -> None:
    with pytest.raises(ValueError, match=f"^x={word}: write a whole number, 1 or more$") as refused:
        whole({"x": word}, "x", 1)
    assert is_number is isinstance(refused.value, Unprocessable)
