"""The log reader against a naive model, on real files, and across rotations."""

from __future__ import annotations

import errno
import gzip
import io
import os
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from drawn_examples import examples
from shell.closekit import FailsToClose
from shell.threadkit import AtOnce
from trikubelet.kit.disk_steps import DiskUnavailable
from trikubelet.server import log_files, log_reader, log_records, log_tail
from trikubelet.server.log_reader import LogQuery, read_log
from trikubelet.server.packed_log import PackedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from trikubelet.kit.thread_shares import ThreadShares

T = TypeVar("T")

EPOCH_NS = 1_700_000_000 * 10**9


@dataclass(frozen=True)
class Record:
    stream: str
    ends: bool
    text: str


def stamp(number: int) -> str:
    """The time of the record of that number: a second apart, from 2023-11-14T22:13:20Z on."""
    minute, second = divmod(20 + number, 60)
    hour, minute = divmod(13 + minute, 60)
    return f"2023-11-14T{22 + hour}:{minute:02d}:{second:02d}Z"


def raw(number: int, record: Record) -> bytes:
    return f"{stamp(number)} {record.stream} {'F' if record.ends else 'P'} {record.text}\n".encode()


def naive(records: list[Record], query: LogQuery) -> bytes:
    """Return the expected result of ``read_log``, computed from the whole log."""
    lines: list[tuple[tuple[int, int], int, str, str]] = []  # place of the last part, number of the first, stream, text
    held: dict[str, list[int]] = {}

    def put(stream: str, parts: list[int], *, ends: bool) -> None:
        text = "".join(records[part].text for part in parts) + ("\n" if ends else "")
        lines.append(((not ends, parts[-1]), parts[0], stream, text))

    for number, record in enumerate(records):
        held.setdefault(record.stream, []).append(number)
        if record.ends:
            put(record.stream, held.pop(record.stream), ends=True)
    for stream, parts in held.items():
        put(stream, parts, ends=False)
    if query.tail_lines is not None:
        by_end = sorted(lines, key=lambda line: line[0][1], reverse=True)
        lines = by_end[: query.tail_lines]
    said = ""
    for _, first, stream, text in sorted(lines):
        written = EPOCH_NS + first * 10**9
        if written >= query.since_ns and query.stream in ("", stream):
            said += f"{stamp(first)} {text}" if query.timestamps else text
    return said.encode()[: query.limit_bytes]


async def read(path: Path, query: LogQuery, threads: ThreadShares | None = None) -> bytes:
    async with aclosing(read_log(str(path), query, lambda: True, threads or AtOnce())) as blocks:
        return b"".join([block async for block in blocks])


RECORDS = st.lists(
    st.builds(Record, st.sampled_from(["stdout", "stderr"]), st.booleans(), st.text("ab ", max_size=6)), max_size=40
)
QUERIES = st.builds(
    LogQuery,
    follow=st.booleans(),
    tail_lines=st.none() | st.integers(0, 12),
    since_ns=st.just(0) | st.integers(0, 45).map(lambda second: EPOCH_NS + second * 10**9),
    limit_bytes=st.none() | st.integers(1, 60),
    timestamps=st.booleans(),
    stream=st.sampled_from(["", "stdout", "stderr"]),
)


