"""What only a real disk can get wrong with pod directories: modes, inodes, links laid as traps, mounts below."""

import io
import os
import stat
import threading
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
import trio

from shell.leasekit import leased
from trikubelet.host import directory_scan, log_ends, pod_directories, removal
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.kit.plain_file import open_plain
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.errors import StillMounted
from trikubelet.model.pod_notes import Note

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


@pytest.fixture
def files(tmp_path: Path) -> DiskPodFiles:
    return DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links", ThreadPool("removals", 2))


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """Something outside that must survive."""
    found = tmp_path / "treasure"
    found.mkdir()
    (found / "gold").write_text("gold")
    return found


def mode(path: Path | str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def inode(path: str) -> int:
    return os.stat(path).st_ino


async def test_a_pods_directory_is_closed_to_others_and_its_files_are_not(files: DiskPodFiles, tmp_path: Path) -> None:
    await files.make_pod("u")

    assert {0o750} == {mode(tmp_path / "root/pods/u" / part) for part in ("", "volumes", "plugins", "containers")}
    assert 0o644 == mode(await files.write_hosts("u", "hosts"))
    assert 0o666 == mode(await files.termination_log("u", "c", 0))


async def test_a_container_that_has_the_hosts_file_mounted_sees_it_change(files: DiskPodFiles) -> None:
    await files.make_pod("u")
    before = inode(await files.write_hosts("u", "first"))

    assert before == inode(await files.write_hosts("u", "second"))


async def test_a_hosts_file_gets_shorter_too(files: DiskPodFiles) -> None:
    await files.make_pod("u")
    await files.write_hosts("u", "a long one")

    with open_plain(await files.write_hosts("u", "short")) as file:
        assert b"short" == file.read()


async def test_a_hosts_file_is_reopened_however_much_a_container_made_of_it(files: DiskPodFiles) -> None:
    await files.make_pod("u")
    path = await files.write_hosts("u", "hosts")
    before = inode(path)
    os.truncate(path, 1 << 40)  # which costs its maker nothing, and no machine has the memory to read it

    await files.write_hosts("u", "hosts")

    assert before == inode(path)
    assert 5 == os.stat(path).st_size


@pytest.mark.parametrize("note", Note)
async def test_pipe_in_place_of_a_note_blocks_nothing_and_is_replaced(
    note: Note, files: DiskPodFiles, tmp_path: Path
) -> None:
    """Notes are read and written by the event loop."""
    await files.make_pod("u")
    for name in (note.value, f".{note.value}.new"):
        os.mkfifo(tmp_path / "root/pods/u" / name)

    for read in (partial(files.noted, "u"), files.noted_of_all):
        with pytest.raises(OSError, match=f"not a regular file: '.*/{note.value}'"):
            read(note)
    files.note("u", note, b"noted")

    assert b"noted" == files.noted("u", note)


async def test_a_hosts_file_that_says_what_it_should_is_not_touched(files: DiskPodFiles) -> None:
    await files.make_pod("u")
    path = await files.write_hosts("u", "hosts")
    os.utime(path, (1, 1))

    await files.write_hosts("u", "hosts")

    assert 1 == os.stat(path).st_mtime


async def test_removing_a_pods_directory_follows_no_link_in_it(
    files: DiskPodFiles, tmp_path: Path, treasure: Path
) -> None:
    await files.make_pod("u")
    (tmp_path / "root/pods/u/volumes/way-out").symlink_to(treasure)

    await files.remove_pod("u")

    assert not (tmp_path / "root/pods/u").exists()
    assert "gold" == (treasure / "gold").read_text()


async def test_a_link_in_place_of_a_pods_directory_is_no_pod_and_leads_nowhere(
    files: DiskPodFiles, tmp_path: Path, treasure: Path
) -> None:
    (tmp_path / "root/pods/u").symlink_to(treasure)
    (tmp_path / "logs/ns_p_u").symlink_to(treasure)

    assert frozenset() == (await files.pods_on_disk()) | (await files.log_directories())
    await files.remove_pod("u")
    await files.remove_log_directory("ns_p_u")
    assert "gold" == (treasure / "gold").read_text()


async def test_a_foreign_file_among_the_log_links_is_left_alone(files: DiskPodFiles, tmp_path: Path) -> None:
    (tmp_path / "links/notes.txt").write_text("mine")

    await files.remove_log_directory("ns_p_u")
    await files.remove_container_logs(str(tmp_path / "logs/ns_p_u/c/0.log"))

    assert "mine" == (tmp_path / "links/notes.txt").read_text()


async def test_a_link_among_the_logs_leads_to_no_log_outside(
    files: DiskPodFiles, tmp_path: Path, treasure: Path
) -> None:
    await files.make_log_directory(str(tmp_path / "logs/ns_p_u"), "c")
    (tmp_path / "logs/ns_p_u/way-out").symlink_to(treasure)
    (tmp_path / "logs/ns_p_u/c/0.log").symlink_to(treasure / "gold")

    await files.remove_container_logs(str(tmp_path / "logs/ns_p_u/way-out/gold"))
    await files.remove_container_logs(str(tmp_path / "logs/ns_p_u/c/0.log"))

    assert "gold" == (treasure / "gold").read_text()
    assert [] == list((tmp_path / "logs/ns_p_u/c").iterdir())


async def test_a_directory_of_logs_that_is_a_link_itself_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "disk")
    files = DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links", ThreadPool("removals", 2))
    await files.make_log_directory(str(tmp_path / "logs/ns_p_u"), "c")
    for path in ("logs/ns_p_u/c/0.log", "disk/ns_p_u/c/1.log"):
        (tmp_path / path).touch()
        await files.remove_container_logs(str(tmp_path / path))

    assert [] == list((tmp_path / "disk/ns_p_u/c").iterdir())


