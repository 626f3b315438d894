"""What becomes of the files of a log: tables, and what holds whatever is found."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trikubelet.core.log_rotation import (
    FAST_LOGS_MAX,
    FLOOD_BYTES,
    Rotation,
    RotationRules,
    SizeAt,
    beyond_room,
    fast_logs,
    growth_per_second,
    is_filling,
    is_finished,
    is_part,
    plan,
    stem,
)

NOW_NS = 1_795_244_462 * 10**9  # 2026-11-21T07:01:02Z
NOW = "20261121-070102"


@pytest.mark.parametrize(
    ("found", "files_max", "wanted"),
    [
        pytest.param([], 5, Rotation((), NOW, ()), id="the first rotation"),
        pytest.param(["20261120-000000"], 5, Rotation((), NOW, ("20261120-000000",)), id="the newest part is packed"),
        pytest.param(["20261120-000000.gz"], 5, Rotation((), NOW, ()), id="a packed part is left as it is"),
        pytest.param(
            ["20261120-000003", "20261120-000001.gz", "20261120-000002.gz", "20261120-000004.gz"],
            5,
            Rotation(("20261120-000001.gz",), NOW, ("20261120-000003",)),
            id="three parts are kept of five files",
        ),
        pytest.param(
            ["20261120-000001", "20261120-000002.gz"],
            2,
            Rotation(("20261120-000001", "20261120-000002.gz"), NOW, ()),
            id="no part is kept of two files",
        ),
        pytest.param(
            ["20261120-000001", "20261120-000001.gz", "20261120-000002", "20261120-000002.tmp"],
            5,
            Rotation(("20261120-000001", "20261120-000002.tmp"), NOW, ("20261120-000002",)),
            id="what was cut short goes",
        ),
        pytest.param(["bak", "20261120", "20261320-000000", "gz"], 2, Rotation((), NOW, ()), id="strangers stay"),
        pytest.param([f"{NOW}.gz"], 5, Rotation((), "20261121-070103", ()), id="twice within a second"),
        pytest.param(
            ["20300101-235959"], 5, Rotation((), "20300102-000000", ("20300101-235959",)), id="clock set back"
        ),
    ],
)
def test_what_becomes_of_a_log(found: list[str], files_max: int, wanted: Rotation) -> None:
    assert wanted == plan(found, files_max, NOW_NS)


@pytest.mark.parametrize(
    ("name", "part", "finished"),
    [
        ("20261121-070102", True, True),
        ("20261121-070102.gz", True, True),
        ("20261121-070102.tmp", True, False),
        ("20261121-070102.gz.tmp", False, False),
        ("20261121-070102.", False, False),
        ("99991231-235959", False, False),  # there is no second after it
        ("00000101-000000", False, False),
        ("२०२६११२१-०७०१०२", False, False),  # digits, and none of ours
        ("", False, False),
    ],
)
def test_what_is_a_part(name: str, *, part: bool, finished: bool) -> None:
    assert (part, finished) == (is_part(name), is_finished(name))


OLD, NEW = "20261120-000001", "20261120-000002"


@pytest.mark.parametrize("stands", [[OLD], [OLD, f"{OLD}.tmp"], [OLD, f"{OLD}.gz"], [f"{OLD}.gz"], []])
@pytest.mark.parametrize(
    ("files_max", "wanted"),
    [
        pytest.param(4, Rotation((), NOW, (NEW,)), id="kept: the thread is left alone"),
        pytest.param(3, Rotation((OLD, f"{OLD}.gz"), NOW, (NEW,)), id="too old: it goes in either form"),
    ],
)
def test_a_part_that_is_being_compressed_is_one_whatever_stands_of_it(
    stands: list[str], files_max: int, wanted: Rotation
) -> None:
    assert wanted == plan([*stands, NEW], files_max, NOW_NS, OLD)


def test_no_part_takes_the_name_of_one_that_a_thread_still_works_on() -> None:
    assert "20261121-070103" == plan([], 2, NOW_NS, NOW).part


LAST = "99981231-235959"


@pytest.mark.parametrize("files_max", [3, 5])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_part_of_the_last_second_there_is_costs_no_other_part_its_name(files_max: int, ending: str) -> None:
    parts = {f"{LAST}{ending}"}
    for second in range(8):
        done = plan(parts, files_max, NOW_NS)
        assert is_finished(done.part)
        assert f"20261121-07010{2 + second}" >= done.part >= NOW
        parts -= set(done.remove)
        assert done.part not in set(map(stem, parts))
        parts.add(done.part)
        assert len(parts) <= files_max - 1


TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1))
ENDINGS = st.sampled_from(["", ".gz", ".tmp"])
FOUND = st.sets(st.builds(lambda time, ending: f"{time:%Y%m%d-%H%M%S}{ending}", TIMES, ENDINGS), max_size=12)


@given(FOUND, st.integers(2, 8), st.integers(0, 2_000_000_000))
@example({"20260101-000000", "20260101-000000.gz"}, 2, 0)
def test_the_newest_parts_stay_in_their_order_and_no_more_files_than_may_be(
    found: set[str], files_max: int, now_seconds: int
) -> None:
    done = plan(found, files_max, now_seconds * 10**9)

    kept = found - set(done.remove)
    assert set(done.remove) <= found
    assert len(kept) + len([done.part, "the new file"]) <= files_max
    assert set(done.compress) == {name for name in kept if is_finished(name) and name == stem(name)}
    assert all(is_finished(name) for name in kept)
    whole = {stem(name) for name in found if is_finished(name)}
    gone, stays = whole - {stem(name) for name in kept}, {stem(name) for name in kept}
    assert len(stays) == min(len(whole), files_max - 2)
    assert max(gone, default="") < min(stays, default="z")
    assert done.part > max((name[:15] for name in found), default="")
    assert datetime.strptime(done.part, "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp() >= now_seconds


RULES = RotationRules(size_bytes=1000, files_max=3, period_seconds=10, flood_seconds=1)


@pytest.mark.parametrize(
    ("expected", "before", "now"),
    [
        pytest.param(150, SizeAt(50, 1.0), SizeAt(350, 3.0), id="it grows"),
        pytest.param(0, SizeAt(50, 1.0), SizeAt(50, 3.0), id="it rests"),
        pytest.param(10, SizeAt(5000, 1.0), SizeAt(20, 3.0), id="it was rotated meanwhile"),
        pytest.param(30, None, SizeAt(300, 3.0), id="it is seen for the first time"),
        pytest.param(600, SizeAt(0, 3.0), SizeAt(300, 3.0), id="it was seen just now"),
    ],
)
def test_the_growth_of_a_log(expected: float, before: SizeAt | None, now: SizeAt) -> None:
    assert expected == growth_per_second(before, now, RULES)


def test_logs_that_would_be_too_large_before_the_next_look_at_all_are_fast() -> None:
    assert {"fast", "faster"} == fast_logs({"slow": 99.9, "fast": 100.0, "faster": 1e9, "rests": 0.0}, RULES)


def test_no_more_than_so_many_logs_are_fast_and_those_are_the_fastest() -> None:
    growth = {f"{number}": 1000.0 + number for number in range(FAST_LOGS_MAX + 5)}

    assert {f"{number}" for number in range(5, FAST_LOGS_MAX + 5)} == fast_logs(growth, RULES)


@pytest.mark.parametrize(
    ("expected", "before", "free", "at"),
    [(False, FLOOD_BYTES - 1, 0, 1.0), (True, FLOOD_BYTES, 0, 1.0), (False, FLOOD_BYTES, 0, 2.0), (False, 0, 9, 1.0)],
)
def test_free_space_that_shrinks_fast_is_noticed(expected: bool, before: int, free: int, at: float) -> None:
    assert expected is is_filling(SizeAt(before, 0.0), SizeAt(free, at))
    assert not is_filling(None, SizeAt(free, at))


@pytest.mark.parametrize(
    ("expected", "log_bytes", "plain"),
    [
        pytest.param(set(), 1000, {}, id="none is there"),
        pytest.param(set(), 2000, {OLD: 2000, NEW: 2000}, id="all fit"),
        pytest.param({OLD}, 2000, {OLD: 2001, NEW: 2000}, id="the older one does not"),
        pytest.param({OLD, NEW}, 2000, {OLD: 1000, NEW: 4001}, id="both do not"),
        pytest.param({OLD, NEW}, 6001, {OLD: 1, NEW: 1}, id="the log alone takes all"),
    ],
)
def test_plain_parts_have_twice_the_room_that_all_files_of_a_log_may_have(
    expected: set[str], log_bytes: int, plain: dict[str, int]
) -> None:
    assert expected == beyond_room(plain, log_bytes, RULES)


def test_a_part_without_room_goes_whether_or_not_it_is_being_compressed_and_older_ones_stay() -> None:
    packed, mid = "20261119-000000.gz", "20261120-000003"

    expected = Rotation((OLD, f"{OLD}.gz"), NOW, (NEW, mid))
    done = plan([packed, OLD, NEW, mid], 6, NOW_NS, OLD, {OLD})
    assert (expected.remove, set(expected.compress)) == (done.remove, set(done.compress))
