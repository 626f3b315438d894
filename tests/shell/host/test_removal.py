"""Removing trees in which containers left traps."""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shell.breadth import FILLED_BYTES, fill, peak_bytes
from shell.capabilitykit import modes_count
from trikubelet.host import removal
from trikubelet.host.removal import remove_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "a/b/c").mkdir(parents=True)
    (tree / "empty").mkdir()
    for name in ("file", "a/file", "a/b/c/file"):
        (tree / name).write_text("x")
    return tree


def test_everything_in_it_goes_and_nothing_beside_it(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").touch()

    remove_tree(str(tree))

    assert ["beside"] == os.listdir(tmp_path)


@pytest.mark.parametrize("place", ["empty", "a", "a/b", "a/b/c", ""])
@pytest.mark.parametrize("mode", [0o000, 0o500, 0o200, 0o100])
def test_directories_that_are_closed_to_their_own_user_go(mode: int, place: str, tree: Path, tmp_path: Path) -> None:
    (tree / place).chmod(mode)

    with modes_count():
        remove_tree(str(tree))

    assert [] == os.listdir(tmp_path)


def test_a_tree_of_read_only_directories_goes_as_a_cache_of_go_modules_does(tree: Path, tmp_path: Path) -> None:
    for directory, _, _ in os.walk(tree, topdown=False):
        Path(directory).chmod(0o555)

    with modes_count():
        remove_tree(str(tree))

    assert [] == os.listdir(tmp_path)


def test_a_link_to_a_closed_directory_does_not_open_it(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "treasure").mkdir(mode=0o500)
    (tree / "a/link").symlink_to(tmp_path / "treasure")

    with modes_count():
        remove_tree(str(tree))

    assert 0o500 == stat.S_IMODE((tmp_path / "treasure").stat().st_mode)


@pytest.mark.parametrize("place", ["a", "", "a/b/c"])
def test_a_link_goes_and_what_it_leads_to_stays(place: str, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure/gold").write_text("gold")
    (tree / place / "link").symlink_to(tmp_path / "treasure")
    (tree / place / "dangling").symlink_to("nowhere")

    remove_tree(str(tree))

    assert "gold" == (tmp_path / "treasure/gold").read_text()
    assert not tree.exists()


def test_a_directory_that_becomes_a_link_before_it_is_opened_leads_nowhere(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure/gold").write_text("gold")
    open_ = removal._open

    def swap(parent: int, name: str, mount: str) -> int:
        if name == "a":
            (tree / "a").rename(tmp_path / "moved")
            (tree / "a").symlink_to(tmp_path / "treasure")
        return open_(parent, name, mount)

    monkeypatch.setattr(removal, "_open", swap)

    with pytest.raises(NotADirectoryError):
        remove_tree(str(tree))
    assert "gold" == (tmp_path / "treasure/gold").read_text()


def test_a_tree_may_be_deeper_than_a_path_is_long(tree: Path) -> None:
    at = os.open(tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deeper", dir_fd=at)
        below = os.open("deeper", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)

    remove_tree(str(tree))

    assert not tree.exists()


@pytest.mark.parametrize("place", ["", "a/b"])
def test_a_directory_with_more_names_than_one_look_takes_goes_in_several(
    place: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "NAMES_MAX", 3)
    for number in range(10):
        (tree / place / f"file-{number}").touch()
        (tree / place / f"directory-{number}/inner").mkdir(parents=True)

    remove_tree(str(tree))

    assert not tree.exists()


@pytest.mark.parametrize("place", ["", "a"])
def test_names_without_end_are_never_held_all_at_once(place: str, tree: Path) -> None:
    fill(tree / place)

    assert peak_bytes(remove_tree, str(tree)) < FILLED_BYTES // 4
    assert not tree.exists()


def test_a_link_in_its_place_is_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)

    with pytest.raises(NotADirectoryError):
        remove_tree(str(tmp_path / "link"))
    assert (tree / "a/b/c/file").exists()


@pytest.mark.parametrize("where", ["tree", "tree/a", "tree/a/b/c"])
def test_what_is_mounted_stays_whole(where: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The live tests mount; here the kernel is only said to have."""
    mounted = (tmp_path / where).stat().st_ino
    mount_of = removal.mount_of
    monkeypatch.setattr(removal, "mount_of", lambda fd: "x" if os.fstat(fd).st_ino == mounted else mount_of(fd))

    with pytest.raises(OSError, match="something is mounted there"):
        remove_tree(str(tree))

    kept = [path for path in tmp_path.rglob("*") if path.is_dir() and path.stat().st_ino == mounted]
    assert 1 == len(kept)
    assert (kept[0] / "file").exists()


def test_concurrently_removed_entry_counts_as_removed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = removal._names
    monkeypatch.setattr(
        removal, "_names", lambda at: (name for there in names(at) for name in (there, f"{there}-gone"))
    )

    remove_tree(str(tree))

    assert not tree.exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_tree(str(tmp_path / "tree"))


def test_tree_with_an_active_writer_is_removed_once_the_writer_ends(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, count = os.unlink, iter(range(100_000))

    def one_goes_and_one_comes(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        os.close(os.open(f"new-{next(count)}", os.O_CREAT, 0o600, dir_fd=dir_fd))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", one_goes_and_one_comes)
        patch.setattr(removal, "SCANS_MAX", 50)
        with pytest.raises(OSError, match="does not become empty") as caught:
            remove_tree(str(tree / "a/b/c"))
    assert errno.EBUSY == caught.value.errno

    remove_tree(str(tree))

    assert not tree.exists()


class Subvolumes:
    """A file system on which some directories are the tops of btrfs subvolumes: all have one number, nothing but they
    can be moved from one to another, and those that are read-only can be neither written to nor moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *tops: Path, read_only: bool) -> None:
        self._rename, self._unlink, self._stat, self._fstat = os.rename, os.unlink, os.stat, os.fstat
        self.read_only = {os.stat(top).st_ino: read_only for top in tops}
        for name in ("rename", "unlink", "stat", "fstat"):
            monkeypatch.setattr(os, name, getattr(self, f"_{name}s"))
        monkeypatch.setattr(fcntl, "ioctl", self._set_flags)

    def _of(self, directory: int) -> int:
        """The number of the subvolume's top."""
        path = Path(os.readlink(f"/proc/self/fd/{directory}"))
        numbers = (self._stat(one).st_ino for one in (path, *path.parents))
        return next((number for number in numbers if number in self.read_only), 0)

    def _check_writable(self, *subvolumes: int) -> None:
        if any(self.read_only.get(one) for one in subvolumes):
            raise OSError(errno.EROFS, "Read-only file system")

    def _renames(self, name: str, to: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        own = self._stat(name, dir_fd=src_dir_fd).st_ino
        self._check_writable(own, self._of(src_dir_fd), self._of(dst_dir_fd))
        if own not in self.read_only and self._of(src_dir_fd) != self._of(dst_dir_fd):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        self._rename(name, to, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def _unlinks(self, name: str, *, dir_fd: int) -> None:
        self._check_writable(self._of(dir_fd))
        self._unlink(name, dir_fd=dir_fd)

    def _stats(self, *about: Any, **how: Any) -> os.stat_result:
        return self._numbered(self._stat(*about, **how))

    def _fstats(self, number: int) -> os.stat_result:
        return self._numbered(self._fstat(number))

    def _numbered(self, found: os.stat_result) -> os.stat_result:
        return os.stat_result((found[0], 256, *found[2:])) if found.st_ino in self.read_only else found

    def _set_flags(self, directory: int, request: int, flags: bytes) -> None:
        assert (0x4008941A, bytes(8)) == (request, flags)
        self.read_only[self._fstat(directory).st_ino] = False


@pytest.fixture
def tops(tree: Path) -> list[Path]:
    """Subvolumes beside one another, in one another, and in plain directories."""
    tops = [tree / one for one in ("one", "two", "one/a/b/three", "one/a/b/three/a/four", "a/b/c/five")]
    for top in tops:
        (top / "a/b/c").mkdir(parents=True)
        (top / "a/b/c/file").touch()
    return tops


@pytest.mark.parametrize("read_only", [False, True])
def test_subvolumes_go_with_what_is_in_them(
    read_only: bool, tree: Path, tops: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        Subvolumes(patch, *tops, read_only=read_only)
        remove_tree(str(tree))

    assert not tree.exists()


@pytest.mark.parametrize("at", range(5))
def test_a_subvolume_that_is_mounted_stays_as_it_is(
    at: int, tree: Path, tops: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = tops[at].stat().st_ino
    with monkeypatch.context() as patch:
        subvolumes = Subvolumes(patch, *tops, read_only=True)
        fstat, mount_of = subvolumes._fstat, removal.mount_of
        patch.setattr(removal, "mount_of", lambda fd: "x" if fstat(fd).st_ino == mounted else mount_of(fd))
        with pytest.raises(OSError, match="something is mounted there"):
            remove_tree(str(tree))

    [kept] = [path for path in tree.rglob("*") if path.is_dir() and path.stat().st_ino == mounted]
    assert (kept / "a/b/c/file").exists()
    assert subvolumes.read_only[mounted]


def test_scans_of_subvolumes_are_scans_of_the_tree(
    tree: Path, tops: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many of them are removed in several bounded removals."""
    removals = 0
    with monkeypatch.context() as patch:
        Subvolumes(patch, *tops, read_only=False)
        patch.setattr(removal, "SCANS_MAX", 9)
        while tree.exists():
            removals += 1
            with suppress(OSError):
                remove_tree(str(tree))
            assert removals < 10

    assert 1 < removals
