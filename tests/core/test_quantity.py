"""Quantities: what is one, what it is worth, and the one way to write it."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trikubelet.model import quantity

SUFFIXES = ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+1"]
NUMBERS = st.from_regex(r"[+-]?([0-9]{1,12}(\.[0-9]{0,10})?|\.[0-9]{1,10})", fullmatch=True)
GIB_AND_HALF, MOST = 3 * 2**29, 2**63 - 1
QUANTITIES = st.builds("{}{}".format, NUMBERS, st.sampled_from(SUFFIXES))


@pytest.mark.parametrize(
    ("text", "canonical", "whole", "milli"),
    [
        ("0", "0", 0, 0), ("0Ki", "0", 0, 0), ("0e5", "0", 0, 0), ("-0", "0", 0, 0), (1, "1", 1, 1000),
        (0.5, "500m", 1, 500), ("1.5", "1500m", 2, 1500), ("100m", "100m", 1, 100), ("1000m", "1", 1, 1000),
        ("1100m", "1100m", 2, 1100), ("1e3", "1e3", 1000, 10**6), ("12e6", "12e6", 12_000_000, 12 * 10**9),
        ("1E", "1E", 10**18, 10**21), ("1E3", "1e3", 1000, 10**6), ("1e-3", "1e-3", 1, 1), ("5e0", "5", 5, 5000),
        ("1Ki", "1Ki", 1024, 1_024_000), ("1024Mi", "1Gi", 2**30, 2**30 * 1000),
        ("1536Mi", "1536Mi", GIB_AND_HALF, GIB_AND_HALF * 1000),
        ("0.5Ki", "512", 512, 512_000), ("1.1Ki", "1127", 1127, 1_126_400),
        ("1.5Gi", "1536Mi", GIB_AND_HALF, GIB_AND_HALF * 1000),
        ("0.1Ki", "102400m", 103, 102_400), ("1000k", "1M", 10**6, 10**9), ("1n", "1n", 1, 1), ("0.1n", "1n", 1, 1),
        ("1.0000000001", "1000000001n", 2, 1001), ("-1.5", "-1500m", -2, -1500), ("-1.1Ki", "-1127", -1127, -1_126_400),
        (".5", "500m", 1, 500), ("5.", "5", 5, 5000), ("+5", "5", 5, 5000), ("007", "7", 7, 7000),
        ("99E", "9223372036854775807", MOST, MOST * 1000),
        ("-99Ei", "-9223372036854775807", -MOST, -MOST * 1000),
        (1e-07, "100e-9", 1, 1), ("1Gi ", "1Gi", 2**30, 2**30 * 1000), (" \t1\n", "1", 1, 1000),
    ],
)  # fmt: skip
def test_worth_and_writing(text: str | float, canonical: str, whole: int, milli: int) -> None:
    assert (canonical, whole, milli) == (quantity.canonical(text), quantity.whole(text), quantity.milli(text))


@pytest.mark.parametrize(
    "text", ["", " ", "1 Gi", "1gi", "1K", "1ki", "1mi", "1GB", "one", ".", "m", "-", "1e", "1e3m", "--1",
             "1.1.1", "0x10", "1_0", "1,5", "٣", "nan", "inf", "1e1000", "1" * 500]
)  # fmt: skip
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 500m, 1Gi or 2e3"):
        quantity.parse(text)


@example("2.573013Mi")
@given(QUANTITIES)
def test_writing_keeps_the_amount_and_settles(text: str) -> None:
    written = quantity.canonical(text)

    # Binary amounts that no power of 1024 divides are written without a suffix, and so are decimal from then on.
    settled = quantity.canonical(written)
    assert settled in (written, quantity.canonical(quantity.whole(text)))
    assert settled == quantity.canonical(settled)
    if text.endswith("i") and abs(quantity.parse(text)) >= 1024:
        assert quantity.whole(text) == quantity.parse(written)
    else:
        assert quantity.parse(text) == quantity.parse(written)


@given(QUANTITIES)
def test_rounding_never_loses_anything(text: str) -> None:
    exact = quantity.parse(text)

    assert abs(exact) <= abs(quantity.whole(text)) < abs(exact) + 1
    assert abs(exact) * 1000 <= abs(quantity.milli(text)) < abs(exact) * 1000 + 1


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_whole_numbers_are_worth_themselves(number: int) -> None:
    assert number == quantity.whole(number) == quantity.parse(quantity.canonical(number))


@given(st.decimals(0, 10**6, places=12))
def test_nothing_is_finer_than_a_nano(number: object) -> None:
    text = f"{number:f}"

    assert Fraction(ceil(Fraction(text) * 10**9), 10**9) == quantity.parse(text)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ('did you mean "64Mi" or "64M"?', "64MB"),
        ('did you mean "64Mi" or "64M"?', "64 mb"),
        ('did you mean "1.5Gi" or "1.5G"?', "1.5Gb"),
        ('did you mean "64Ki" or "64k"?', "64K"),
        ('did you mean "64Mi"?', "64MiB"),
        ('did you mean "1Gi"?', "1gi"),
        ('did you mean "100"?', "100 bytes"),
        ('did you mean "2"?', "2 cores"),
        ('did you mean "500m"?', "500 m"),
        ("", "much"),
        ("", ""),
        ("", "1e3B"),
        ("", "5i"),
        ("", "1" * 401 + "MB"),
    ],
)
def test_an_amount_as_other_programs_write_it_is_recognised(expected: str, text: str) -> None:
    assert expected == quantity.meant_by(text)
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)
