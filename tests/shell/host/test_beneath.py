"""Walking below a directory: what is found, what is made, and every way out that is closed."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from trikubelet.host import beneath
from trikubelet.host.beneath import open_beneath


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with a file and a directory in it, and something beside it that nobody may reach."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/gold").write_text("gold")
    volume = tmp_path / "volume"
    (volume / "a/b").mkdir(parents=True)
    (volume / "a/file").write_text("text")
    return volume


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert before == set(os.listdir("/proc/self/fd"))


def reached(volume: Path, path: str, *, make: bool = False) -> str:
    """Where the path leads to."""
    fd = open_beneath(str(volume), path, make=make)
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def refusal(volume: Path, path: str, *, make: bool = False) -> str:
    """The kernel's name for what is wrong with the path."""
    try:
        os.close(open_beneath(str(volume), path, make=make))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "reached"


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        pytest.param("", "", id="the volume itself"),
        pytest.param("/a/b", "a/b", id="a directory"),
        pytest.param("/a/file", "a/file", id="a file"),
        pytest.param("/a/b", "./a//b/", id="empty names and dots"),
        pytest.param("/a", "a/b/..", id="up again"),
    ],
)
def test_a_path_leads_to_what_is_there(expected: str, path: str, volume: Path) -> None:
    assert f"{volume}{expected}" == reached(volume, path)


@pytest.mark.parametrize(
    ("expected", "target"),
    [
        pytest.param("/a/b", "a/b", id="down"),
        pytest.param("/a/b", "a/b/../../a/b", id="up and down"),
        pytest.param("/a/file", "./a/file", id="to a file"),
        pytest.param("", ".", id="to the volume itself"),
    ],
)
def test_links_inside_the_volume_are_followed(expected: str, target: str, volume: Path) -> None:
    (volume / "link").symlink_to(target)
    (volume / "a/again").symlink_to("../link")

    assert f"{volume}{expected}" == reached(volume, "a/again")


def test_the_volume_itself_may_be_reached_by_a_link(volume: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(volume)

    assert f"{volume}/a" == reached(tmp_path / "link", "a")


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("../secret", id="up"),
        pytest.param("a/../../secret", id="up after down"),
        pytest.param("..", id="to above the volume"),
        pytest.param("../volume/a", id="out and in again"),
        pytest.param("/etc", id="absolute"),
        pytest.param("/proc/self/root", id="to another root"),
        pytest.param("/proc/self/cwd", id="to wherever somebody stands"),
        pytest.param("a/away", id="over another link"),
    ],
)
@pytest.mark.parametrize("make", [False, True])
def test_no_link_leads_out_of_the_volume(target: str, make: bool, volume: Path) -> None:
    (volume / "a/away").symlink_to("../../secret")
    (volume / "link").symlink_to(target)

    assert "EXDEV" == refusal(volume, "link/gold", make=make)
    assert "EXDEV" == refusal(volume, "link", make=make)


@pytest.mark.parametrize("rest", ["a/b", "", "/a//b/", "a/again"])
def test_a_link_to_a_path_that_begins_with_the_volumes_own_stays_inside(
    rest: str, volume: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other-name"
    other.symlink_to(volume)
    (volume / "a/again").symlink_to(f"{volume}/a/b")
    (volume / "real").symlink_to(f"{volume}/{rest}")
    (volume / "other").symlink_to(f"{other}/{rest}")

    expected = os.path.realpath(volume / "real")
    assert expected == reached(volume, "real")
    assert expected == reached(other, "other")


@pytest.mark.parametrize("target", ["{volume}/../secret", "{volume}-beside", "{volume}/a/../../secret"])
def test_a_link_that_only_begins_like_the_volume_leads_out(target: str, volume: Path) -> None:
    (volume / "link").symlink_to(target.format(volume=volume))

    assert "EXDEV" == refusal(volume, "link")


def test_no_path_leads_out_of_the_volume(volume: Path) -> None:
    assert "EXDEV" == refusal(volume, "../secret")
    assert "EXDEV" == refusal(volume, "a/../../secret")


def test_the_links_of_proc_are_only_texts() -> None:
    """The kernel would jump; read as links they are absolute paths."""
    assert "EXDEV" == refusal(Path("/proc"), "self/root/etc")
    assert "EXDEV" == refusal(Path("/proc"), "self/fd/0")


def test_links_that_lead_in_circles_end(volume: Path) -> None:
    (volume / "one").symlink_to("two")
    (volume / "two").symlink_to("one")

    assert "ELOOP" == refusal(volume, "one")


def test_a_path_of_too_many_levels_ends(volume: Path) -> None:
    assert "ENAMETOOLONG" == refusal(volume, "/".join("x" * 300), make=True)


def test_what_is_missing_is_missing(volume: Path) -> None:
    assert "ENOENT" == refusal(volume, "a/missing/b")
    assert "ENOTDIR" == refusal(volume, "a/file/b", make=True)
    assert not (volume / "a/missing").exists()


def test_what_is_missing_is_made_with_the_volumes_mode_whatever_the_umask(volume: Path) -> None:
    volume.chmod(0o2777)
    umask = os.umask(0o077)
    try:
        assert f"{volume}/a/new/newer" == reached(volume, "a/new/newer", make=True)
    finally:
        os.umask(umask)

    assert [0o2777, 0o2777] == [stat.S_IMODE((volume / "a" / one).stat().st_mode) for one in ("new", "new/newer")]


def test_what_a_link_names_and_is_missing_is_made_inside(volume: Path) -> None:
    (volume / "link").symlink_to("a/new")

    assert f"{volume}/a/new/x" == reached(volume, "link/x", make=True)


@pytest.mark.parametrize("make", [False, True])
def test_a_directory_swapped_for_a_link_while_it_is_walked_leads_nowhere(
    make: bool, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container swaps what was just looked at, before each step."""
    step = beneath._step
    swaps: list[str] = []

    def swap(directory: int, name: str, mode: int | None) -> int:
        if name == "b" and not swaps:
            swaps.append(name)
            (volume / "a").rename(volume / "moved")
            (volume / "a").symlink_to(tmp_path / "secret")
        return step(directory, name, mode)

    monkeypatch.setattr(beneath, "_step", swap)

    assert f"{volume}/moved/b" == reached(volume, "a/b", make=make)
    assert ["b"] == swaps


def test_a_directory_that_is_made_and_swapped_for_a_link_is_not_entered(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def swap(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        os.rmdir(name, dir_fd=dir_fd)
        os.symlink(tmp_path / "secret", name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", swap)
    before = (tmp_path / "secret").stat().st_mode

    assert "ENOTDIR" == refusal(volume, "new", make=True)
    assert before == (tmp_path / "secret").stat().st_mode


def test_link_made_concurrently_is_followed_like_any_other(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def sooner(name: str, mode: int, *, dir_fd: int) -> None:
        os.symlink(tmp_path / "secret", name, dir_fd=dir_fd)
        mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", sooner)

    assert "EXDEV" == refusal(volume, "new", make=True)
