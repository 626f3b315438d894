"""hostPath: every type against every kind of thing at the path, and a path that hangs."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest
import trio

from core.podkit import container, pod
from shell.mountkit import NotedMounts
from trikubelet.core.containers import ConfigError, NodeFacts
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.errors import VolumeFailed
from trikubelet.volumes import host_path
from trikubelet.volumes.volumes import DiskVolumes

TYPES = ("Directory", "File", "Socket", "CharDevice", "BlockDevice")
KINDS = {"directory": "Directory", "file": "File", "socket": "Socket", "/dev/null": "CharDevice"}


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of each kind, by name."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    return tmp_path


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", KINDS)
def test_a_type_takes_its_own_kind_and_no_other(name: str, type_: str, things: Path) -> None:
    path = str(things / name)
    if KINDS[name] == type_:
        host_path.prepare(path, type_)
        return
    with pytest.raises(ValueError, match=rf"^hostPath type check failed: {path} is not a \w+"):
        host_path.prepare(path, type_)


def test_a_block_device_is_one(things: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = os.stat_result((stat.S_IFBLK | 0o600, *([0] * 9)))
    monkeypatch.setattr(os, "stat", lambda path: block)

    host_path.prepare("/dev/disk", "BlockDevice")
    with pytest.raises(ValueError, match="is not a character device"):
        host_path.prepare("/dev/disk", "CharDevice")


@pytest.mark.parametrize("type_", TYPES)
def test_what_is_not_there_is_of_no_type(type_: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^hostPath type check failed: .*/absent is not a .*: No such file"):
        host_path.prepare(str(tmp_path / "absent"), type_)


def test_without_a_type_nothing_is_looked_at() -> None:
    host_path.prepare("/nowhere/at/all", "")


def test_a_directory_is_made_where_none_is_with_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "a/b"

    host_path.prepare(str(path), "DirectoryOrCreate")
    (path / "data").write_text("kept")
    host_path.prepare(str(path), "DirectoryOrCreate")

    assert 0o755 == stat.S_IMODE(path.stat().st_mode)
    assert "kept" == (path / "data").read_text()


def test_a_file_is_made_where_none_is_but_not_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "file"
    host_path.prepare(str(path), "FileOrCreate")
    path.write_text("kept")
    host_path.prepare(str(path), "FileOrCreate")
    assert (0o644, "kept") == (stat.S_IMODE(path.stat().st_mode), path.read_text())

    with pytest.raises(ValueError, match=r"^hostPath type check failed: .*/absent/file cannot be made: No such file"):
        host_path.prepare(str(tmp_path / "absent/file"), "FileOrCreate")


def test_a_directory_that_cannot_be_made_is_reported_with_its_path(things: Path) -> None:
    with pytest.raises(ValueError, match=r"^hostPath type check failed: .*/file/a cannot be made: Not a directory"):
        host_path.prepare(str(things / "file/a"), "DirectoryOrCreate")


@pytest.mark.parametrize(("type_", "name"), [("DirectoryOrCreate", "file"), ("FileOrCreate", "directory")])
def test_nothing_is_made_over_something_else(type_: str, name: str, things: Path) -> None:
    with pytest.raises(ValueError, match="hostPath type check failed"):
        host_path.prepare(str(things / name), type_)


@pytest.mark.parametrize("type_", ["DirectoryOrCreate", "FileOrCreate"])
def test_nothing_is_made_at_the_far_end_of_a_link(type_: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "absent")

    with pytest.raises(ValueError, match="hostPath type check failed"):
        host_path.prepare(str(tmp_path / "link"), type_)
    assert not (tmp_path / "absent").exists()


def test_unknown_type_is_rejected() -> None:
    with pytest.raises(ValueError, match="hostPath type check failed: 'Folder' is an invalid volume type"):
        host_path.prepare("/", "Folder")


def with_path(path: str, type_: str = "Directory", uid: str = "u") -> k8s.Pod:
    source = k8s.HostPathVolumeSource(path=path, type=type_)
    return pod(volumes=(k8s.Volume(name="v", host_path=source),), meta={"uid": uid})


async def test_a_failed_check_is_reported_with_the_volumes_name(tmp_path: Path) -> None:
    volumes = DiskVolumes(tmp_path, NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))

    with pytest.raises(VolumeFailed) as failed:
        await volumes.set_up(with_path("/dev/null"))

    told = 'MountVolume.SetUp failed for volume "v" : hostPath type check failed: /dev/null is not a directory'
    assert ("FailedMount", told) == (failed.value.reason, failed.value.message)


async def test_what_becomes_of_a_path_later_keeps_no_pod_that_has_it(tmp_path: Path, nursery: trio.Nursery) -> None:
    volumes = DiskVolumes(tmp_path / "root", NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))
    await nursery.start(volumes.run)
    place = tmp_path / "place"
    place.mkdir()
    assert {"v": str(place)} == await volumes.set_up(with_path(str(place)))

    place.rmdir()
    assert {"v": str(place)} == await volumes.set_up(with_path(str(place)))
    assert "but not refreshed: hostPath type check failed" in volumes.progress("u")["v"]

    await volumes.tear_down("u")
    with pytest.raises(VolumeFailed, match="type check failed"):
        await volumes.set_up(with_path(str(place)))
    nursery.cancel_scope.cancel()


MOUNTING = container("c", volume_mounts=(k8s.VolumeMount(name="v", mount_path="/v"),))


@pytest.mark.parametrize(
    ("type_", "name", "why"),
    [
        ("Socket", "socket", "is not a socket"),
        ("File", "file", "is not a file"),
        ("Directory", "directory", "is not a directory"),
    ],
)
async def test_a_container_is_not_created_while_a_path_it_mounts_has_vanished(
    type_: str, name: str, why: str, things: Path, nursery: trio.Nursery
) -> None:
    volumes = DiskVolumes(things / "root", NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))
    await nursery.start(volumes.run)
    it, place = with_path(str(things / name), type_), things / name
    await volumes.set_up(it)
    assert () == await volumes.resolve(it, MOUNTING, ())

    place.rename(things / "elsewhere")
    for _ in range(2):  # the agent makes nothing at the path itself
        with pytest.raises(ConfigError) as waits:
            await volumes.resolve(it, MOUNTING, ())
    assert not place.exists()
    place.mkdir()
    if type_ != "Directory":  # an earlier start made a directory of it
        with pytest.raises(ConfigError, match=why):
            await volumes.resolve(it, MOUNTING, ())
    place.rmdir()
    (things / "elsewhere").rename(place)

    told = f'volume "v" of container "c" is not ready: hostPath type check failed: {place} {why}'
    assert f"{told}: No such file or directory" == waits.value.message
    assert ("CreateContainerConfigError", "c") == (waits.value.reason, waits.value.container)
    assert () == await volumes.resolve(it, MOUNTING, ())
    nursery.cancel_scope.cancel()


async def test_a_container_without_the_vanished_path_is_created(tmp_path: Path, nursery: trio.Nursery) -> None:
    volumes = DiskVolumes(tmp_path / "root", NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))
    await nursery.start(volumes.run)
    place = tmp_path / "place"
    place.mkdir()
    it = with_path(str(place))
    await volumes.set_up(it)
    place.rmdir()

    assert () == await volumes.resolve(it, container("other"), ())
    nursery.cancel_scope.cancel()


async def test_a_file_that_is_made_where_none_is_is_made_before_each_start(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    volumes = DiskVolumes(tmp_path / "root", NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))
    await nursery.start(volumes.run)
    place = tmp_path / "place"
    it = with_path(str(place), "FileOrCreate")
    await volumes.set_up(it)
    place.unlink()

    await volumes.resolve(it, MOUNTING, ())

    assert place.is_file()  # of a missing path a runtime makes a directory
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("type_", ["", "Directory", "DirectoryOrCreate"])
def test_a_relative_path_is_refused_whatever_its_type(type_: str, things: Path) -> None:
    with pytest.raises(ValueError, match=r"^hostPath directory is not an absolute path"):
        host_path.prepare("directory", type_)


async def test_a_path_that_was_made_for_a_pod_is_made_again_when_it_went(tmp_path: Path, nursery: trio.Nursery) -> None:
    volumes = DiskVolumes(tmp_path / "root", NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 4))
    await nursery.start(volumes.run)
    place = tmp_path / "place"
    for _ in range(2):
        await volumes.set_up(with_path(str(place), "FileOrCreate"))
        place.unlink()
    nursery.cancel_scope.cancel()


async def test_a_path_that_hangs_holds_up_its_own_pod_with_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = DiskVolumes(tmp_path, NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 2))
    began, thawed = threading.Event(), threading.Event()
    real_stat = os.stat
    hung = tmp_path / "hung"
    hung.mkdir()

    def hanging_stat(path: str) -> os.stat_result:
        if path == str(hung):
            began.set()
            thawed.wait()
        return real_stat(path)

    monkeypatch.setattr(host_path.os, "stat", hanging_stat)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(volumes.set_up, with_path(str(hung)))
            await trio.to_thread.run_sync(began.wait)
            nursery.cancel_scope.cancel()
        for _ in range(5):
            with pytest.raises(VolumeFailed, match="has not ended yet"):
                await volumes.set_up(with_path(str(hung)))
        assert {"v": "/dev"} == await volumes.set_up(with_path("/dev", uid="neighbour"))
    finally:
        thawed.set()
