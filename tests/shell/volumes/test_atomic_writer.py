"""Files that change all together: what a reader sees at every moment, also of a crash."""

import errno
import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shell.breadth import nest
from trikubelet.core.containers.volume_files import Files, VolumeFile
from trikubelet.volumes import atomic_writer
from trikubelet.volumes.atomic_writer import is_filled, write

STAMP = re.compile(r"\.\.\d{4}(_\d\d){5}\.\w+")


def files(**content: str) -> Files:
    return {path.replace("__", "/"): VolumeFile(text.encode(), 0o644) for path, text in content.items()}


def read(volume: Path) -> dict[str, bytes]:
    """Return what a container sees: every file by the links it opens."""
    found = {}
    for where, _, names in os.walk(volume, followlinks=True):
        inside = Path(where).relative_to(volume)
        if inside.parts and inside.parts[0].startswith(".."):
            continue
        found |= {str(inside / name): Path(where, name).read_bytes() for name in names if not name.startswith("..")}
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_layout_is_the_one_programs_know(tmp_path: Path) -> None:
    assert write(tmp_path, files(a="1", dir__b="2"), None)

    assert ["..data", "a", "dir"] == sorted(n for n in os.listdir(tmp_path) if not STAMP.fullmatch(n))
    assert STAMP.fullmatch(os.readlink(tmp_path / "..data"))
    assert ("..data/a", "..data/dir") == (os.readlink(tmp_path / "a"), os.readlink(tmp_path / "dir"))
    assert {"a": b"1", "dir/b": b"2"} == read(tmp_path)
    assert 0o755 == mode(tmp_path / "..data/") == mode(tmp_path / "dir/")


def test_the_same_again_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path, files(a="1"), None)
    before = os.readlink(tmp_path / "..data")

    assert not write(tmp_path, files(a="1"), None)
    assert before == os.readlink(tmp_path / "..data")


@pytest.mark.parametrize("second", [files(a="2"), files(b="1"), {}, {"a": VolumeFile(b"1", 0o600)}, files(a__b="1")])
def test_any_difference_makes_it_new_and_leaves_nothing_of_the_old(tmp_path: Path, second: Files) -> None:
    write(tmp_path, files(a="1"), None)
    before = os.readlink(tmp_path / "..data")

    assert write(tmp_path, second, None)
    assert content(second) == read(tmp_path)
    assert not (tmp_path / before).exists()
    assert len(os.listdir(tmp_path)) == 2 + len(second)


def test_modes_hold_whatever_the_umask_is_and_the_group_may_read(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path, {"a": VolumeFile(b"", 0o777), "d/b": VolumeFile(b"", 0o600)}, os.getgid())
    finally:
        os.umask(before)

    assert (0o777, 0o640) == (mode(tmp_path / "a"), mode(tmp_path / "d/b"))
    assert 0o2755 == mode(tmp_path / "d/") == mode(tmp_path / "..data/")
    assert os.getgid() == (tmp_path / "d/b").stat().st_gid


def test_owners_are_given_where_the_file_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_to = []
    monkeypatch.setattr(os, "fchown", lambda _fd, owner, group: given_to.append((owner, group)))
    write(tmp_path, {"a": VolumeFile(b"", 0o600, 1234)}, None)

    assert [(1234, os.getegid())] == given_to


@pytest.mark.parametrize("path", ["../a", "/etc/a", "a/../../b", "..data", "..data/a", ""])
def test_a_path_that_leads_elsewhere_is_refused_and_nothing_is_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="invalid path"):
        write(tmp_path, files(ok="1") | {path: VolumeFile(b"", 0o644)}, None)
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize(("one", "other"), [("a", "a/b"), ("a/b/c", "a")])
def test_a_path_that_is_a_file_and_a_directory_is_refused_and_nothing_is_written(
    tmp_path: Path, one: str, other: str
) -> None:
    with pytest.raises(ValueError, match=f"^a cannot be a file and the directory of {max(one, other)}$"):
        write(tmp_path, {path: VolumeFile(b"", 0o644) for path in (one, other)}, None)
    assert [] == os.listdir(tmp_path)


def test_a_writing_that_finds_no_room_leaves_nothing_behind_and_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, files(a="1"), None)
    before = sorted(os.listdir(tmp_path))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchmod", full)
        with pytest.raises(OSError, match="no room for 6 bytes beside what is there"):
            write(tmp_path, files(a="123", b="456"), None)

    assert before == sorted(os.listdir(tmp_path))
    assert {"a": b"1"} == read(tmp_path)


def test_what_was_left_behind_goes_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, files(a="1"), None)
    (tmp_path / "..left").mkdir()
    real, seen = tempfile.mkdtemp, []

    def made(*args: Any, **named: Any) -> str:
        seen.append((tmp_path / "..left").exists())
        return real(*args, **named)

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    write(tmp_path, files(a="2"), None)

    assert [False] == seen


