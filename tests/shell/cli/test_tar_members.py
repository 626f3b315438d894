"""Archives are read as tar and tarfile mean them, and of those that nobody would write little is kept."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trikubelet.cli.tar_members import EXTENSION_BYTES_MAX, Kind, Member, Members, NoArchive

if TYPE_CHECKING:
    from pathlib import Path

LEADS_BACK = b"\xff path=" + b"a" * 30 + b"\nX"
"""A record whose length is -1, where lengths are numbers as in a header: the next would begin a byte before it."""
LONG = "/".join(["directory"] * 40)


def read(octets: bytes) -> list[tuple[Member, bytes]]:
    members = Members(io.BytesIO(octets))
    return [(member, b"".join(members.content())) for member in members]


def header(name: str, kind: bytes, size: int) -> bytes:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size
    return made.tobuf(tarfile.GNU_FORMAT)


def extension(kind: bytes, content: bytes) -> bytes:
    return header("x", kind, len(content)) + content + bytes(-len(content) % 512)


@pytest.mark.parametrize(
    ("format", "name", "mtime"),
    [
        pytest.param(tarfile.USTAR_FORMAT, f"{LONG[:150]}/{'n' * 90}", 1, id="ustar"),
        pytest.param(tarfile.GNU_FORMAT, f"{LONG}/\udcff\n", -1, id="gnu"),
        pytest.param(tarfile.PAX_FORMAT, f"{LONG}/ü\n", 1, id="pax"),
    ],
)
def test_what_tarfile_writes_is_read(format: int, name: str, mtime: int) -> None:
    written = []
    for kind in (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        one = tarfile.TarInfo(name)
        one.type, one.mode, one.mtime = kind, 0o4711, mtime
        one.linkname = LONG[:90] if format == tarfile.USTAR_FORMAT else LONG if one.islnk() or one.issym() else ""
        one.size = 1234 if one.isreg() else 0
        written.append(one)
    octets = io.BytesIO()
    with tarfile.open(fileobj=octets, mode="w", format=format) as archive:
        for one in written:
            archive.addfile(one, io.BytesIO(b"c" * one.size))

    kinds = [Kind.FILE, Kind.LINK, Kind.HARD_LINK, Kind.DIRECTORY, Kind.PIPE, Kind.DEVICE]
    assert [
        (Member(one.name, kind, one.linkname, 0o4711, mtime), b"c" * one.size)
        for one, kind in zip(written, kinds, strict=True)
    ] == read(octets.getvalue())


@pytest.mark.parametrize("words", [["--format=gnu"], ["--format=posix"], ["--format=posix", "--sparse-version=0.1"]])
def test_a_sparse_file_is_told_and_what_follows_is_read(tmp_path: Path, words: list[str]) -> None:
    with (tmp_path / "holes").open("wb") as file:
        for hole in range(60):  # more than fit into one header of the old kind
            file.seek(hole * 65536)
            file.write(b"x")
    (tmp_path / "next").write_text("next")

    octets = subprocess.run(
        ["tar", "-cSf", "-", *words, "-C", tmp_path, "holes", "next"], check=True, capture_output=True
    ).stdout

    (holes, _), (following, content) = read(octets)
    assert ("holes", Kind.SPARSE, "next", b"next") == (holes.name, holes.kind, following.name, content)


def test_more_than_eight_gigabytes_are_a_size() -> None:
    one = tarfile.TarInfo("large")
    one.size = 2**33 + 1
    for format_ in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        members = Members(io.BytesIO(one.tobuf(format_) + b"begun"))
        assert "large" == next(iter(members)).name
        with pytest.raises(NoArchive, match="it is truncated"):
            list(members.content())


def test_long_names_before_one_another_are_as_many_as_they_like() -> None:
    many = extension(b"L", b"first") * sys.getrecursionlimit() + extension(b"L", b"last") + header("short", b"5", 0)

    assert ["last"] == [member.name for member, _ in read(many)]


@pytest.mark.parametrize("kind", [b"L", b"K", b"x"])
def test_a_name_larger_than_any_is_not_read(kind: bytes) -> None:
    stream = io.BytesIO(header("x", kind, EXTENSION_BYTES_MAX + 1) + bytes(10_000))

    with pytest.raises(NoArchive, match=f"has {EXTENSION_BYTES_MAX + 1} bytes"):
        next(iter(Members(stream)))
    assert 512 == stream.tell()


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        pytest.param(b"x" * 512, "a number is invalid", id="anything"),
        pytest.param(header("a", b"0", 0)[:511], "it is truncated", id="half a header"),
        pytest.param(header("a", b"0", 3) + b"ab", "it is truncated", id="half a content"),
        pytest.param(header("a", b"0", 3) + b"abc", "it is truncated", id="no padding"),
        pytest.param(b"b" + header("a", b"0", 0)[1:], "checksum", id="a wrong checksum"),
        pytest.param(header("a", b"0", -1), "below zero", id="a size below zero"),
        pytest.param(extension(b"x", b"0 a=b\n"), "pax header", id="a record without a length"),
        pytest.param(extension(b"x", b"99 path=b\n"), "pax header", id="a record longer than its header"),
        pytest.param(extension(b"x", LEADS_BACK), "pax header", id="a record whose length is below zero"),
        pytest.param(extension(b"x", b"12\0path=abcd\n"), "pax header", id="a record with a length and no blank"),
        pytest.param(extension(b"x", b"1 a=b\n"), "pax header", id="a record shorter than its length"),
        pytest.param(extension(b"x", b"10 size=x\n") + header("a", b"0", 0), "number", id="a size of letters"),
        pytest.param(extension(b"x", b"11 size=-1\n") + header("a", b"0", 0), "number", id="a size of pax below zero"),
    ],
)
def test_what_is_no_archive_is_refused_by_its_fault(octets: bytes, why: str) -> None:
    with pytest.raises(NoArchive, match=why):
        read(octets)


@given(st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=20), st.integers(0, 4096), st.booleans())
def test_a_damaged_archive_is_read_or_refused(damages: list[tuple[int, int]], length: int, mends: bool) -> None:
    whole = extension(b"L", b"l" * 120) + header("a", b"0", 3) + b"abc" + bytes(509)
    whole += extension(b"x", b"13 path=some\n") + header("b", b"2", 0) + header("c", b"S", 0)
    octets = bytearray(whole)
    for place, value in damages:
        octets[place % len(octets)] = value
    if mends:  # of what a wrong checksum would hide
        for begin in range(0, len(octets), 512):
            octets[begin + 148 : begin + 156] = b" " * 8
            octets[begin + 148 : begin + 156] = b"%06o\0 " % sum(octets[begin : begin + 512])

    members = Members(io.BytesIO(bytes(octets[:length])))
    try:
        for member in itertools.islice(members, 100):
            assert "\0" not in member.name + member.link
    except NoArchive:
        pass


@given(st.lists(st.sampled_from([b"13 path=some\n", b"7 a=b\n", b"\xff", b"-1", b"0", b" ", b"=", b"\n", b"path"])))
@example([LEADS_BACK])
@example([b"13 path=some\n", b"\xff path=a\nX"])
def test_a_pax_header_of_anything_is_read_or_refused(parts: list[bytes]) -> None:
    with suppress(NoArchive):
        read(extension(b"x", b"".join(parts)) + header("a", b"0", 0))