@pytest.mark.parametrize("path", ["/", "0.log", "logs/ns_p_u/c/0.log", "{logs}/ns_p_u/c/..", "{logs}/ns_p_u"])
async def test_what_is_no_path_of_a_log_is_not_removed(path: str, files: DiskPodFiles, tmp_path: Path) -> None:
    await files.make_log_directory(str(tmp_path / "logs/ns_p_u"), "c")
    log = tmp_path / "logs/ns_p_u/c/0.log"
    log.touch()
    await files.link_log("a.log", str(log))

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        await files.remove_container_logs(path.format(logs=tmp_path / "logs"))

    assert (tmp_path / "links/a.log").exists()


async def test_a_log_that_is_refused_is_said_once(
    files: DiskPodFiles, treasure: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        await files.remove_container_logs(str(treasure / "gold"))

    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert 1 == len(warnings)
    assert f"Not removing the log {treasure}/gold" in warnings[0]


async def test_removed_directories_are_empty(files: DiskPodFiles, tmp_path: Path) -> None:
    for directory in ("root/pods", "logs", "links"):
        (tmp_path / directory).rmdir()

    assert frozenset() == (await files.pods_on_disk()) | (await files.log_directories())
    await files.remove_dead_links(())
    await files.remove_log_directory("ns_p_u")
    await files.remove_container_logs(str(tmp_path / "logs/ns_p_u/c/0.log"))


async def test_a_link_that_vanishes_while_it_is_looked_at_is_gone(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files.link_log("a.log", str(tmp_path / "logs/ns_p_u/c/0.log"))
    await files.link_log("b.log", str(tmp_path / "logs/ns_p_u/c/1.log"))
    read = os.readlink

    def vanishing(path: str) -> str:
        if path.endswith("a.log"):
            Path(path).unlink()
        return read(path)

    monkeypatch.setattr(os, "readlink", vanishing)
    await files.remove_log_directory("ns_p_u")

    assert [] == list((tmp_path / "links").iterdir())


async def test_nothing_is_removed_while_something_is_mounted_below(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files.make_pod("u")
    await files.make_log_directory(str(tmp_path / "logs/ns_p_u"), "c")
    await files.link_log("a.log", str(tmp_path / "logs/ns_p_u/c/0.log"))
    monkeypatch.setattr(removal, "mounted_below", lambda directory: (f"{directory}/v",))

    with pytest.raises(StillMounted, match="pods/u/v is still mounted"):
        await files.remove_pod("u")
    with pytest.raises(StillMounted, match="logs/ns_p_u/v is still mounted"):
        await files.remove_log_directory("ns_p_u")
    assert ({"u"}, {"ns_p_u"}) == (await files.pods_on_disk(), await files.log_directories())
    assert (tmp_path / "links/a.log").is_symlink()


async def test_an_agent_finds_the_directories_of_the_one_before(files: DiskPodFiles, tmp_path: Path) -> None:
    await files.make_pod("u")

    again = DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links", ThreadPool("removals", 2))

    assert frozenset({"u"}) == await again.pods_on_disk()


@pytest.mark.parametrize("uid", ["..", "../treasure", "/etc", ""])
async def test_what_is_no_uid_leads_nowhere(files: DiskPodFiles, treasure: Path, uid: str) -> None:
    with pytest.raises(ValueError, match="is no UID"):
        await files.make_pod(uid)
    with pytest.raises(ValueError, match="is no UID"):
        await files.remove_pod(uid)

    assert "gold" == (treasure / "gold").read_text()


async def test_a_directory_that_is_nobodys_uid_is_not_a_pods(files: DiskPodFiles, tmp_path: Path) -> None:
    await files.make_pod("u")
    (tmp_path / "root/pods/.hidden").mkdir()

    assert {"u"} == await files.pods_on_disk()


@pytest.mark.parametrize("what", ["pods/u", "ns_p_u"])
async def test_a_removal_that_hangs_holds_up_its_own_directory_alone_and_nothing_is_made_in_it(
    what: str, files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go, remove = trio.Event(), threading.Event(), removal.remove_tree
    logs = str(tmp_path / "logs")

    def hang(path: str) -> None:
        if path.endswith(what):
            trio.from_thread.run_sync(begun.set)
            assert let_go.wait(60)
        remove(path)

    monkeypatch.setattr(removal, "remove_tree", hang)
    for uid in ("u", "v"):
        await files.make_pod(uid)
        await files.make_log_directory(f"{logs}/ns_p_{uid}", "")
    act, make = {
        "pods/u": (partial(files.remove_pod, "u"), partial(files.make_pod, "u")),
        "ns_p_u": (
            partial(files.remove_log_directory, "ns_p_u"),
            partial(files.make_log_directory, f"{logs}/ns_p_u", "c"),
        ),
    }[what]
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act)
            await begun.wait()
            await files.remove_pod("v")
            await files.remove_log_directory("ns_p_v")
            nursery.cancel_scope.cancel()
        with pytest.raises(OSError, match="an earlier removal of it has not ended yet"):
            await act()
        with pytest.raises(OSError, match="leftovers of an earlier instance are still being removed"):
            await make()
    finally:
        let_go.set()

    while "u" in (
        files._threads._removing.running("pods") | {name[-1:] for name in files._threads._removing.running("logs")}
    ):
        await trio.lowlevel.checkpoint()
    assert ({"pods/u": set(), "ns_p_u": {"u"}}[what]) == await files.pods_on_disk()
    assert ({"pods/u": {"ns_p_u"}, "ns_p_u": set()}[what]) == await files.log_directories()
    await make()


async def test_link_to_a_hanging_disk_delays_no_other(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go, exists = trio.Event(), threading.Event(), os.path.exists
    await files.link_log("p_ns_c-id.log", "/elsewhere/0.log")

    def hang(path: str) -> bool:
        if path.endswith("p_ns_c-id.log"):
            trio.from_thread.run_sync(begun.set)
            assert let_go.wait(60)
        return exists(path)

    monkeypatch.setattr(os.path, "exists", hang)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(files.remove_dead_links, ())
            await begun.wait()
            await files.remove_log_directory("ns_p_v")
            nursery.cancel_scope.cancel()
        with pytest.raises(OSError, match="an earlier removal of it has not ended yet"):
            await files.remove_dead_links(())
    finally:
        let_go.set()

    while files._threads._removing.running("logs"):
        await trio.lowlevel.checkpoint()
    assert not (tmp_path / "links/p_ns_c-id.log").is_symlink()


async def test_a_making_that_hangs_holds_up_its_own_pod_alone_and_what_it_makes_is_not_removed_before(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go, make = trio.Event(), threading.Event(), pod_directories._make_pod

    def hang(directory: Path) -> None:
        if directory.name == "u":
            trio.from_thread.run_sync(begun.set)
            assert let_go.wait(60)
        make(directory)

    monkeypatch.setattr(pod_directories, "_make_pod", hang)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(files.make_pod, "u")
            await begun.wait()
            await files.make_pod("v")
            assert {"v"} == await files.pods_on_disk()
            nursery.cancel_scope.cancel()
        with pytest.raises(OSError, match="an earlier operation on it has not ended yet"):
            await files.make_pod("u")
        with pytest.raises(OSError, match="an earlier operation on it has not ended yet"):
            await files.remove_pod("u")  # which would find nothing, and then be too early
    finally:
        let_go.set()

    while files._threads._using.running("make pods"):
        await trio.lowlevel.checkpoint()
    assert {"u", "v"} == await files.pods_on_disk()
    await files.remove_pod("u")
    assert {"v"} == await files.pods_on_disk()


def write_logs(*paths: str) -> None:
    for path in paths:
        Path(path).write_text("2026-01-01T00:00:00Z stdout F said\n")


class Growing(io.BytesIO):
    """A file to which its container writes as soon as somebody has looked where it ends."""

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        found = super().seek(at, whence)
        if whence == os.SEEK_END:
            self.write(b"x" * 100_000)
        return found


async def test_of_a_file_that_grows_while_its_end_is_read_no_more_is_read_than_was_asked_for(
    files: DiskPodFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ends, "open_plain", lambda _: Growing(b"why it ended"))

    assert "ended" == await files.read_termination_log("u", "c", "0", 5)
    assert b"ended" == log_ends.end_with_part("/0.log", 5)


async def test_hanging_log_read_is_not_repeated_and_others_are_read(
    files: DiskPodFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go, end_of = trio.Event(), threading.Event(), log_ends.end_of
    hung, well = (str(tmp_path / f"logs/ns_p_u/c/{attempt}.log") for attempt in (0, 1))
    await files.make_log_directory(f"{tmp_path}/logs/ns_p_u", "c")
    write_logs(hung, well)

    def hang(path: str, bytes_max: int) -> bytes:
        if path == hung:
            trio.from_thread.run_sync(begun.set)
            assert let_go.wait(60)
        return end_of(path, bytes_max)

    with monkeypatch.context() as patch:
        patch.setattr(log_ends, "end_of", hang)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(files.tail_log, hung, 1, 100)
                await begun.wait()
                assert "said\n" == await files.tail_log(well, 1, 100)
                nursery.cancel_scope.cancel()
            with pytest.raises(OSError, match="an earlier reading of it has not ended yet"):
                await files.tail_log(hung, 1, 100)
        finally:
            let_go.set()

    while hung in files._threads._using._busy:
        await trio.lowlevel.checkpoint()
    assert "said\n" == await files.tail_log(hung, 1, 100)


@pytest.mark.parametrize("wanted", ["hosts", "others"])
async def test_leased_hosts_file_blocks_nothing(files: DiskPodFiles, wanted: str) -> None:
    await files.make_pod("u")
    path = await files.write_hosts("u", "hosts")

    with trio.fail_after(20), leased(path), pytest.raises(BlockingIOError):  # it could be kept for 45 s
        await files.write_hosts("u", wanted)

    await files.write_hosts("u", wanted)
    assert len(wanted) == os.stat(path).st_size


async def test_nor_does_a_lease_that_is_taken_once_the_hosts_file_was_compared(
    files: DiskPodFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files.make_pod("u")
    path = await files.write_hosts("u", "hosts")
    monkeypatch.setattr(pod_directories, "_says", lambda *_: False)

    with trio.fail_after(20), leased(path), pytest.raises(BlockingIOError):
        await files.write_hosts("u", "others")

    assert len("hosts") == os.stat(path).st_size


@pytest.mark.parametrize("look", ["pods_on_disk", "log_directories"])
async def test_hanging_listing_blocks_nothing_and_is_not_repeated(
    look: str, files: DiskPodFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, let_go = trio.Event(), threading.Event()

    def hang(directory: Path) -> NoReturn:
        trio.from_thread.run_sync(begun.set)
        assert let_go.wait(60)
        raise FileNotFoundError

    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", hang)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(getattr(files, look))
                await begun.wait()
                await files.make_pod("u")
                await files.make_log_directory(str(files._logs / "ns_p_u"), "c")
                nursery.cancel_scope.cancel()
            with pytest.raises(OSError, match="an earlier operation has not ended yet"):
                await getattr(files, look)()
    finally:
        let_go.set()

    while files._threads._using.running("look through pods") or files._threads._using._busy:
        await trio.lowlevel.checkpoint()
    assert {"pods_on_disk": {"u"}, "log_directories": {"ns_p_u"}}[look] == await getattr(files, look)()


async def test_of_more_directories_than_there_are_pods_some_are_named(
    files: DiskPodFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_scan, "DIRECTORIES_MAX", 3)
    pods = {f"u{number}" for number in range(5)}
    for uid in pods:
        await files.make_pod(uid)

    found = await files.pods_on_disk()
    assert (3, True) == (len(found), found < pods)
    for uid in found:
        await files.remove_pod(uid)
    assert pods - found == await files.pods_on_disk()
