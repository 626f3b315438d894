"""What ``cp`` takes out of a container's archive, and what it leaves of what is here already."""

from __future__ import annotations

import io
import os
import stat
import sys
import tarfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from trikubelet.cli.archive import WARNINGS_MAX, _stays, pour, unpack
from trikubelet.cli.destination import Destination, NotTaken
from trikubelet.cli.failed import CommandFailed
from trikubelet.host.removal import remove_tree

if TYPE_CHECKING:
    from pathlib import Path

AN_OLD_TIME = 1_000_000_000


def packed(*members: tarfile.TarInfo) -> bytes:
    """An archive; each of its files holds its own name."""
    octets = io.BytesIO()
    with tarfile.open(fileobj=octets, mode="w") as archive:
        for member in members:
            content = member.name.encode() if member.isreg() else b""
            member.size, member.mtime = len(content), AN_OLD_TIME
            archive.addfile(member, io.BytesIO(content))
    return octets.getvalue()


def piped(octets: bytes) -> int:
    """The end of a pipe from which they come."""
    read_end, write_end = os.pipe()

    def write() -> None:
        with open(write_end, "wb") as stream:
            stream.write(octets)

    threading.Thread(target=write).start()
    return read_end


def sent(*members: tarfile.TarInfo) -> int:
    return piped(packed(*members))


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, 0o755
    return made


def test_what_is_not_taken_is_named_and_the_rest_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new").mkdir()
    os.mkfifo(tmp_path / "new" / "here")
    members = [
        member("etc", tarfile.DIRTYPE),
        member("etc/abs", tarfile.SYMTYPE, "/usr/bin/vi"),
        member("etc/out", tarfile.SYMTYPE, "../../x"),
        member("etc/fifo", tarfile.FIFOTYPE),
        member("etc/again", tarfile.LNKTYPE, "etc/fifo"),
        member("etc/here"),
        member("etc/a"),
        member("etc/hard", tarfile.LNKTYPE, "etc/a"),
        member("etc/soft", tarfile.SYMTYPE, "a"),
    ]

    unpack(sent(*members), str(tmp_path), "etc", "new")

    new = tmp_path / "new"
    assert ["a", "hard", "here", "soft"] == sorted(path.name for path in new.iterdir())
    assert ("etc/a", "etc/a", "a") == ((new / "a").read_text(), (new / "hard").read_text(), os.readlink(new / "soft"))
    told = capsys.readouterr().err.splitlines()
    assert all(line.startswith("warning: not taken from the container: ") for line in told)
    assert ["abs", "out", "fifo", "again", "here"] == [line.split("'")[1].removeprefix("new/") for line in told]


def a_long_way_out() -> list[tarfile.TarInfo]:
    """Links of one letter to directories of long names: written out, the way through all of them is longer than the
    kernel takes, so whoever asks it where ``data/escape`` leads is not told, and may take it for a harmless one
    (CVE-2025-4517)."""
    made = [member("data", tarfile.DIRTYPE)]
    real, short = "data", ""
    for step in "abcdefghijklmnop":
        made += [member(f"{real}/{'d' * 247}", tarfile.DIRTYPE), member(f"{real}/{step}", tarfile.SYMTYPE, "d" * 247)]
        real, short = f"{real}/{'d' * 247}", f"{short}{step}/"
    up = f"{short}{'l' * 254}"
    made.append(member(f"data/{up}", tarfile.SYMTYPE, "../" * 16))
    made.append(member("data/escape", tarfile.SYMTYPE, f"{up}/../beside"))
    made.append(member("data/hard", tarfile.LNKTYPE, "data/escape/victim"))
    return [*made, member("data/hard"), member("data/escape/new")]


@pytest.mark.parametrize(
    "members",
    [
        pytest.param(a_long_way_out(), id="by a way longer than the kernel takes"),
        pytest.param([member("data", tarfile.DIRTYPE), member("data/../victim")], id="by its name"),
        pytest.param([member("data/../victim")], id="without a topmost"),
        pytest.param([member("victim")], id="beside it"),
        pytest.param(
            [member("data", tarfile.DIRTYPE), member("data/l", tarfile.SYMTYPE, "../beside"), member("data/l/victim")],
            id="through a link",
        ),
        pytest.param(
            [member("data", tarfile.SYMTYPE, "beside"), member("data/victim")], id="through a link that is the topmost"
        ),
        pytest.param(
            [
                member("data", tarfile.DIRTYPE),
                member("data/h", tarfile.LNKTYPE, "data/../victim"),
                member("data/h"),
            ],
            id="through a hard link",
        ),
    ],
)
def test_nothing_is_written_outside_the_destination(members: list[tarfile.TarInfo], tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    for victim in ("victim", "beside/victim"):
        (tmp_path / victim).write_text("mine")

    with suppress(CommandFailed):
        unpack(sent(*members), str(tmp_path), "data", "out")

    assert not (tmp_path / "out").is_symlink()
    assert ["mine", "mine"] == [(tmp_path / victim).read_text() for victim in ("victim", "beside/victim")]
    assert ["victim"] == os.listdir(tmp_path / "beside")


def test_when_the_topmost_is_not_taken_that_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="not taken from the container: 'a' is a link to '/etc/passwd'; copy that"):
        unpack(sent(member("a", tarfile.SYMTYPE, "/etc/passwd")), str(tmp_path), "a", "b")


