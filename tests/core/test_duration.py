"""Durations as Go writes them: what is one, how long it is, and how it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trikubelet.model.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (1e-9, "1ns"), (1.1e-6, "1.1µs"), (0.0025, "2.5ms"), (0.5, "500ms"), (1, "1s"), (1.5, "1.5s"),
        (60, "1m0s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s"), (3661.5, "1h1m1.5s"), (-90, "-1m30s"),
        (86400, "24h0m0s"), (0.999999999, "999.999999ms"), (1.000000001, "1.000000001s"), (-1e-12, "0s"),
    ],
)  # fmt: skip
def test_written_as_go_writes_it(seconds: float, text: str) -> None:
    assert text == format_duration(seconds)
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("+0", 0), ("1m30s", 90), ("90s", 90), ("1.5h", 5400), (".5s", 0.5), ("5.s", 5), ("-2m", -120),
        ("1us", 1e-6), ("1µs", 1e-6), ("1μs", 1e-6), ("30s1m", 90), ("2h45m", 9900), ("1h1h", 7200),
    ],
)  # fmt: skip
def test_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert pytest.approx(seconds) == parse_duration(text)


@pytest.mark.parametrize(
    "text",
    ["", "5", "1", "s", ".s", "1d", "1 s", " 1s", "1s ", "1S", "--1s", "+-1s", "-", "1m30", "1,5s", "٣s"],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 300ms, 20s or 1h30m"):
        parse_duration(text)


@given(st.integers(-(2**53), 2**53))
def test_writing_and_reading_keep_every_nanosecond(nanos: int) -> None:
    assert nanos == round(parse_duration(format_duration(nanos / 1e9)) * 1e9)


@pytest.mark.parametrize("text", ["2562048h", "9223372037s", "1" * 400 + "h"])
def test_longer_than_64_bits_of_nanoseconds_is_refused(text: str) -> None:
    assert 2562047 * 3600 == parse_duration("2562047h")
    with pytest.raises(ValueError, match="longer than any duration"):
        parse_duration(text)
