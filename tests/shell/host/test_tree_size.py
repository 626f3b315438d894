"""How much of a disk a tree takes, in which containers left traps."""

import os
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from shell.breadth import FILLED_BYTES, NAMES, fill, nest, peak_bytes
from trikubelet.host import tree_size as module
from trikubelet.host.tree_size import tree_size

T = TypeVar("T")


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    tree = tmp_path / "tree"
    (tree / "a/b/c").mkdir(parents=True)
    for name in ("file", "a/file", "a/b/c/file"):
        (tree / name).write_bytes(b"x" * 10_000)
    before = set(os.listdir("/proc/self/fd"))
    yield tree
    assert before == set(os.listdir("/proc/self/fd"))


def size(*paths: Path) -> tuple[int, int]:
    return sum(path.lstat().st_blocks for path in paths) * 512, len(paths)


def test_everything_in_it_counts_itself_included(tree: Path) -> None:
    assert size(tree, *tree.rglob("*")) == tree_size(str(tree))


def test_a_file_of_several_names_counts_once(tree: Path) -> None:
    wanted = tree_size(str(tree))
    for number in range(6):
        (tree / f"a/again-{number}").hardlink_to(tree / "a/file")

    used, inodes = tree_size(str(tree))

    grown = size(tree / "a")[0] - size(tree / "a/b")[0]  # a directory may grow with its names
    assert wanted[1] == inodes
    assert wanted[0] <= used <= wanted[0] + max(grown, 0)


