"""Setting the group of a volume's files: upstream's table of modes, the root last, and no link followed."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.breadth import FILLED_BYTES, fill, peak_bytes
from trikubelet.volumes.ownership import LEVELS_MAX, chown_tree, is_owned

GROUP = os.getgid()


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    volume = tmp_path / "volume"
    (volume / "directory/inner").mkdir(parents=True)
    (volume / "directory/inner/file").touch()
    (volume / "file").touch()
    return volume


@pytest.fixture
def root(volume: Path) -> Iterator[int]:
    fd = os.open(volume, os.O_PATH)
    before = set(os.listdir("/proc/self/fd"))
    yield fd
    assert before == set(os.listdir("/proc/self/fd"))
    os.close(fd)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def give_all(root: int, *, read_only: bool = False) -> int:
    """Give it; how many files that were."""
    done: list[None] = []
    chown_tree(root, GROUP, read_only, lambda: done.append(None))
    return len(done)


@pytest.mark.parametrize(
    ("expected", "before", "read_only"),
    [
        pytest.param(0o660, 0o600, False, id="a secret"),
        pytest.param(0o660, 0o000, False, id="nobody's"),
        pytest.param(0o664, 0o644, False, id="readable"),
        pytest.param(0o775, 0o755, False, id="a program"),
        pytest.param(0o4775, 0o4755, False, id="a program that changes its user"),
        pytest.param(0o440, 0o400, True, id="read-only"),
        pytest.param(0o755, 0o755, True, id="a program that is read-only"),
    ],
)
def test_a_file_is_open_to_its_group(expected: int, before: int, read_only: bool, volume: Path, root: int) -> None:
    (volume / "file").chmod(before)

    give_all(root, read_only=read_only)

    assert expected == mode(volume / "file")


@pytest.mark.parametrize(
    ("expected", "before", "read_only"),
    [(0o2770, 0o700, False), (0o2775, 0o755, False), (0o2550, 0o500, True), (0o3777, 0o1777, False)],
)
@pytest.mark.parametrize("place", [".", "directory/inner"])
def test_a_directory_can_be_entered_by_its_group_and_hands_it_on(
    expected: int, before: int, read_only: bool, place: str, volume: Path, root: int
) -> None:
    (volume / place).chmod(before)

    assert 5 == give_all(root, read_only=read_only)

    assert expected == mode(volume / place)


def test_a_link_is_chowned_and_what_it_leads_to_is_not(volume: Path, root: int, tmp_path: Path) -> None:
    (tmp_path / "beside").touch(mode=0o600)
    (volume / "directory/link").symlink_to(tmp_path / "beside")
    (volume / "way-out").symlink_to(tmp_path)

    give_all(root)

    assert 0o600 == mode(tmp_path / "beside")


@pytest.mark.parametrize(
    ("expected", "mode_", "read_only"),
    [
        pytest.param(True, 0o2770, False, id="as it is left"),
        pytest.param(True, 0o2777, False, id="open to all"),
        pytest.param(False, 0o770, False, id="does not hand its group on"),
        pytest.param(False, 0o2750, False, id="not writable"),
        pytest.param(True, 0o2550, True, id="needs not be writable"),
        pytest.param(False, 0o2760, False, id="cannot be entered"),
    ],
)
def test_the_root_shows_whether_the_rest_is_owned(
    expected: bool, mode_: int, read_only: bool, volume: Path, root: int
) -> None:
    volume.chmod(mode_)

    assert expected is is_owned(root, GROUP, read_only)
    assert not is_owned(root, GROUP + 1, read_only)


def test_the_root_comes_last(volume: Path, root: int) -> None:
    volume.chmod(0o700)
    roots: list[int] = []

    chown_tree(root, GROUP, False, lambda: roots.append(mode(volume)))

    assert [0o700] * 4 + [0o2770] == roots


def test_too_deep_a_tree_is_refused(volume: Path, root: int) -> None:
    (volume / "/".join("x" * (LEVELS_MAX + 1))).mkdir(parents=True)

    with pytest.raises(OSError, match="nested directories"):
        give_all(root)


def test_names_without_end_are_never_held_all_at_once(volume: Path, root: int) -> None:
    fill(volume)

    assert peak_bytes(chown_tree, root, GROUP, False, lambda: None) < FILLED_BYTES // 4