@pytest.mark.parametrize("leads_to", ["../outside", "..old", "..", "."])
def test_what_is_in_force_is_never_followed_out_of_the_volume(tmp_path: Path, leads_to: str) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.mkdir()
    volume.mkdir()
    (outside / "a").write_text("1")
    (outside / "a").chmod(0o644)
    (volume / "..data").symlink_to(leads_to)
    (volume / "..old").symlink_to("../outside")

    assert write(volume, files(a="1"), None)
    assert {"a": b"1"} == read(volume)
    assert "1" == (outside / "a").read_text()
    assert ["..data", "a"] == sorted(n for n in os.listdir(volume) if not STAMP.fullmatch(n))


def test_a_file_without_end_left_in_the_place_of_one_is_not_read_but_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, files(a="1"), None)
    os.truncate(tmp_path / "a", 1 << 40)  # sparse: reading it whole would take all memory
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("a file was read whole"))

    assert write(tmp_path, files(a="1"), None)
    assert 1 == (tmp_path / "a").stat().st_size


def test_a_file_damaged_on_the_disk_is_mended(tmp_path: Path) -> None:
    write(tmp_path, files(a="1", b="2"), None)
    (tmp_path / "a").unlink()
    assert not write(tmp_path, files(a="1", b="2"), None)
    Path(tmp_path, "..data", "b").write_text("3")
    assert write(tmp_path, files(a="1", b="2"), None)
    assert {"a": b"1", "b": b"2"} == read(tmp_path)


@pytest.mark.parametrize("where", ["..left", "..data"])
def test_directories_left_below_one_another_deeper_than_the_stack_are_removed(tmp_path: Path, where: str) -> None:
    write(tmp_path, files(a="1"), None)
    (tmp_path / where).mkdir(exist_ok=True)
    nest(tmp_path / where, 2 * sys.getrecursionlimit())

    assert (where == "..data") == write(tmp_path, files(a="1"), None)
    assert ["..data", "a"] == sorted(n for n in os.listdir(tmp_path) if not STAMP.fullmatch(n))
    assert ["a"] == os.listdir(tmp_path / "..data/")


def test_incomplete_new_directory_is_removed_whatever_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nested_and_full(*_: object) -> None:
        (made,) = tmp_path.iterdir()
        nest(made, 2 * sys.getrecursionlimit())
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fchmod", nested_and_full)
    with pytest.raises(OSError, match="Input/output error"):
        write(tmp_path, files(a="1"), None)

    assert [] == os.listdir(tmp_path)


def test_a_link_in_the_place_of_a_directory_is_not_followed_but_replaced(tmp_path: Path) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    volume.mkdir()
    write(volume, files(a__b="1"), None)
    (volume / "..data/a").rename(outside)
    (volume / "..data/a").symlink_to(outside)

    assert write(volume, files(a__b="1"), None)
    assert not (volume / "..data/a").is_symlink()
    assert ["b"] == os.listdir(outside)


PAYLOADS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d/a", "d/b", "e/f/g"]),
    st.builds(VolumeFile, st.binary(max_size=4), st.sampled_from([0o644, 0o600])),
    max_size=5,
)
STEPS = ("mkdir", "rename", "symlink", "unlink", "rmdir", "fchown", "fchmod", "open")


class Crash(BaseException):
    """The process is gone at this step."""


class Crashing:
    """``os`` and ``open`` up to a step; every one from there on is the crash."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def wrap(self, real: Any) -> Any:
        def step(*args: Any, **named: Any) -> Any:
            if self.left == 0:
                raise Crash
            self.left -= 1
            return real(*args, **named)

        return step


def in_force(volume: Path) -> dict[str, bytes]:
    """Return the files that a program finds by opening ``..data``."""
    directory = volume / "..data"
    return {str(f.relative_to(directory)): f.read_bytes() for f in directory.rglob("*") if f.is_file()}


def content(payload: Files) -> dict[str, bytes]:
    return {path: file.content for path, file in payload.items()}


@settings(deadline=None)
@given(old=PAYLOADS, new=PAYLOADS, steps=st.integers(0, 40))
def test_whatever_moment_it_ends_in_the_old_or_the_new_is_there_whole_and_the_next_writing_heals(
    old: Files, new: Files, steps: int
) -> None:
    with TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        volume = Path(made)
        write(volume, old, None)
        crashing = Crashing(steps)
        with patch.context() as inner:
            for name in STEPS:
                inner.setattr(os, name, crashing.wrap(getattr(os, name)))
            try:
                write(volume, new, None)
            except Crash:
                assert in_force(volume) in (content(old), content(new))
            else:
                assert content(new) == in_force(volume)
        write(volume, new, None)

        assert content(new) == read(volume)
        assert len({path.partition("/")[0] for path in new}) + 2 == len(os.listdir(volume))


def test_a_volume_is_filled_once_it_was_written(tmp_path: Path) -> None:
    assert not is_filled(tmp_path)
    write(tmp_path, {}, None)
    assert is_filled(tmp_path)
    assert atomic_writer.DATA in os.listdir(tmp_path)