def test_of_a_file_that_has_names_elsewhere_its_share_counts(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").hardlink_to(tree / "file")

    used, inodes = tree_size(str(tree))

    shared = size(tree / "file")[0] // 2
    assert size(tree, *tree.rglob("*"))[0] - shared == used
    assert size(*tree.rglob("*"))[1] + 1 == inodes  # half a file is one


def test_names_without_end_are_never_held_all_at_once(tree: Path) -> None:
    fill(tree / "a")
    found: list[tuple[int, int]] = []

    assert peak_bytes(lambda: found.append(tree_size(str(tree)))) < FILLED_BYTES // 4
    assert NAMES + 7 == found[0][1]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_what_lies_deeper_than_levels_are_open_counts_too(
    levels: int, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "a/b/c/d/e").mkdir(parents=True)
    (tree / "a/b/c/d/e/file").write_text("x")
    monkeypatch.setattr(module, "OPEN_LEVELS_MAX", levels)

    assert size(tree, *tree.rglob("*")) == tree_size(str(tree))


def test_a_directory_costs_no_more_opens_however_deep_it_lies(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep, broad, levels = 319, 50, module.OPEN_LEVELS_MAX
    nest(tree, deep, map(str, range(broad)))  # the last are queued, each for itself
    opens = most_held = 0
    held: set[int] = set()
    open_, dup, close = os.open, os.dup, os.close

    def hold(descriptor: int) -> int:
        nonlocal most_held
        held.add(descriptor)
        most_held = max(most_held, len(held))
        return descriptor

    def count(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        nonlocal opens
        opens += 1
        return hold(open_(path, flags, dir_fd=dir_fd))

    def let_go(descriptor: int) -> None:
        held.remove(descriptor)
        close(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", count)
        patch.setattr(os, "dup", lambda descriptor: hold(dup(descriptor)))
        patch.setattr(os, "close", let_go)
        inodes = tree_size(str(tree))[1]

    parts = deep // levels
    assert 7 + deep + broad == inodes
    assert opens <= inodes + (parts + broad) * levels
    assert most_held <= parts + levels + 2
    assert not held


def test_of_a_tree_too_large_to_be_counted_what_was_counted_stands(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tree / "a/b")
    (tree / "a/b/file").write_bytes(b"x" * 10_000)
    monkeypatch.setattr(module, "STEPS_MAX", 1000)

    found = tree_size(str(tree))

    assert 900 < found[1] < NAMES


@pytest.mark.parametrize("bound", ["PATH_CHARACTERS_MAX", "WAITING_CHARACTERS_MAX"])
def test_directories_too_deep_hide_nothing_but_themselves(
    bound: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "a/b/c/d").mkdir(parents=True, exist_ok=True)
    (tree / "a/b/c/file").write_text("deep")
    (tree / "z").mkdir()
    (tree / "z/file").write_text("x")
    monkeypatch.setattr(module, "OPEN_LEVELS_MAX", 2)
    monkeypatch.setattr(module, bound, 3)

    found = tree_size(str(tree))

    hidden = {tree / "a/b", *(tree / "a/b").rglob("*")}
    assert size(tree, *(one for one in tree.rglob("*") if one not in hidden)) == found


@pytest.mark.parametrize("levels", [1, 64])
def test_a_directory_that_becomes_a_link_before_it_is_entered_leads_nowhere(
    levels: int, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = size(tree, tree / "file")
    open_ = os.open

    def swap(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "a" and (tree / "a").is_dir():
            (tree / "a").rename(tmp_path / "moved")
            (tree / "a").symlink_to(tmp_path / "moved")
        return open_(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(module, "OPEN_LEVELS_MAX", levels)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", swap)
        found = tree_size(str(tree))

    assert wanted == found


def test_a_link_in_its_place_is_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)

    with pytest.raises(NotADirectoryError):
        tree_size(str(tmp_path / "link"))


def test_what_was_counted_so_far_is_told_again_and_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_STEPS", 2)
    told: list[tuple[int, int]] = []

    found = tree_size(str(tree), lambda *counted: told.append(counted))

    assert 2 < len(told)
    assert [*told, found] == sorted({*told, found}), "it only grows, up to what it comes to"


@dataclass
class Devices:
    """The kernel's words, with other devices for the directories that bear these names, and for all below them; and
    other mounts."""

    devices: dict[str, int]
    mounts: dict[str, str]
    asked: list[str] = field(default_factory=list)

    def told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fstat, scandir = os.fstat, os.scandir
        monkeypatch.setattr(os, "fstat", lambda at: self._on(fstat(at), path_of(at)))
        monkeypatch.setattr(os, "scandir", lambda at: closing(self._entries(path_of(at), scandir(at))))
        monkeypatch.setattr(module, "mount_of", self._mount_of)

    def _mount_of(self, at: int) -> str:
        self.asked.append(path_of(at).name)
        return self._last(self.mounts, path_of(at), "the tree's")

    def _entries(self, at: Path, entries: Any) -> Generator[Any, None, None]:
        with entries:
            for entry in entries:
                found = self._on(entry.stat(follow_symlinks=False), at / entry.name)
                yield SimpleNamespace(name=entry.name, stat=lambda found=found, **_: found)

    def _on(self, found: os.stat_result, path: Path) -> Any:
        device = self._last(self.devices, path, found.st_dev)
        names = ("st_mode", "st_nlink", "st_blocks")
        return SimpleNamespace(st_dev=device, **{name: getattr(found, name) for name in names})

    def _last(self, of: dict[str, T], path: Path, else_: T) -> T:
        return next((of[one] for one in reversed(path.parts) if one in of), else_)


def path_of(at: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{at}"))


@pytest.mark.parametrize("levels", [1, 16])
def test_a_subvolume_counts_though_it_has_a_device_of_its_own(
    levels: int, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = tree_size(str(tree))
    monkeypatch.setattr(module, "OPEN_LEVELS_MAX", levels)
    with monkeypatch.context() as patch:
        Devices({"a": -2, "c": -3}, {}).told(patch)
        found = tree_size(str(tree))

    assert wanted == found


@pytest.mark.parametrize("levels", [1, 16])
@pytest.mark.parametrize("mounted", ["b", "c"])
def test_what_is_mounted_does_not_count_be_it_in_a_subvolume(
    mounted: str, levels: int, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place,) = tree.rglob(mounted)
    wanted = size(*({tree, *tree.rglob("*")} - {place, *place.rglob("*")}))
    monkeypatch.setattr(module, "OPEN_LEVELS_MAX", levels)
    with monkeypatch.context() as patch:
        Devices({"a": -2, mounted: -3}, {mounted: "another"}).told(patch)
        found = tree_size(str(tree))

    assert wanted == found


def test_a_file_over_which_another_is_mounted_does_not_count(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "a/mounted").write_bytes(b"x" * 10_000)
    wanted = size(*({tree, *tree.rglob("*")} - {tree / "a/mounted"}))
    with monkeypatch.context() as patch:
        Devices({"a": -2, "mounted": -3}, {}).told(patch)
        found = tree_size(str(tree))

    assert wanted == found


def test_of_a_subvolume_it_is_asked_once_whether_it_is_a_mount(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Devices({"a": -2}, {})
    with monkeypatch.context() as patch:
        devices.told(patch)
        tree_size(str(tree))

    assert ["tree", "a"] == devices.asked
