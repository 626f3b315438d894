"""Reading in a volume whose owner means harm."""

import os
import threading
import tracemalloc
from collections.abc import Collection
from pathlib import Path

import pytest

from shell.leasekit import leased
from shell.mountkit import NotedMounts
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.env_file import EnvFile, read_env_file
from trikubelet.kit.threads import ThreadPool
from trikubelet.volumes import inside
from trikubelet.volumes.inside import read_file
from trikubelet.volumes.volumes import DiskVolumes

MIB = 1024**2


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"the node's own")
    made = tmp_path / "volume"
    (made / "deep").mkdir(parents=True)
    (made / "deep" / "a").write_bytes(b"1")
    return made


@pytest.mark.parametrize("path", ["deep/a", "./deep//a", "link"])
def test_a_plain_file_is_read_wherever_in_the_volume_it_is(volume: Path, path: str) -> None:
    os.symlink("deep/../deep/a", volume / "link")
    assert b"1" == read_file(str(volume), path, 1)


@pytest.mark.parametrize(
    ("target", "path"),
    [("../secret", "a"), ("/etc/passwd", "a"), ("..", "a/secret"), ("/proc/self/root", "a/etc/passwd")],
)
def test_no_link_leads_out(volume: Path, target: str, path: str) -> None:
    os.symlink(target, volume / "a")
    with pytest.raises(OSError, match="leads out of the volume"):
        read_file(str(volume), path, 1000)


def test_pipe_does_not_block_and_only_regular_files_are_read(volume: Path) -> None:
    os.mkfifo(volume / "pipe")
    for path in ("pipe", "deep", ""):
        with pytest.raises(OSError, match="not a regular file"):
            read_file(str(volume), path, 1)


def test_of_a_file_of_any_size_no_more_is_read_than_was_asked_for(volume: Path) -> None:
    os.truncate(volume / "deep/a", 64 * MIB)  # which costs its maker nothing
    tracemalloc.start()
    try:
        with pytest.raises(OSError, match="larger than 1000 bytes"):
            read_file(str(volume), "deep/a", 1000)
        assert 1 * MIB > tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", ["../secret", "deep/../../secret", ".."])
def test_a_path_that_leads_up_is_refused(volume: Path, path: str) -> None:
    with pytest.raises(OSError, match="leads out of the volume"):
        read_file(str(volume), path, 1000)


async def test_a_file_of_variables_is_parsed_in_the_thread_that_reads_it(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed_by = []

    def noting(content: bytes, keys: Collection[str]) -> EnvFile:
        parsed_by.append(threading.current_thread())
        return read_env_file(content, keys)

    monkeypatch.setattr(inside, "read_env_file", noting)
    volumes = DiskVolumes(volume, NodeFacts("n"), NotedMounts(), ThreadPool("volumes", 1))
    (volume / "deep/a").write_text("A='1'\n")

    assert {"A": "1"} == (await volumes.read_env_file(str(volume), "deep/a", ["A"])).values
    assert 1 == len(parsed_by)
    assert threading.main_thread() not in parsed_by


def test_nothing_is_left_open(volume: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    read_file(str(volume), "deep/a", 1)
    for path, limit in (("deep/b", 1), ("b/a", 1), ("deep", 1), ("deep/a", 0)):
        with pytest.raises(OSError, match=r"No such file|not a regular file|larger"):
            read_file(str(volume), path, limit)

    assert before == len(os.listdir("/proc/self/fd"))


def test_a_file_on_which_a_container_has_a_lease_is_not_waited_for(volume: Path) -> None:
    with leased(str(volume / "deep/a")), pytest.raises(BlockingIOError):
        read_file(str(volume), "deep/a", 1)