def test_a_pipe_or_device_is_written_to_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o640)
    before = os.stat(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    pour(sent(member("etc/hostname")), str(path))

    after = os.stat(path)
    assert b"etc/hostname" == os.read(reading, 100)
    assert (stat.S_IFIFO | 0o640, before.st_uid) == (after.st_mode, after.st_uid)
    assert AN_OLD_TIME != after.st_mtime
    os.close(reading)


def test_file_is_written_to_a_descriptor_that_stays_open(tmp_path: Path) -> None:
    with open(tmp_path / "out", "ab", buffering=0) as out:
        out.write(b"before,")
        pour(sent(member("etc/hostname")), out.fileno())
        out.write(b",after")

    assert b"before,etc/hostname,after" == (tmp_path / "out").read_bytes()


def test_a_directory_is_not_written_to_a_device() -> None:
    with pytest.raises(CommandFailed, match="etc is not a file, and standard output not a directory"):
        pour(sent(member("etc", tarfile.DIRTYPE)), 1)
    with pytest.raises(CommandFailed, match="etc is not a file, and /dev/null not a directory"):
        pour(sent(member("etc", tarfile.DIRTYPE)), "/dev/null")


@pytest.mark.parametrize("octets", [b"no archive at all" * 99, b""])
def test_what_is_no_archive_is_told_unless_it_is_nothing(tmp_path: Path, octets: bytes) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, octets)
    os.close(write_end)
    if octets:
        with pytest.raises(CommandFailed, match="the container did not send a tar archive"):
            unpack(read_end, str(tmp_path), "a", "b")
    else:
        assert not unpack(read_end, str(tmp_path), "a", "b")
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.REGTYPE])
def test_neither_many_names_nor_long_ones_fill_a_screen(
    kind: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long, link = "etc/\x1b]0;title\a" + "n" * 100_000, "/" + "l" * 100_000

    unpack(sent(member("etc", tarfile.DIRTYPE), *[member(long, kind, link)] * 1000), str(tmp_path), "etc", "new")

    told = capsys.readouterr().err
    lines = told.splitlines()
    assert WARNINGS_MAX + 1 == len(lines)
    assert f"warning: not taken from the container: {1000 - WARNINGS_MAX} more" == lines[-1]
    assert max(map(len, lines)) < 600
    assert "\x1b" not in told


def test_what_was_not_taken_is_counted_where_the_archive_breaks_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    octets = packed(*[member(f"etc/{number}", tarfile.FIFOTYPE) for number in range(30)])
    with pytest.raises(CommandFailed, match="it is truncated"):
        unpack(piped(octets[: 30 * 512 - 1]), str(tmp_path), "etc", "new")
    assert f"{29 - WARNINGS_MAX} more" in capsys.readouterr().err


def test_without_tarfiles_filters_all_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Debian 12, whose Python is 3.11.2."""
    for name in ("FilterError", "data_filter", "tar_filter", "fully_trusted_filter"):
        monkeypatch.delattr(tarfile, name, raising=False)

    members = [member("etc", tarfile.DIRTYPE), member("etc/out", tarfile.SYMTYPE, "../../x"), member("etc/a")]
    unpack(sent(*members), str(tmp_path), "etc", "new")

    assert ["a"] == os.listdir(tmp_path / "new")


def test_a_link_that_stood_there_is_not_passed_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into, mine = tmp_path / "into", tmp_path / "mine"
    (into / "data").mkdir(parents=True)
    mine.mkdir()
    (mine / "file").write_text("mine")
    (into / "data" / "dir").symlink_to(mine)
    (into / "data" / "file").symlink_to(mine / "file")
    members = [
        member("data", tarfile.DIRTYPE),
        member("data/dir", tarfile.DIRTYPE),
        member("data/dir/file"),
        member("data/file"),
    ]

    unpack(sent(*members), str(into), "data", "data")

    assert ["file"] == os.listdir(mine)
    assert ("mine", mine) == ((mine / "file").read_text(), (into / "data" / "dir").readlink())
    assert ("data/file", False) == ((into / "data" / "file").read_text(), (into / "data" / "file").is_symlink())
    assert 2 == capsys.readouterr().err.count("which is not a directory here, or is a link to one")


def test_topmost_member_with_a_link_at_its_name_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "data").symlink_to("beside")

    with pytest.raises(CommandFailed, match="would be in 'data', which is not a directory here, or is a link to one"):
        unpack(sent(member("data", tarfile.DIRTYPE), member("data/a")), str(tmp_path), "data", "data")

    assert [] == os.listdir(tmp_path / "beside")


def test_what_was_there_gets_no_other_name_and_keeps_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "mine").write_text("mine")
    (new / "replaced").hardlink_to(new / "mine")
    members = [
        member("etc", tarfile.DIRTYPE),
        member("etc/hard", tarfile.LNKTYPE, "etc/mine"),
        member("etc/replaced"),
    ]

    unpack(sent(*members), str(tmp_path), "etc", "new")

    assert ["mine", "replaced"] == sorted(os.listdir(new))
    assert ("mine", "etc/replaced") == ((new / "mine").read_text(), (new / "replaced").read_text())
    assert "'hard' is a link to 'new/mine', which was skipped" in capsys.readouterr().err


def test_a_file_with_the_number_of_one_that_was_made_and_is_gone_gets_no_other_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = os.stat
    with Destination(str(tmp_path)) as destination:
        destination.write(["a"], [b"ours"], 0o644, 0)
        gone = look(tmp_path / "a")
        destination.link(["a"], "anywhere")
        (tmp_path / "theirs").touch()  # a file system may give it the number at once, or never
        monkeypatch.setattr(os, "stat", lambda path, **how: gone if path == "theirs" else look(path, **how))
        with pytest.raises(NotTaken, match="is a link to 'theirs', which was skipped"):
            destination.link_again(["b"], ["theirs"])


def test_a_file_keeps_its_second_name_when_the_first_is_another(tmp_path: Path) -> None:
    members = [
        member("etc", tarfile.DIRTYPE),
        member("etc/a"),
        member("etc/b", tarfile.LNKTYPE, "etc/a"),
        member("etc/b", tarfile.LNKTYPE, "etc/b"),
        member("etc/a"),
        member("etc/c", tarfile.LNKTYPE, "etc/b"),
    ]

    unpack(sent(*members), str(tmp_path), "etc", "new")

    new = tmp_path / "new"
    assert ["a", "b", "c"] == sorted(os.listdir(new))
    assert (True, False) == ((new / "b").samefile(new / "c"), (new / "a").samefile(new / "b"))


@pytest.mark.parametrize(
    ("theirs", "ours"), [(0o7777, 0o755), (0o6666, 0o644), (0o4001, 0o600), (0o000, 0o600), (0o555, 0o755)]
)
def test_mode_gives_others_at_most_reading_and_executing(tmp_path: Path, theirs: int, ours: int) -> None:
    file = member("a")
    file.mode, file.uid, file.gid = theirs, 12345, 12345

    unpack(sent(file), str(tmp_path), "a", "b")

    found = (tmp_path / "b").stat()
    assert (ours, os.geteuid(), AN_OLD_TIME) == (stat.S_IMODE(found.st_mode), found.st_uid, found.st_mtime)


def test_a_file_that_does_not_come_to_its_end_is_not_there(tmp_path: Path) -> None:
    octets = packed(member("etc", tarfile.DIRTYPE), member("etc/a"), member("etc/b"))

    with pytest.raises(CommandFailed, match="the container did not send a tar archive: it is truncated"):
        unpack(piped(octets[: 4 * 512 + 2]), str(tmp_path), "etc", "new")

    assert ["a"] == os.listdir(tmp_path / "new")


@pytest.mark.slow
def test_a_tree_may_be_as_deep_as_it_likes(place: Path) -> None:
    levels = 2 * sys.getrecursionlimit()
    deepest = "/".join(["data", *["d"] * levels])

    unpack(
        sent(member(f"{deepest}/file"), member(f"{deepest}/again", tarfile.LNKTYPE, f"{deepest}/file")),
        str(place),
        "data",
        "new",
    )

    here = os.open(place / "new", os.O_PATH)
    for _ in range(levels):
        below = os.open("d", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    assert {"file", "again"} == set(os.listdir(f"/proc/self/fd/{here}"))
    os.close(here)
    remove_tree(str(place / "new"))  # which the fixture could not


@pytest.mark.parametrize(
    ("target", "depth", "stays"),
    [
        ("a", 0, True),
        ("./a//b/", 0, True),
        ("..", 1, True),
        ("../../a", 2, True),
        ("..", 0, False),
        ("../../a", 1, False),
        ("./.././..", 1, False),
        ("a/..", 5, False),
        ("../a/../b", 5, False),
        ("/a", 5, False),
        ("", 5, False),
    ],
)
def test_a_link_goes_up_before_it_goes_down_and_no_further_than_the_topmost(
    target: str, depth: int, stays: bool
) -> None:
    assert stays == _stays(target, depth)
