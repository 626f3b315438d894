"""What ``cp`` takes out of a container's archive, and what it leaves of what is here already."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from trikubelet.cli.archive import pour, unpack
from trikubelet.cli.failed import CommandFailed

if TYPE_CHECKING:
    from pathlib import Path

AN_OLD_TIME = 1_000_000_000


def sent(*members: tarfile.TarInfo) -> int:
    """The end of a pipe from which an archive comes; each of its files holds its own name."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for member in members:
            content = member.name.encode() if member.isreg() else b""
            member.size, member.mtime = len(content), AN_OLD_TIME
            archive.addfile(member, io.BytesIO(content))
    read_end, write_end = os.pipe()

    def write() -> None:
        with open(write_end, "wb") as stream:
            stream.write(packed.getvalue())

    threading.Thread(target=write).start()
    return read_end


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


@pytest.mark.parametrize(
    "members",
    [
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


def test_a_directory_is_not_written_to_a_device() -> None:
    with pytest.raises(CommandFailed, match="etc is no file, and /dev/null no directory"):
        pour(sent(member("etc", tarfile.DIRTYPE)), "/dev/null")


@pytest.mark.parametrize("octets", [b"no archive at all" * 99, b""])
def test_what_is_no_archive_is_told_unless_it_is_nothing(tmp_path: Path, octets: bytes) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, octets)
    os.close(write_end)
    if octets:
        with pytest.raises(CommandFailed, match="what the container sends is no tar archive"):
            unpack(read_end, str(tmp_path), "a", "b")
    else:
        unpack(read_end, str(tmp_path), "a", "b")
    assert [] == os.listdir(tmp_path)
