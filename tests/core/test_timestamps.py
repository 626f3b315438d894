"""Times as text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.core.timestamps import parse_rfc3339, rfc3339, rfc3339_nano

SECOND = 1_000_000_000
NOON = 1_767_268_800 * SECOND  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("expected", "ns"),
    [("", 0), ("1970-01-01T00:00:00Z", 1), ("2026-01-01T12:00:00Z", NOON), ("2026-01-01T12:00:00Z", NOON + SECOND - 1)],
)
def test_the_api_has_whole_seconds_and_nothing_for_what_has_not_happened(expected: str, ns: int) -> None:
    assert expected == rfc3339(ns)


@pytest.mark.parametrize(
    ("expected", "ns"),
    [
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01T12:00:00.5Z", NOON + SECOND // 2),
        ("2026-01-01T12:00:00.000000001Z", NOON + 1),
        ("2026-01-01T12:00:00.12Z", NOON + 120_000_000),
    ],
)
def test_nanoseconds_are_written_without_trailing_zeros(expected: str, ns: int) -> None:
    assert expected == rfc3339_nano(ns)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (NOON, "2026-01-01T12:00:00Z"),
        (NOON, "2026-01-01T13:00:00+01:00"),
        (NOON, "2026-01-01T06:30:00-05:30"),
        (NOON + 987_654_321, "2026-01-01T12:00:00.987654321Z"),
        (NOON + 987_654_321, "2026-01-01T13:00:00.987654321+01:00"),
        (NOON + 500_000_000, "2026-01-01T12:00:00.5Z"),
        (NOON + 123_456_789, "2026-01-01T12:00:00.1234567899Z"),
        (-SECOND, "1969-12-31T23:59:59Z"),
    ],
)
def test_reading(expected: int, text: str) -> None:
    assert expected == parse_rfc3339(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-01",
        "2026-01-01Z",
        "2026-01-01T12:00:00",
        "2026-01-01T12:00Z",
        "2026-01-01 12:00:00Z",
        "20260101T120000Z",
        "2026-13-01T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-01-01T25:00:00Z",
        "2026-01-01T12:00:00.Z",
        "2026-01-01T12:00:00.5",
        "2026-01-01T12:00:00+1",
        "2026-01-01T12:00:00+25:00",
        "\uff12\uff10\uff12\uff16-01-01T12:00:00Z",
        "2026-01-01T12:00:00Z\n",
    ],
)
def test_what_is_not_rfc_3339_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_rfc3339(text)


@given(st.integers(1, 253_402_300_799 * SECOND))
def test_reading_gives_back_what_was_written(ns: int) -> None:
    assert ns == parse_rfc3339(rfc3339_nano(ns))
    assert ns // SECOND * SECOND == parse_rfc3339(rfc3339(ns))


@given(st.integers(1, 4_000_000_000), st.integers(1, 4_000_000_000))
def test_written_times_sort_as_text(a: int, b: int) -> None:
    assert (a < b) == (rfc3339(a * SECOND) < rfc3339(b * SECOND))
