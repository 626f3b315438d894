"""The cgroup of the embedded runtime, where the machine's mounts are called as nobody would."""

import os
from pathlib import Path

import pytest

from shell.capabilitykit import modes_count
from trikubelet.embedded.processes import ProcessLimits, why_unlimited


@pytest.mark.parametrize("name", [b"a\xe2\x80\xa8b", b"a\xff", b"a\rb"])
def test_the_processes_of_containers_are_limited_whatever_else_is_mounted(name: bytes, tmp_path: Path) -> None:
    own = tmp_path / "self"
    own.mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/cgroup.subtree_control").write_text("cpu pids\n")
    (own / "cgroup").write_text("0::/\n")
    tree = bytes(tmp_path / "tree")
    (own / "mountinfo").write_bytes(
        b"1 0 0:1 / /%s rw - tmpfs none rw\n2 0 0:2 / %s rw - cgroup2 cgroup rw\n" % (name, tree)
    )

    assert ProcessLimits(7, processes_max=1, proc=tmp_path).available
    assert (tmp_path / "tree/trikubelet-embedded-7").is_dir()


@pytest.mark.parametrize("name", [b"\xd0", b"a\x0bb", b"a\xe2\x80\xa8b"])
def test_the_agents_own_cgroup_may_be_called_as_it_likes(name: bytes, tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    tree = bytes(tmp_path / "tree")
    os.makedirs(tree + b"/" + name)
    (tmp_path / "tree/cgroup.subtree_control").write_text("cpu pids\n")
    (tmp_path / "self/cgroup").write_bytes(b"0::/%s\n" % name)
    (tmp_path / "self/mountinfo").write_bytes(b"2 0 0:2 / %s rw - cgroup2 cgroup rw\n" % tree)

    assert ProcessLimits(7, processes_max=1, proc=tmp_path).available
    assert (tmp_path / "tree/trikubelet-embedded-7").is_dir()


@pytest.mark.parametrize(
    ("expected", "controllers", "mode"),
    [
        ("", "cpu pids", 0o755),
        ("{}/tree is not writable", "cpu pids", 0o555),
        ("no cgroup has the controller pids", "cpu", 0o755),
    ],
)
def test_it_is_known_without_trying_why_containers_get_no_limit(
    expected: str, controllers: str, mode: int, tmp_path: Path
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/cgroup.subtree_control").write_text(controllers)
    (tmp_path / "self/cgroup").write_text("0::/\n")
    (tmp_path / "self/mountinfo").write_text(f"2 0 0:2 / {tmp_path}/tree rw - cgroup2 cgroup rw\n")
    (tmp_path / "tree").chmod(mode)

    with modes_count():
        assert expected.format(tmp_path) == why_unlimited(tmp_path)
    assert ["cgroup.subtree_control"] == os.listdir(tmp_path / "tree")
