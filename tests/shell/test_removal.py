"""Removing trees in which containers left traps."""

import errno
import os
from pathlib import Path

import pytest

from shell.breadth import FILLED_BYTES, fill, peak_bytes
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
    mount_of = removal._mount_of
    monkeypatch.setattr(removal, "_mount_of", lambda fd: "x" if os.fstat(fd).st_ino == mounted else mount_of(fd))

    with pytest.raises(OSError, match="something is mounted there"):
        remove_tree(str(tree))

    kept = [path for path in tmp_path.rglob("*") if path.is_dir() and path.stat().st_ino == mounted]
    assert 1 == len(kept)
    assert (kept[0] / "file").exists()


def test_what_somebody_else_removed_meanwhile_was_to_go_anyway(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = removal._names
    monkeypatch.setattr(
        removal, "_names", lambda at: (name for there in names(at) for name in (there, f"{there}-gone"))
    )

    remove_tree(str(tree))

    assert not tree.exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_tree(str(tmp_path / "tree"))


def test_a_tree_in_which_somebody_goes_on_writing_is_given_up_and_goes_when_he_has_ended(
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
