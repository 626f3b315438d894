"""Logs' directories, and that of the links to them, in which somebody has put names without end: what is held of them,
how long they are looked at, and what goes all the same."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shell.breadth import FILLED_BYTES, NAME_LENGTH, fill, peak_bytes_of
from trikubelet.host import directory_scan
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.kit.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

PART = "20260101-000000"


@pytest.fixture
def files(tmp_path: Path) -> DiskPodFiles:
    made = DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links", ThreadPool("files", 4))
    (tmp_path / "logs/ns_p_u/c").mkdir(parents=True)
    return made


def attempts(files: DiskPodFiles, logs: str) -> Awaitable[object]:
    return files.log_attempts(f"{logs}/ns_p_u", "c")


def tail(files: DiskPodFiles, logs: str) -> Awaitable[object]:
    return files.tail_log(f"{logs}/ns_p_u/c/0.log", 10, 100)


def remove_containers(files: DiskPodFiles, logs: str) -> Awaitable[object]:
    return files.remove_container_logs(f"{logs}/ns_p_u/c/0.log")


def remove_pods(files: DiskPodFiles, logs: str) -> Awaitable[object]:
    return files.remove_log_directory("ns_p_v")


def remove_dead(files: DiskPodFiles, logs: str) -> Awaitable[object]:
    return files.remove_dead_links(())


def numbers(number: int) -> str:
    return f"{number:09d}.log.".ljust(NAME_LENGTH, "y")


def parts(number: int) -> str:
    return f"0.log.{number}.".ljust(NAME_LENGTH, "y")


@pytest.mark.parametrize(
    ("ask", "where", "name"),
    [
        pytest.param(attempts, "logs/ns_p_u/c", numbers, id="attempts"),
        pytest.param(tail, "logs/ns_p_u/c", parts, id="parts"),
        pytest.param(remove_containers, "logs/ns_p_u/c", parts, id="parts that go"),
        pytest.param(remove_containers, "logs/ns_p_u/c", numbers, id="parts that stay"),
        pytest.param(remove_pods, "links", numbers, id="links"),
        pytest.param(remove_dead, "links", numbers, id="dead links"),
    ],
)
async def test_names_without_end_are_never_held_all_at_once(
    ask: Callable[[DiskPodFiles, str], Awaitable[object]],
    where: str,
    name: Callable[[int], str],
    files: DiskPodFiles,
    tmp_path: Path,
) -> None:
    fill(tmp_path / where, name)

    assert await peak_bytes_of(ask(files, str(tmp_path / "logs"))) < FILLED_BYTES // 4


@pytest.fixture
def three_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_scan, "NAMES_MAX", 3)


@pytest.mark.usefixtures("three_names")
async def test_so_many_names_are_looked_at_and_no_more(files: DiskPodFiles, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"logs/ns_p_u/c/{number}.log").touch()
        (tmp_path / f"logs/file{number}").touch()
        (tmp_path / f"logs/ns_p_{number}").mkdir()

    assert 3 == len(await files.log_attempts(f"{tmp_path}/logs/ns_p_u", "c"))
    assert len(await files.log_directories()) <= 3


@pytest.mark.usefixtures("three_names")
async def test_a_log_behind_names_without_end_goes_and_that_parts_may_stay_is_an_error(
    files: DiskPodFiles, tmp_path: Path
) -> None:
    directory = tmp_path / "logs/ns_p_u/c"
    for number in range(5):
        (directory / f"other{number}").touch()
        (tmp_path / f"links/{number}").touch()
    for number in range(5):
        (directory / f"{number}.log").touch()

        with pytest.raises(OSError, match=r"only 3 of the names in it were read: '.*/logs/ns_p_u/c'") as caught:
            await files.remove_container_logs(f"{directory}/{number}.log")
        assert errno.EFBIG == caught.value.errno
        assert not (directory / f"{number}.log").exists()
    with pytest.raises(OSError, match=r"only 3 of the names in it were read: '.*/links'"):
        await files.remove_dead_links(())


@pytest.mark.usefixtures("three_names")
async def test_links_without_end_keep_no_log_from_being_removed(files: DiskPodFiles, tmp_path: Path) -> None:
    logs = [tmp_path / f"logs/ns_p_u/c/0.log{part}" for part in ("", f".{PART}")]
    for path in logs:
        path.touch()
    for number in range(5):
        (tmp_path / f"links/{number}").touch()

    for remove in (files.remove_container_logs(str(logs[0])), files.remove_log_directory("ns_p_u")):
        with pytest.raises(OSError, match=r"only 3 of the names in it were read: '.*/links'"):
            await remove
        assert not any(path.exists() for path in logs)
    assert [] == os.listdir(tmp_path / "logs")


@pytest.mark.usefixtures("three_names")
async def test_more_parts_than_are_seen_at_once_go_all_the_same(files: DiskPodFiles, tmp_path: Path) -> None:
    """As on a file system that leaves out names while others are removed."""
    directory = tmp_path / "logs/ns_p_u/c"
    for number in range(10):
        (directory / f"0.log.{number}").touch()

    await files.remove_container_logs(f"{directory}/0.log")

    assert [] == os.listdir(directory)


def test_a_directory_in_which_there_is_always_more_to_remove_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_scan, "SCANS_MAX", 5)
    (tmp_path / "0").touch()
    asked = []

    def another(entry: os.DirEntry[str]) -> bool:
        asked.append(entry.name)
        if len(asked) < 1000:
            (tmp_path / str(len(asked))).touch()
        return True

    with monkeypatch.context() as patch:
        patch.setattr(directory_scan, "NAMES_MAX", 3)
        with pytest.raises(OSError, match="new files keep appearing") as caught:
            directory_scan.remove_entries(tmp_path, another)
    assert errno.EBUSY == caught.value.errno
    assert len(asked) <= 15


def test_names_that_stay_are_not_looked_at_again_and_again_for_one_that_always_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_scan, "NAMES_MAX", 20)
    for number in range(10):
        (tmp_path / f"stays{number}").touch()
    (tmp_path / "part0").touch()
    asked: list[str] = []

    def another(entry: os.DirEntry[str]) -> bool:
        asked.append(entry.name)
        if entry.name.startswith("stays"):
            return False
        if len(asked) < 1000:
            (tmp_path / f"part{len(asked)}").touch()
        return True

    with pytest.raises(OSError, match="new files keep appearing") as caught:
        directory_scan.remove_entries(tmp_path, another)
    assert errno.EBUSY == caught.value.errno
    assert len(asked) <= (directory_scan.FULL_SCANS_MAX + 1) * 20


def test_concurrently_removed_file_is_no_error(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).touch()

    def removed_by_another(entry: os.DirEntry[str]) -> bool:
        os.unlink(entry.path)
        return True

    directory_scan.remove_entries(tmp_path, removed_by_another)

    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("place", ["missing", "file", "file/below"])
def test_where_there_is_no_directory_nothing_is_in_it(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()

    assert ([], frozenset()) == (
        list(directory_scan.entries(tmp_path / place)),
        directory_scan.directories(tmp_path / place),
    )


async def test_a_link_that_goes_before_it_is_read_keeps_no_log_from_being_removed(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "logs/ns_p_u/c/0.log"
    log.touch()
    await files.link_log("link", str(log))

    def too_late(path: str) -> str:
        os.unlink(path)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "readlink", too_late)
        await files.remove_container_logs(str(log))

    assert ([], []) == (os.listdir(log.parent), os.listdir(tmp_path / "links"))


async def test_a_link_in_a_logs_place_goes_whatever_it_leads_to(files: DiskPodFiles, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    log = tmp_path / "logs/ns_p_u/c/0.log"
    log.symlink_to(tmp_path / "elsewhere")

    await files.remove_container_logs(str(log))

    assert ([], True) == (os.listdir(log.parent), (tmp_path / "elsewhere").is_dir())


async def test_a_directory_called_as_a_log_stays(files: DiskPodFiles, tmp_path: Path) -> None:
    for name in ("0.log", f"0.log.{PART}"):
        (tmp_path / "logs/ns_p_u/c" / name).mkdir()

    await files.remove_container_logs(f"{tmp_path}/logs/ns_p_u/c/0.log")

    assert {"0.log", f"0.log.{PART}"} == set(os.listdir(tmp_path / "logs/ns_p_u/c"))


@pytest.mark.parametrize("look", ["pods_on_disk", "log_directories"])
async def test_concurrent_listings_are_both_answered(
    look: str, files: DiskPodFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go, scandir = trio.Event(), threading.Event(), os.scandir
    await files.make_pod("u")
    seen = []

    def slow(directory: Path) -> Iterator[os.DirEntry[str]]:
        trio.from_thread.run_sync(begun.set)
        assert let_go.wait(60)
        return scandir(directory)

    async def ask() -> None:
        seen.append(await getattr(files, look)())

    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", slow)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await begun.wait()
                nursery.start_soon(ask)
                await wait_all_tasks_blocked()
                let_go.set()
    finally:
        let_go.set()

    assert [{"pods_on_disk": {"u"}, "log_directories": {"ns_p_u"}}[look]] * 2 == seen
