"""Where the last lines of a compressed log begin, of whose records only so many are known at a time."""

from __future__ import annotations

import errno
import gzip
import io
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from shell.closekit import FailsToClose
from trikubelet.server import log_files, log_tail
from trikubelet.server.log_tail import Start, find_tail
from trikubelet.server.packed_log import IDLE_BYTES_MAX, INPUT_BYTES

if TYPE_CHECKING:
    from pathlib import Path

RECORD = st.sampled_from([b"t stdout F a", b"t stdout P b", b"t stderr F c", b"t stderr P d", b"no record"])


def found(path: Path, lines: int, *older: Path) -> Start:
    search = find_tail([*map(str, older), str(path)], lines)
    while True:
        try:
            next(search)
        except StopIteration as end:
            return end.value


@settings(max_examples=examples(300), deadline=None)
@given(records=st.lists(RECORD, max_size=80), lines=st.integers(1, 30), lookback=st.integers(0, 120))
def test_it_begins_where_it_would_if_the_file_were_not_compressed(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], lines: int, lookback: int
) -> None:
    plain = tmp_path_factory.mktemp("log") / "0.log"
    packed = plain.with_name("0.log.gz")
    plain.write_bytes(b"".join(record + b"\n" for record in records))
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_tail, "LOOKBACK_BYTES_MAX", lookback)
        patch.setattr(log_tail, "_HEADS_KEPT_MIN", 4)

        assert found(plain, lines) == found(packed, lines)


WITHOUT = gzip.compress(b"", mtime=0)


@pytest.mark.parametrize("packed", [(gzip.compress(b"a", mtime=0) + WITHOUT * 1000) * 40, WITHOUT * 20_000])
@pytest.mark.parametrize("count", [1, 5])
def test_of_parts_with_little_text_or_none_a_step_of_the_search_reads_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bytes, count: int
) -> None:
    path = tmp_path / "0.log.gz"
    path.write_bytes(packed)
    taken = [0]
    opened = log_files.open_plain

    class Counted(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            block = super().read(size)
            taken[-1] += len(block)
            return block

    monkeypatch.setattr(log_files, "open_plain", lambda path: Counted(opened(path).detach()))  # type: ignore[attr-defined]

    for _ in find_tail([str(path)] * count, 1):
        taken.append(0)  # noqa: PERF401 - what is read meanwhile is added to it

    assert count * IDLE_BYTES_MAX <= sum(taken) <= count * len(packed)
    assert max(taken) <= IDLE_BYTES_MAX + INPUT_BYTES


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_search_ends_where_it_is_closed_whatever_the_disk_says_to_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    paths = [tmp_path / f"{name}.log{ending}" for name in "ab"]
    for path in paths:
        path.write_bytes(gzip.compress(b"t stdout F a\n") if ending else b"t stdout F a\n")
    opened = log_files.open_plain
    files: list[FailsToClose] = []

    def failing(path: str) -> FailsToClose:
        files.append(FailsToClose(opened(path).detach()))  # type: ignore[attr-defined]
        return files[-1]

    monkeypatch.setattr(log_files, "open_plain", failing)
    search = find_tail([*map(str, paths)], 5)
    while not files:
        next(search)

    search.close()

    assert [True] == [file.closed for file in files]


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_of_a_file_that_cannot_be_read_further_back_what_was_read_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_cut_off: bool
) -> None:
    older, newer = tmp_path / "0.log.1", tmp_path / "0.log"
    record = b"t stdout F a\n"
    older.write_bytes(record * 3)
    newer.write_bytes(record * 40)
    opened = log_files.open_plain

    class Damaged(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            if 0 < self.tell() < 300:
                if is_cut_off:
                    return b""
                raise OSError(errno.EIO, "of the disk")
            return super().read(size)

    monkeypatch.setattr(log_tail, "BLOCK_BYTES", 100)
    monkeypatch.setattr(log_files, "open_plain", lambda path: Damaged(opened(path).detach()))  # type: ignore[attr-defined]

    assert Start((1, 39 * 13), (1, 39 * 13)) == found(newer, 1, older)
    assert Start((0, 2 * 13), (0, 2 * 13)) == found(newer, 16, older)


@pytest.mark.parametrize(("lines", "first"), [(10, 199_990), (10_000_000, 200_000 - 16_384)])
def test_of_a_part_that_unpacks_to_a_thousand_times_its_size_no_more_is_known_than_may_be_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, first: int
) -> None:
    monkeypatch.setattr(log_tail, "HEADS_MAX", 32_768)
    monkeypatch.setattr(log_tail, "_HEADS_KEPT_MIN", 1024)
    monkeypatch.setattr(log_tail, "LOOKBACK_BYTES_MAX", 1000)
    record = b"t stdout F \n"
    path = tmp_path / "0.log.gz"
    path.write_bytes(gzip.compress(record * 200_000))

    tracemalloc.start()
    start = found(path, lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert first * len(record) >= start.begin[1] >= (first - 16_384) * len(record)
    assert peak < 1_200_000