@settings(max_examples=examples(300), deadline=None)
@given(records=RECORDS, cuts=st.lists(st.integers(0, 40), max_size=2), query=QUERIES, block=st.integers(1, 200))
def test_a_log_in_any_number_of_files_reads_as_the_naive_model_says(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record], cuts: list[int], query: LogQuery, block: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "0.log"
    first, second = sorted([*cuts, 0, 0][:2])
    lines = [raw(number, record) for number, record in enumerate(records)]
    with gzip.open(f"{path}.20231114-221300.gz", "wb") as packed:
        packed.write(b"".join(lines[:first]))
    path.with_name("0.log.20231114-221400").write_bytes(b"".join(lines[first:second]))
    path.write_bytes(b"".join(lines[second:]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_tail, "BLOCK_BYTES", block)

        assert naive(records, query) == trio.run(read, path, query)


async def test_a_record_without_its_newline_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(raw(0, Record("stdout", True, "whole")) + b"2023-11-14T22:13:21Z stdout F to")

    assert b"whole\n" == await read(path, LogQuery())
    assert b"whole\n" == await read(path, LogQuery(tail_lines=1))


async def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert b"" == await read(tmp_path / "0.log", LogQuery())
    assert b"" == await read(tmp_path / "0.log", LogQuery(tail_lines=3, follow=True))


async def test_a_part_that_is_being_compressed_is_read_once(tmp_path: Path) -> None:
    rotated = raw(0, Record("stdout", True, "once"))
    (tmp_path / "0.log.20231114-221300").write_bytes(rotated)
    (tmp_path / "0.log.20231114-221300.gz").write_bytes(gzip.compress(rotated)[:10])  # half of it is written
    (tmp_path / "0.log").write_bytes(raw(1, Record("stdout", True, "again")))

    assert b"once\nagain\n" == await read(tmp_path / "0.log", LogQuery())


async def test_a_log_that_grows_while_it_is_read_ends_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "0.log"
    line = f"{stamp(0)} stdout F {'x' * 90}\n".encode()
    log.write_bytes(line * 4000)
    shown = 0
    async with aclosing(read_log(str(log), LogQuery(tail_lines=3000), lambda: False, AtOnce())) as blocks:
        async for block in blocks:
            shown += block.count(b"\n")
            with log.open("ab") as file:  # as fast as it is read
                file.write(line * 4000)
    assert 3000 == shown


async def test_lines_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"garbage\n\n" + raw(0, Record("stdout", True, "x")) + b"more garbage of some length\n")

    assert b"x\n" == await read(path, LogQuery(tail_lines=2))


async def test_a_tail_of_a_great_log_reads_little_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0.log"
    line = raw(0, Record("stdout", True, "x" * 1000))
    path.write_bytes(line * 5000)
    reads: list[int] = []
    heads = log_tail._heads_back

    def counted(file):
        for head in heads(file):
            if head is None:
                reads.append(1)
            yield head

    monkeypatch.setattr(log_tail, "_heads_back", counted)

    assert 10 == (await read(path, LogQuery(tail_lines=10))).count(b"\n")
    assert len(reads) <= 2


