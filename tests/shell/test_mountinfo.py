"""The kernel's list of mounts, and what lies below a directory."""

from pathlib import Path

import pytest

from trikubelet.host import mounts
from trikubelet.host.mounts import MountPoint, mounted_below, parse_mountinfo

LINES = r"""
36 35 98:0 /mnt1 /var/lib/kubelet/pods/u/volumes/a\040b rw,noatime master:1 propagate_from:2 - tmpfs tmpfs rw,size=4k
37 35 98:0 / / rw - ext4 /dev/root rw,errors=continue
38 35 0:5 / /old rw - rootfs none
39 35 0:5 / /broken rw
rubbish
"""


def test_each_line_is_one_mount_and_what_is_not_understood_is_left_out() -> None:
    assert (
        MountPoint("/var/lib/kubelet/pods/u/volumes/a b", "tmpfs", "tmpfs", "rw,noatime", "rw,size=4k"),
        MountPoint("/", "ext4", "/dev/root", "rw", "rw,errors=continue"),
        MountPoint("/old", "rootfs", "none", "rw", ""),
    ) == parse_mountinfo(LINES)


def mountinfo(tmp_path: Path, *paths: str) -> Path:
    lines = [f"{n} 1 0:{n} / {path} rw - tmpfs tmpfs rw\n" for n, path in enumerate(paths, 1)]
    (tmp_path / "mountinfo").write_bytes("".join(lines).encode(errors="surrogateescape"))
    return tmp_path / "mountinfo"


def test_what_is_mounted_below_a_directory_comes_deepest_first(tmp_path: Path) -> None:
    listed = mountinfo(tmp_path, "/p/u", "/p/u/a/b", "/p/u/a", "/p/uu", "/p", "/p/u/a/b/c")

    assert ("/p/u/a/b/c", "/p/u/a/b", "/p/u/a", "/p/u") == mounted_below("/p/u", listed)
    assert () == mounted_below("/p/v", listed)


def test_a_name_that_is_no_text_is_still_a_mount(tmp_path: Path) -> None:
    assert ("/p/\udcff",) == mounted_below("/p", mountinfo(tmp_path, "/p/\udcff"))


def test_a_directory_reached_by_a_link_is_known_by_its_real_path(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)

    assert (f"{real}/u",) == mounted_below(str(tmp_path / "link"), mountinfo(tmp_path, f"{real}/u"))


def test_the_real_list_has_the_root() -> None:
    assert "/" in [mount.path for mount in parse_mountinfo(Path("/proc/self/mountinfo").read_text())]


def test_a_failed_mount_is_told_in_the_programs_words() -> None:
    with pytest.raises(OSError, match=r"umount /nowhere/at/all: .*(not|no) "):
        mounts.unmount("/nowhere/at/all")


def test_a_memory_volume_is_mounted_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(mounts, "_run", commands.append)

    mounts.mount_tmpfs("/v", 4096, 0o2777, 1000)
    mounts.mount_tmpfs("/v", None, 0o777, None)

    assert [
        ["mount", "-t", "tmpfs", "-o", "mode=2777,gid=1000,size=4096", "tmpfs", "/v"],
        ["mount", "-t", "tmpfs", "-o", "mode=0777", "tmpfs", "/v"],
    ] == commands
