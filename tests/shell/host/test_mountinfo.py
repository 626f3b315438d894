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


@pytest.mark.parametrize("character", ["\u2028", "\u00a0", "\x0b", "\x0c", "\r", "\x85", "\x1c", "\u3000"])
def test_no_whitespace_but_the_kernels_own_parts_a_line(character: str, tmp_path: Path) -> None:
    path = f"/p/a{character}b"
    (tmp_path / "p").write_bytes(f"1 0 0:1 / {path} rw - tmpfs  rw,size=4k\n".encode())

    assert (path,) == mounted_below("/p", tmp_path / "p")
    assert (MountPoint(path, "tmpfs", "", "rw", "rw,size=4k"),) == parse_mountinfo(
        mounts.read_mountinfo(tmp_path / "p")
    )


def test_a_directory_reached_by_a_link_is_known_by_its_real_path(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)

    assert (f"{real}/u",) == mounted_below(str(tmp_path / "link"), mountinfo(tmp_path, f"{real}/u"))


def test_the_real_list_has_the_root() -> None:
    assert "/" in [mount.path for mount in parse_mountinfo(Path("/proc/self/mountinfo").read_text())]


def test_a_memory_volume_is_mounted_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(mounts, "run", commands.append)
    monkeypatch.setattr(mounts, "_can_stay_in_memory", lambda *_: False)

    mounts.mount_tmpfs("/v", 4096, 0o2777, 1000)
    mounts.mount_tmpfs("/v", None, 0o777, None)

    assert [
        ["mount", "-t", "tmpfs", "-o", "mode=2777,gid=1000,size=4096", "tmpfs", "/v"],
        ["mount", "-t", "tmpfs", "-o", "mode=0777", "tmpfs", "/v"],
    ] == commands


@pytest.mark.parametrize(
    ("expected", "release", "uid_map"),
    [
        (True, "6.4.0-1-amd64", "         0          0 4294967295\n"),
        (True, "10.0", "0 0 4294967295\n"),
        (False, "6.3.13", "0 0 4294967295\n"),
        (False, "5.15.0-91-generic", "0 0 4294967295\n"),
        (False, "6.12.1", "0 100000 65536\n"),
        (False, "unknown", "0 0 4294967295\n"),
    ],
)
def test_a_memory_volume_stays_in_memory_where_the_kernel_can_have_that(
    expected: bool, release: str, uid_map: str
) -> None:
    assert expected is mounts._can_stay_in_memory(release, uid_map)


@pytest.mark.parametrize(
    ("expected", "capabilities"), [(True, "000001ffffffffff"), (True, "0000000000200000"), (False, "00000000a80425fb")]
)
def test_permission_to_mount_is_read_from_capabilities(expected: bool, capabilities: str, tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{capabilities}\nCapBnd:\t0000000000000000\n")

    assert expected is mounts.is_allowed(status)