class Writer:
    """A container runtime's hand in the log directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.over = False

    def write(self, *texts: str, ends: bool = True) -> None:
        with self.path.open("ab") as file:
            for text in texts:
                file.write(raw(self.count, Record("stdout", ends, text)))
                self.count += 1

    def rotate(self, name: str, *, packed: bool = False) -> None:
        rotated = self.path.rename(f"{self.path}.{name}")
        if packed:
            with gzip.open(f"{rotated}.gz", "wb") as file:
                file.write(rotated.read_bytes())
            rotated.unlink()
        self.path.touch()


async def follow(writer: Writer, into: list[bytes], tail_lines: int | None = None) -> None:
    query = LogQuery(follow=True, tail_lines=tail_lines)
    async with aclosing(read_log(str(writer.path), query, lambda: writer.over, AtOnce())) as blocks:
        async for block in blocks:
            into.append(block)  # noqa: PERF401 - the test looks at what has come so far


async def test_following_waits_for_the_file_and_ends_with_the_container(tmp_path: Path, autojump_clock) -> None:
    writer, said = Writer(tmp_path / "0.log"), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, writer, said)
        await trio.sleep(5)
        writer.write("one", "two")
        await trio.sleep(5)
        assert b"one\ntwo\n" == b"".join(said)
        writer.write("thr", ends=False)
        await trio.sleep(5)
        writer.write("ee", "last words")
        writer.over = True

    assert b"one\ntwo\nthree\nlast words\n" == b"".join(said)


@pytest.mark.parametrize("packed", [False, True])
async def test_following_crosses_several_rotations_between_two_looks(
    tmp_path: Path, autojump_clock, packed: bool
) -> None:
    writer, said = Writer(tmp_path / "0.log"), []
    writer.write("old")
    writer.rotate("20231114-221300", packed=True)
    writer.write("one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, writer, said)
        await trio.sleep(1)
        writer.write("two")
        writer.rotate("20231114-221400", packed=packed)
        writer.write("three")
        writer.rotate("20231114-221500")
        writer.write("four")
        await trio.sleep(1)
        assert b"old\none\ntwo\nthree\nfour\n" == b"".join(said)
        writer.rotate("20231114-221600")
        writer.write("five")
        writer.over = True

    assert b"old\none\ntwo\nthree\nfour\nfive\n" == b"".join(said)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.sampled_from(["write", "part", "rotate", "pack", "wait"]), max_size=30))
def test_following_misses_nothing_and_repeats_nothing_whatever_happens_to_the_files(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[str]
) -> None:
    writer, said = Writer(tmp_path_factory.mktemp("log") / "0.log"), []
    writer.path.touch()

    async def live() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, writer, said)
            for number, deed in enumerate(deeds):
                match deed:
                    case "write" | "part":
                        writer.write(f"<{number}>", ends=deed == "write")
                    case "rotate" | "pack":
                        writer.rotate(f"20231114-{221300 + number}", packed=deed == "pack")
                    case "wait":
                        await trio.sleep(1)
            writer.over = True

    trio.run(live, clock=MockClock(autojump_threshold=0))
    texts = (f"<{number}>" + "\n" * (deed == "write") for number, deed in enumerate(deeds) if deed in ("write", "part"))

    assert "".join(texts).encode() == b"".join(said)


async def test_following_waits_for_a_file_that_is_rotated_away_again_before_the_last_one_was_left(
    tmp_path: Path, autojump_clock
) -> None:
    writer = Writer(tmp_path / "0.log")
    writer.write("one")
    looks = 0

    def is_over() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:  # the new file is there, which the next look sees
            writer.rotate("20231114-221400")
            writer.write("two")
        if looks == 4:  # the first one was read to its end: the new one is renamed, too, and its successor is late
            writer.path.rename(f"{writer.path}.20231114-221500")
        if looks == 9:
            writer.write("three")
        return looks > 20

    async with aclosing(read_log(str(writer.path), LogQuery(follow=True), is_over, AtOnce())) as blocks:
        said = [block async for block in blocks]

    assert b"one\ntwo\nthree\n" == b"".join(said)


async def test_following_a_tail_of_nothing_shows_only_what_comes(tmp_path: Path, autojump_clock) -> None:
    writer, said = Writer(tmp_path / "0.log"), []
    writer.write("before")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, writer, said, 0)
        await trio.sleep(1)
        writer.write("after")
        await trio.sleep(1)
        writer.over = True

    assert b"after\n" == b"".join(said)


async def test_leaving_a_followed_log_closes_its_files(tmp_path: Path, autojump_clock) -> None:
    writer = Writer(tmp_path / "0.log")
    writer.write("one")
    with trio.move_on_after(3) as scope:
        await follow(writer, [])

    assert scope.cancelled_caught  # an open file would be a ResourceWarning, which is an error here


async def test_a_line_too_long_to_hold_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    part = Record("stdout", False, "y" * 16384)
    path.write_bytes(raw(0, part) * 100 + raw(1, Record("stdout", True, "end")))

    said = await read(path, LogQuery(timestamps=True))

    assert f"{stamp(0)} ".encode() + b"y" * 1638400 + b"end\n" == said


def pack(path: str) -> None:
    """Compress a part that is not the newest any more, as rotation does."""
    with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb") as packed:
        packed.write(plain.read())
    found = os.stat(path)
    os.utime(f"{path}.gz", ns=(found.st_atime_ns, found.st_mtime_ns))
    os.unlink(path)


@pytest.mark.parametrize("asked", [LogQuery(), LogQuery(tail_lines=5), LogQuery(since_ns=EPOCH_NS + 1)])
@pytest.mark.parametrize("follows", [False, True])
async def test_a_rotation_while_older_parts_are_read_costs_no_line(
    tmp_path: Path, autojump_clock: MockClock, asked: LogQuery, *, follows: bool
) -> None:
    writer = Writer(tmp_path / "0.log")
    for name in ("20231114-221300", "20231114-221400", "20231114-221500"):
        writer.write(name, f"{name} again")
        writer.rotate(name)
    writer.write("last")
    said = b""
    query = replace(asked, follow=follows)
    async with aclosing(read_log(str(writer.path), query, lambda: writer.over, AtOnce())) as blocks:
        async for block in blocks:
            if not said:  # somebody reads slowly
                pack(f"{writer.path}.20231114-221400")
                writer.rotate("20231114-221600")
                pack(f"{writer.path}.20231114-221500")
                writer.write("new")
                writer.over = True
            said += block

    whole = [text for n in (3, 4, 5) for text in (f"20231114-221{n}00", f"20231114-221{n}00 again")]
    wanted = whole[1:] if asked.since_ns else whole[6 - 4 :] if asked.tail_lines else whole
    assert [*wanted, "last", *(["new"] if follows else [])] == said.decode().split("\n")[:-1]


async def test_a_rotation_while_the_tail_is_looked_for_makes_another_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path / "0.log")
    writer.write("one", "two", "three")
    find = log_reader.find_tail
    looks: list[list[str]] = []

    def rotated_meanwhile(files: list[str], lines: int) -> Generator[None, None, log_tail.Start]:
        looks.append(files)
        if len(looks) == 1:
            writer.rotate("20231114-221300")
            writer.write("four")
        return (yield from find(files, lines))

    monkeypatch.setattr(log_reader, "find_tail", rotated_meanwhile)

    assert b"three\nfour\n" == await read(writer.path, LogQuery(tail_lines=2))
    assert [1, 2] == [len(files) for files in looks]


async def test_a_log_that_is_rotated_at_each_look_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path / "0.log")
    writer.write("one")
    find = log_reader.find_tail

    def rotated_meanwhile(files: list[str], lines: int) -> Generator[None, None, log_tail.Start]:
        start = yield from find(files, lines)
        writer.rotate(f"20231114-22130{len(files)}")
        looks.append(len(files))
        return start

    looks: list[int] = []
    monkeypatch.setattr(log_reader, "find_tail", rotated_meanwhile)

    assert b"one\n" == await read(writer.path, LogQuery(tail_lines=9))
    assert [*range(1, log_reader.FINDS_MAX + 1)] == looks


async def test_lines_written_to_the_old_file_after_there_is_a_new_one_are_followed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    writer, said = Writer(tmp_path / "0.log"), []
    writer.write("one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, writer, said)
        await trio.sleep(1.1)
        with writer.path.open("ab", buffering=0) as late:
            writer.rotate("20231114-221300")
            await trio.sleep(0.15)  # a look lies between
            late.write(raw(1, Record("stdout", True, "two")))
        writer.write("three")
        await trio.sleep(1)
        writer.over = True

    assert b"one\ntwo\nthree\n" == b"".join(said)


@pytest.mark.parametrize("tail_lines", [1, 2])
async def test_a_compressed_part_without_a_newline_is_gone_through_a_block_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail_lines: int
) -> None:
    first, last = (raw(n, Record("stdout", True, text)) for n, text in enumerate(["first", "last"]))
    with gzip.open(tmp_path / "0.log.20231114-221300.gz", "wb") as packed:
        packed.write(first + bytes(3_000_000) + b"\n" + last)
    sizes: list[int] = []
    checkpoints: list[None] = []
    read_block, heads = PackedLog.read, log_tail._heads_of_packed

    def counted(file: PackedLog, size: int) -> bytes:
        sizes.append(size)
        return read_block(file, size)

    def watched(file, wanted):
        for head in heads(file, wanted):
            if head is None:
                checkpoints.append(head)
            yield head

    monkeypatch.setattr(PackedLog, "read", counted)
    monkeypatch.setattr(log_tail, "_heads_of_packed", watched)

    said = await read(tmp_path / "0.log", LogQuery(tail_lines=tail_lines))

    assert b"first\nlast\n".split()[-tail_lines:] == said.split()
    assert log_tail.BLOCK_BYTES == max(sizes)
    assert len(checkpoints) >= 3_000_000 // log_tail.BLOCK_BYTES


@pytest.mark.parametrize("tail_lines", [None, 100])
async def test_a_part_that_is_not_whole_is_shown_as_far_as_it_goes_and_that_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tail_lines: int | None
) -> None:
    (tmp_path / "0.log.20231114-221200.gz").write_bytes(b"")
    (tmp_path / "0.log.20231114-221300.gz").write_bytes(gzip.compress(raw(0, Record("stdout", True, "one")))[:-9])
    (tmp_path / "0.log.20231114-221400.gz").write_bytes(b"nothing like it")
    (tmp_path / "0.log").write_bytes(raw(1, Record("stdout", True, "two")))

    said = await read(tmp_path / "0.log", LogQuery(tail_lines=tail_lines))

    assert said.endswith(b"two\n")
    if tail_lines is None:
        [said_of_it] = caplog.messages
        assert "221300.gz is damaged, so not all of it can be shown: it is truncated" in said_of_it
        assert said_of_it.endswith(". Nor can 1 more of the parts of this log be shown whole")


@pytest.mark.parametrize("ending", ["", ".gz"])
async def test_of_parts_that_cannot_be_read_a_reader_leaves_one_line_however_many_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    for number in range(30):
        part = tmp_path / f"0.log.20231114-2213{number:02d}{ending}"
        if ending:
            part.write_bytes(b"nothing like it")
        else:
            plant_pipe(part)
    (tmp_path / "0.log").write_bytes(raw(1, Record("stdout", True, "two")))

    assert b"two\n" == await read(tmp_path / "0.log", LogQuery())
    assert ["29 more of the parts of this log be shown whole"] == [
        line.partition("Nor can ")[2] for line in caplog.messages
    ]


async def test_following_reader_logs_broken_parts_once_a_minute(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    writer, said = Writer(tmp_path / "0.log"), []

    def rotated_with_a_broken_one(minute: int) -> None:
        writer.path.with_name(f"0.log.20231114-22{minute:02d}01.gz").write_bytes(b"nothing like it")
        writer.rotate(f"20231114-22{minute:02d}00")
        writer.write("on")

    writer.write("begun")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, writer, said)
        await trio.sleep(1)
        for minute in range(3):
            rotated_with_a_broken_one(minute)
            await trio.sleep(1)
        assert 1 == len(caplog.messages)
        await trio.sleep(60)
        rotated_with_a_broken_one(3)
        await trio.sleep(1)
        writer.over = True

    assert b"begun\non\non\non\non\n" == b"".join(said)
    assert ["", "2 more of the parts of this log be shown whole"] == [
        line.partition("Nor can ")[2] for line in caplog.messages
    ]


@pytest.mark.parametrize("tail_lines", [1, 5, 60])
@pytest.mark.parametrize("damaged", [False, True])
async def test_of_a_part_that_is_not_whole_a_tail_is_the_last_lines_of_what_is_shown(
    tmp_path: Path, tail_lines: int, *, damaged: bool
) -> None:
    lines = b"".join(raw(number, Record("stdout", True, f"{number * 7919 % 10007} {number}")) for number in range(200))
    packed = gzip.compress(lines)
    broken = packed[:-8] + bytes(8) if damaged else packed[: len(packed) // 2]
    (tmp_path / "0.log.20231114-221200").write_bytes(raw(0, Record("stdout", True, "before")) * 3)
    (tmp_path / "0.log.20231114-221300.gz").write_bytes(broken)
    (tmp_path / "0.log").write_bytes(raw(1, Record("stdout", True, "last")))

    shown = (await read(tmp_path / "0.log", LogQuery())).splitlines()
    assert 60 < len(shown) - 4 <= 200

    assert shown[-tail_lines:] == (await read(tmp_path / "0.log", LogQuery(tail_lines=tail_lines))).splitlines()


async def test_a_log_that_says_no_more_than_an_error_when_it_is_closed_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "0.log"
    log.with_name("0.log.20231114-221300").write_bytes(raw(0, Record("stdout", True, "one")))
    log.write_bytes(raw(1, Record("stdout", True, "two")))
    opened = log_files.open_plain
    monkeypatch.setattr(log_files, "open_plain", lambda path: FailsToClose(opened(path).detach()))  # type: ignore[attr-defined]
    before = len(os.listdir("/proc/self/fd"))

    await log_reader.check_log(str(log), AtOnce())
    for query in (LogQuery(), LogQuery(tail_lines=5), LogQuery(tail_lines=5, limit_bytes=8)):
        assert b"one\ntwo\n" == await read(log, query)

    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("asked", [LogQuery(), LogQuery(tail_lines=5), LogQuery(follow=True)])
async def test_a_part_that_unpacks_to_nothing_is_left_out_after_little_of_it_and_that_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, asked: LogQuery
) -> None:
    log = tmp_path / "0.log"
    log.with_name("0.log.20231114-221200").write_bytes(raw(0, Record("stdout", True, "one")))
    part = log.with_name("0.log.20231114-221300.gz")
    part.write_bytes(b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * 4_000_000)
    log.write_bytes(raw(1, Record("stdout", True, "two")))
    taken: list[int] = []
    opened = log_files.open_plain

    class Counted(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            block = super().read(size)
            taken.append(len(block))
            return block

    monkeypatch.setattr(log_files, "open_plain", lambda path: Counted(opened(path).detach()))  # type: ignore[attr-defined]

    assert b"one\ntwo\n" == await read(log, asked)
    assert sum(taken) < 1_000_000
    assert [f"{part} is damaged"] == [text.partition(",")[0] for text in caplog.messages]


async def test_a_log_that_is_there_compressed_only_and_cut_off_ends_with_an_error_of_reading(tmp_path: Path) -> None:
    (tmp_path / "0.log.gz").write_bytes(gzip.compress(raw(0, Record("stdout", True, "one")))[:-9])
    with pytest.raises(OSError, match="truncated"):
        await read(tmp_path / "0.log", LogQuery(follow=True))


async def test_a_tail_that_begins_deep_in_a_compressed_part_is_reached(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "0.log")
    writer.write(*(f"{n} {'x' * 1000}" for n in range(300)))
    writer.rotate("20231114-221300", packed=True)
    writer.write("last")

    said = await read(writer.path, LogQuery(tail_lines=11))

    assert [*map(str, range(290, 300)), "last"] == [line.split()[0] for line in said.decode().splitlines()]


def plant_pipe(path: Path) -> None:
    """Make a pipe, as a container that mounts the logs may; nothing ever writes to it."""
    os.mkfifo(path)


@pytest.mark.timeout(60)  # for who waits in ``open`` for a pipe that nobody writes to
@pytest.mark.parametrize("asked", [LogQuery(), LogQuery(tail_lines=5), LogQuery(follow=True)])
@pytest.mark.parametrize("ending", ["", ".gz"])
async def test_a_pipe_among_the_parts_of_a_log_is_left_out_and_that_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str, asked: LogQuery
) -> None:
    log = tmp_path / "0.log"
    log.with_name("0.log.20231114-221200").write_bytes(raw(0, Record("stdout", True, "one")))
    plant_pipe(log.with_name(f"0.log.20231114-221300{ending}"))
    log.write_bytes(raw(1, Record("stdout", True, "two")))

    assert b"one\ntwo\n" == await read(log, asked)
    assert [f"not a regular file: '{log}.20231114-221300{ending}'"] == [
        record.getMessage().partition("[Errno 22] ")[2] for record in caplog.records
    ]


@pytest.mark.timeout(60)  # for who waits in ``open`` for a pipe that nobody writes to
@pytest.mark.parametrize("asked", [LogQuery(), LogQuery(tail_lines=5), LogQuery(follow=True)])
async def test_a_pipe_in_place_of_the_log_is_an_error(tmp_path: Path, asked: LogQuery) -> None:
    plant_pipe(tmp_path / "0.log")
    with pytest.raises(OSError, match="not a regular file"):
        await read(tmp_path / "0.log", asked)


@pytest.mark.timeout(60)  # for who waits in ``open`` for a pipe that nobody writes to
async def test_following_ends_with_an_error_where_the_log_becomes_a_pipe(tmp_path: Path, autojump_clock) -> None:
    writer, said = Writer(tmp_path / "0.log"), []
    writer.write("one")

    async def replace_it() -> None:
        await trio.sleep(1)
        writer.path.unlink()
        plant_pipe(writer.path)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(replace_it)
        with pytest.raises(OSError, match="not a regular file"):
            await follow(writer, said)

    assert [b"one\n"] == said


async def test_a_rotation_between_the_listing_of_a_log_and_its_opening_costs_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(tmp_path / "0.log")
    writer.write("one")
    list_parts = log_reader.rotated
    listed: list[tuple[str, ...]] = []

    def listed_too_early(path: str) -> tuple[str, ...]:
        listed.append(list_parts(path))
        if len(listed) == 1:
            writer.rotate("20231114-221300")
            writer.write("two")
        return listed[-1]

    monkeypatch.setattr(log_reader, "rotated", listed_too_early)

    assert b"one\ntwo\n" == await read(writer.path, LogQuery())


async def test_of_names_without_end_in_a_logs_directory_so_many_are_looked_at_and_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(raw(0, Record("stdout", True, "last")))
    for number in range(9):
        log.with_name(f"0.log.20231114-22130{number}").write_bytes(raw(0, Record("stdout", True, "part")))
    monkeypatch.setattr(log_files, "NAMES_MAX", 10)
    assert 10 == (await read(log, LogQuery())).count(b"\n")
    assert not caplog.messages

    monkeypatch.setattr(log_files, "NAMES_MAX", 4)

    said = await read(log, LogQuery())
    assert said.endswith(b"last\n")
    assert 4 <= said.count(b"\n") <= 5
    assert f"{tmp_path} has more than 4 names; of 0.log some parts may not be shown" in caplog.messages


class Watched(AtOnce):
    """Hangs from the step of that number on, or has no threads from there on, and counts them."""

    def __init__(self, hangs_at: int, *, refuses: bool = False) -> None:
        super().__init__()
        self.hangs_at = hangs_at
        self.refuses = refuses
        self.steps = 0

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        self.steps += 1
        if self.refuses and self.steps >= self.hangs_at:
            raise OSError(errno.EAGAIN, "cannot start a thread")
        self.hangs = self.steps >= self.hangs_at
        return await super().run(owner, work)


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("tail_lines", [None, 3])
async def test_a_disk_that_hangs_or_cannot_be_asked_at_any_step_is_an_error_and_leaves_nothing_open(
    tmp_path: Path, autojump_clock: MockClock, tail_lines: int | None, *, follow: bool, refuses: bool
) -> None:
    log = tmp_path / "pod/c/0.log"
    log.parent.mkdir(parents=True)
    log.with_name("0.log.20231114-221300").write_bytes(raw(0, Record("stdout", True, "one")))
    log.write_bytes(raw(1, Record("stdout", True, "two")))
    query = LogQuery(follow=follow, tail_lines=tail_lines)
    before = len(os.listdir("/proc/self/fd"))
    whole = Watched(99)
    assert b"one\ntwo\n" == await read(log, query, whole)

    for at in range(1, whole.steps + 1):
        began = trio.current_time()
        with pytest.raises(DiskUnavailable) as raised:
            await read(log, query, Watched(at, refuses=refuses))
        assert str(tmp_path / "pod") == raised.value.filename
        assert (0 if refuses else 10) == trio.current_time() - began
    assert before == len(os.listdir("/proc/self/fd"))


async def test_following_reader_takes_one_step_for_each_look(tmp_path: Path, autojump_clock: MockClock) -> None:
    log, threads = tmp_path / "0.log", Watched(99)
    log.write_bytes(raw(0, Record("stdout", True, "one")))
    with trio.move_on_after(5 * log_records.FOLLOW_SECONDS):
        async with aclosing(read_log(str(log), LogQuery(follow=True), lambda: False, threads)) as blocks:
            assert b"one\n" == await anext(blocks)
            before = threads.steps
            await anext(blocks)

    assert 4 <= threads.steps - before <= 5


async def test_client_disconnect_is_immediate_while_the_disk_hangs(tmp_path: Path, autojump_clock: MockClock) -> None:
    log, threads = tmp_path / "0.log", Watched(3)
    log.write_bytes(raw(0, Record("stdout", True, "one")))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def read_on() -> None:
            async with aclosing(read_log(str(log), LogQuery(), lambda: True, threads)) as blocks:
                await anext(blocks)

        nursery.start_soon(read_on)
        while not threads.waiting:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert began == trio.current_time()
