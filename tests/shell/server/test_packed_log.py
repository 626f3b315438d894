"""PackedLog beside Python's own reader, and on files that unpack to nothing."""

from __future__ import annotations

import gzip
import io
import zlib
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from trikubelet.server.packed_log import IDLE_BYTES_MAX, INPUT_BYTES, PackedLog

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = b"\x1f\x8b\x08%c\0\0\0\0\0\xff"


def header(extra: bytes | None, name: bytes | None, comment: bytes | None, *, has_crc: bool) -> bytes:
    flags, fields = 2 * has_crc, b""
    if extra is not None:
        flags, fields = flags | 4, len(extra).to_bytes(2, "little") + extra
    for flag, text in ((8, name), (16, comment)):
        if text is not None:
            flags, fields = flags | flag, fields + text + b"\0"
    return HEADER % flags + fields + b"cc" * has_crc


def member(text: bytes, head: bytes = HEADER % 0) -> bytes:
    return head + gzip.compress(text, mtime=0)[10:]


FIELD = st.none() | st.binary(max_size=5).map(lambda text: text.replace(b"\0", b"x"))
HEADERS = st.builds(header, FIELD, FIELD, FIELD, has_crc=st.booleans())
TEXTS = st.binary(max_size=40) | st.integers(1, 3).map(lambda times: bytes(range(256)) * 400 * times)


@st.composite
def packed(draw: st.DrawFn) -> bytes:
    """Members with zeros behind them, and half of the time something is cut off, another, or too much."""
    members = draw(st.lists(st.tuples(TEXTS, HEADERS, st.integers(0, 3)), max_size=4))
    data = bytearray(b"".join(member(text, head) + bytes(zeros) for text, head, zeros in members))
    at = draw(st.integers(0, max(0, len(data) - 1)))
    match draw(st.sampled_from(["whole", "whole", "whole", "cut", "other", "more"])):
        case "cut":
            del data[at:]
        case "other" if data:
            data[at] ^= draw(st.integers(1, 255))
        case "more":
            data += draw(st.binary(min_size=1, max_size=12))
    return bytes(data)


def unpacked(data: bytes, size: int) -> tuple[bytes, bool]:
    """All text there is, and whether the file is whole."""
    text = bytearray()
    with PackedLog(io.BytesIO(data)) as log:
        try:
            while block := log.read(size):
                assert len(block) <= size
                text += block
        except gzip.BadGzipFile:
            return bytes(text), False
    return bytes(text), True


@settings(max_examples=examples(300), deadline=None)
@given(data=packed(), size=st.integers(1000, 70_000) | st.integers(100_000, 400_000))
def test_it_reads_what_pythons_own_reader_does(data: bytes, size: int) -> None:
    text, is_whole = bytearray(), True
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as peer:
        try:
            while block := peer.read1(size):
                text += block
        except (EOFError, gzip.BadGzipFile, zlib.error):
            is_whole = False

    found, found_whole = unpacked(data, size)

    assert is_whole == found_whole
    if is_whole:
        assert text == found


@pytest.mark.parametrize("size", [1, 7, 100])
def test_text_is_given_out_before_it_is_told_that_it_was_damaged_or_cut(size: int) -> None:
    data = member(b"one\n") + member(b"two\n")

    assert (b"one\ntwo\n", True) == unpacked(data + bytes(100), size)
    for broken in (data[:-1], data[:-8], data[:-1] + b"\1", data[:-8] + b"\1" + data[-7:], data + b"x"):
        assert (b"one\ntwo\n", False) == unpacked(broken, size)


@pytest.mark.parametrize("size", [1, 100])
def test_text_that_follows_from_what_was_read_is_given_out_though_the_file_is_cut_there(size: int) -> None:
    data = member(b"a" * 1000)  # some bytes that say: the same again, 258 times
    for cut in range(len(data)):
        assert unpacked(data[:cut], 4096) == unpacked(data[:cut], size)


class Endless(io.BytesIO):
    """A file that goes on for ever: ``first``, and then the same again and again. Counts what was read of it."""

    def __init__(self, first: bytes, again: bytes) -> None:
        super().__init__()
        self.count = 0
        self._pieces: Iterator[bytes] = chain([first], repeat(again * (INPUT_BYTES // len(again) + 1)))
        self._rest = b""

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size > 0, "all of it would be read"
        while len(self._rest) < size:
            self._rest += next(self._pieces)
        block, self._rest = self._rest[:size], self._rest[size:]
        self.count += size
        assert self.count < 64 * IDLE_BYTES_MAX, "it is read without end"
        return block


WITHOUT_TEXT = {
    "a name without an end": (HEADER % 8, b"a"),
    "members without text": (b"", member(b"")),
    "a member that goes on without text": (HEADER % 0, b"\0\0\0\xff\xff"),
    "zeros": (member(b""), b"\0"),
}


@pytest.mark.parametrize(("first", "again"), WITHOUT_TEXT.values(), ids=list(WITHOUT_TEXT))
def test_a_file_without_text_is_broken_when_so_much_of_it_was_read(first: bytes, again: bytes) -> None:
    file = Endless(first, again)
    with pytest.raises(gzip.BadGzipFile, match="there is no text in"):
        PackedLog(file).read(1000)
    assert file.count <= IDLE_BYTES_MAX + INPUT_BYTES


def test_of_a_file_with_little_text_so_much_at_most_is_read_for_it() -> None:
    rare = member(b"a") + member(b"") * ((IDLE_BYTES_MAX - INPUT_BYTES) // len(member(b"")))
    file = Endless(b"", rare)
    log = PackedLog(file)
    for _ in range(5):
        before = file.count
        assert b"a" == log.read(1000)
        assert file.count - before <= IDLE_BYTES_MAX


def test_the_longest_header_that_gzips_writers_make_is_gone_over() -> None:
    longest = header(b"x" * 65535, b"n" * 255, b"c" * 255, has_crc=True)
    assert (b"text", True) == unpacked(member(b"text", longest), 100)
