"""The contract of ``ports.ContainerLogs``, held by the real disk and by the host in memory; what a disk alone has."""

from __future__ import annotations

import gzip
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core.log_rotation import UNFINISHED
from trikubelet.host import container_logs
from trikubelet.host.container_logs import DiskContainerLogs
from trikubelet.kit.threads import ThreadPool
from trikubelet.testing.memory_host import MemoryContainerLogs, MemoryPodFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from trikubelet.ports import ContainerLogs

PART, OLDER = "20261121-070102", "20261120-070102.gz"


@dataclass(frozen=True)
class Subject:
    """The logs under test, and the path of one; ``write`` stands for a runtime, ``read`` says b"-" of no file."""

    logs: ContainerLogs
    path: str
    write: Callable[[str, bytes], object]
    read: Callable[[str], bytes]


def disk(root: Path) -> Subject:
    def read(path: str) -> bytes:
        return Path(path).read_bytes() if Path(path).exists() else b"-"

    directory = root / "logs" / "ns_p_u" / "c"
    directory.mkdir(parents=True)
    (root / "elsewhere").mkdir()
    return Subject(
        DiskContainerLogs(root / "logs", ThreadPool("logs", 1), ThreadPool("packed", 1)),
        str(directory / "0.log"),
        lambda path, data: Path(path).write_bytes(data),
        read,
    )


def memory() -> Subject:
    files = MemoryPodFiles()
    files.directories.add("/logs/ns_p_u")
    path = "/logs/ns_p_u/c/0.log"
    return Subject(
        MemoryContainerLogs(files), path, files.content.__setitem__, lambda path: files.content.get(path, b"-")
    )


@pytest.fixture(params=["disk", "memory"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    return disk(tmp_path) if request.param == "disk" else memory()


@pytest.fixture
def on_disk(tmp_path: Path) -> Subject:
    return disk(tmp_path)


async def test_a_log_is_as_long_as_what_was_written(subject: Subject) -> None:
    assert [None] == await subject.logs.sizes([subject.path])
    subject.write(subject.path, b"twelve bytes")
    assert [12, 12] == await subject.logs.sizes([subject.path] * 2)


async def test_there_is_nothing_to_be_opened_where_there_is_no_directory(subject: Subject) -> None:
    assert [0, 0] == await subject.logs.sizes(["/nowhere/ns_p_u/c/0.log", ""])


async def test_parts_are_those_of_this_log_and_nothing_else(subject: Subject) -> None:
    assert not await subject.logs.parts(subject.path)
    for part in (PART, OLDER, f"{PART}.tmp", "bak"):
        subject.write(f"{subject.path}.{part}", b"")
    subject.write(f"{subject.path}", b"")
    subject.write(f"{os.path.dirname(subject.path)}/10.log.{PART}", b"")

    assert {PART, OLDER, f"{PART}.tmp"} == await subject.logs.parts(subject.path)

    await subject.logs.remove(subject.path, OLDER)
    await subject.logs.remove(subject.path, OLDER)
    assert {PART, f"{PART}.tmp"} == await subject.logs.parts(subject.path)


async def test_a_log_set_aside_is_a_part_and_can_be_put_back(subject: Subject) -> None:
    subject.write(subject.path, b"said")
    await subject.logs.set_aside(subject.path, PART)
    assert [None] == await subject.logs.sizes([subject.path])
    assert b"said" == subject.read(f"{subject.path}.{PART}")

    await subject.logs.put_back(subject.path, PART)
    assert b"said" == subject.read(subject.path)
    assert not await subject.logs.parts(subject.path)


async def test_a_log_is_not_put_back_over_a_new_one(subject: Subject) -> None:
    subject.write(subject.path, b"old")
    await subject.logs.set_aside(subject.path, PART)
    subject.write(subject.path, b"new")

    await subject.logs.put_back(subject.path, PART)

    assert b"new" == subject.read(subject.path)
    assert b"old" == subject.read(f"{subject.path}.{PART}")


async def test_a_log_that_is_gone_cannot_be_set_aside_and_need_not_be_put_back(subject: Subject) -> None:
    with pytest.raises(FileNotFoundError):
        await subject.logs.set_aside(subject.path, PART)
    await subject.logs.put_back(subject.path, PART)
    assert [None] == await subject.logs.sizes([subject.path])


async def test_a_compressed_part_takes_the_place_of_the_plain_one(subject: Subject) -> None:
    said = b"the same again and again\n" * 10_000
    subject.write(f"{subject.path}.{PART}", said)

    await subject.logs.compress(subject.path, PART)

    assert {f"{PART}.gz"} == await subject.logs.parts(subject.path)
    packed = subject.read(f"{subject.path}.{PART}.gz")
    assert said == gzip.decompress(packed)
    assert len(packed) < len(said) / 10


async def test_a_part_that_is_gone_is_not_compressed(subject: Subject) -> None:
    await subject.logs.compress(subject.path, PART)
    assert not await subject.logs.parts(subject.path)


@pytest.mark.parametrize("path", ["{logs}/../elsewhere/0.log", "{logs}/0.log", "0.log", "{logs}/ns_p_u/.."])
async def test_what_is_not_below_the_pods_logs_is_left_alone(path: str, subject: Subject) -> None:
    path = path.format(logs=subject.path.removesuffix("/ns_p_u/c/0.log"))
    for touch in (
        lambda: subject.logs.parts(path),
        lambda: subject.logs.remove(path, PART),
        lambda: subject.logs.set_aside(path, PART),
        lambda: subject.logs.put_back(path, PART),
    ):
        with pytest.raises(OSError, match=r"the runtime names it, but|no such file"):
            await touch()
    with pytest.raises(PermissionError):
        await subject.logs.compress(path, PART)


async def test_a_link_out_of_the_logs_leads_nowhere(on_disk: Subject, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "0.log").write_bytes(b"precious")
    (tmp_path / "logs" / "ns_p_u" / "way").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PermissionError):
        await on_disk.logs.set_aside(str(tmp_path / "logs" / "ns_p_u" / "way" / "0.log"), PART)


async def test_what_is_no_plain_file_is_no_log(on_disk: Subject) -> None:
    os.mkfifo(on_disk.path)
    os.mkdir(f"{on_disk.path}.{PART}")
    fifo, null = await on_disk.logs.sizes([on_disk.path, "/logs/\0"])
    assert "not a regular file" in str(fifo)
    assert "null" in str(null)
    assert not await on_disk.logs.parts(on_disk.path)


async def test_a_compressed_part_keeps_mode_and_time(on_disk: Subject) -> None:
    part = f"{on_disk.path}.{PART}"
    on_disk.write(part, b"said")
    os.chmod(part, 0o640)
    os.utime(part, ns=(5, 1_700_000_000_123_456_789))

    await on_disk.logs.compress(on_disk.path, PART)

    found = os.stat(f"{part}.gz")
    assert (0o100640, 1_700_000_000_123_456_789) == (found.st_mode, found.st_mtime_ns)


@pytest.mark.parametrize("there", ["a pipe", "what a crash left"])
async def test_what_stands_in_the_place_of_the_unfinished_part_goes(on_disk: Subject, there: str) -> None:
    part = f"{on_disk.path}.{PART}"
    on_disk.write(part, b"said")
    if there == "a pipe":
        os.mkfifo(part + UNFINISHED)
    else:
        on_disk.write(part + UNFINISHED, b"something that is longer than what is written now, compressed as that is")

    await on_disk.logs.compress(on_disk.path, PART)

    assert b"said" == gzip.decompress(on_disk.read(f"{part}.gz"))
    assert {f"{PART}.gz"} == await on_disk.logs.parts(on_disk.path)


@pytest.mark.parametrize("seconds", [-5, 2**33])
async def test_a_part_of_a_time_that_the_format_cannot_say_is_compressed_and_keeps_it(
    on_disk: Subject, seconds: int
) -> None:
    part = f"{on_disk.path}.{PART}"
    on_disk.write(part, b"said")
    os.utime(part, (seconds, seconds))

    await on_disk.logs.compress(on_disk.path, PART)

    assert b"said" == gzip.decompress(on_disk.read(f"{part}.gz"))
    assert seconds == os.stat(f"{part}.gz").st_mtime


@pytest.mark.timeout(60)  # for who waits in ``open`` for a pipe that nobody writes to
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path), os.mkdir])
async def test_what_took_the_place_of_a_part_is_not_compressed(on_disk: Subject, put: Callable[[str], object]) -> None:
    part = f"{on_disk.path}.{PART}"
    put(part)
    with pytest.raises(OSError, match=PART):
        await on_disk.logs.compress(on_disk.path, PART)
    assert [os.path.basename(part)] == os.listdir(os.path.dirname(part))


async def test_a_part_that_cannot_be_written_leaves_the_plain_one(
    on_disk: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk.write(f"{on_disk.path}.{PART}", b"said")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container_logs.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        await on_disk.logs.compress(on_disk.path, PART)

    assert {PART} == await on_disk.logs.parts(on_disk.path)


async def test_logs_removed_while_a_part_is_compressed_do_not_come_back(
    on_disk: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk.write(f"{on_disk.path}.{PART}", b"said")
    monkeypatch.setattr(container_logs.os, "fsync", lambda _: os.unlink(f"{on_disk.path}.{PART}"))

    await on_disk.logs.compress(on_disk.path, PART)

    assert not await on_disk.logs.parts(on_disk.path)


@pytest.mark.parametrize("moment", ["fsync", "rename", "unlink"])
async def test_a_part_removed_in_either_form_while_it_is_compressed_does_not_come_back(
    on_disk: Subject, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    on_disk.write(f"{on_disk.path}.{PART}", b"said")
    does = getattr(os, moment)
    removed: list[str] = []

    def removed_after(*given: int | str) -> None:
        does(*given)
        if not removed:
            removed.extend((PART, f"{PART}.gz"))
            for part in removed:  # as core.log_rotation has it: the plain one first
                Path(f"{on_disk.path}.{part}").unlink(missing_ok=True)

    monkeypatch.setattr(container_logs.os, moment, removed_after)
    await on_disk.logs.compress(on_disk.path, PART)

    assert [PART, f"{PART}.gz"] == removed
    assert [] == os.listdir(os.path.dirname(on_disk.path))


async def test_compressing_is_not_done_by_the_event_loop(on_disk: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk.write(f"{on_disk.path}.{PART}", b"said")
    who: list[threading.Thread] = []
    monkeypatch.setattr(container_logs.os, "fsync", lambda _: who.append(threading.current_thread()))

    await on_disk.logs.compress(on_disk.path, PART)

    assert [True] == [thread is not threading.main_thread() for thread in who]


@pytest.mark.parametrize("what", ["sizes", "parts", "remove", "set_aside", "put_back", "compress"])
async def test_nothing_is_asked_of_the_disk_by_the_event_loop(
    what: str, on_disk: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk.write(on_disk.path, b"said")
    on_disk.write(f"{on_disk.path}.{OLDER}", b"said")
    who: set[threading.Thread] = set()

    def note(honest: Callable[..., object]) -> Callable[..., object]:
        def noted(*given: object, **more: object) -> object:
            who.add(threading.current_thread())
            return honest(*given, **more)

        return noted

    for place, name in ((os.path, "realpath"), (os, "scandir"), (os, "rename"), (os, "link"), (os, "lstat")):
        monkeypatch.setattr(place, name, note(getattr(place, name)))
    asked = {"sizes": ([on_disk.path],), "parts": (on_disk.path,)}.get(what, (on_disk.path, PART))
    await getattr(on_disk.logs, what)(*asked)

    assert who
    assert threading.main_thread() not in who


async def test_hanging_log_is_not_read_again_and_others_are(on_disk: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, let_go, rename = trio.Event(), threading.Event(), os.rename
    for path in (on_disk.path, other := f"{os.path.dirname(on_disk.path)}/1.log"):
        on_disk.write(path, b"said")

    def hang(path: str, target: str) -> None:
        if path == on_disk.path:
            trio.from_thread.run_sync(begun.set)
            assert let_go.wait(60)
        rename(path, target)

    monkeypatch.setattr(container_logs.os, "rename", hang)
    logs = DiskContainerLogs(Path(on_disk.path).parents[2], ThreadPool("logs", 2), ThreadPool("packed", 1))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.set_aside, on_disk.path, PART)
            await begun.wait()
            await logs.set_aside(other, PART)
            nursery.cancel_scope.cancel()
        for again in (logs.parts(on_disk.path), logs.put_back(on_disk.path, PART)):
            with pytest.raises(OSError, match="an earlier operation has not ended yet"):
                await again
    finally:
        let_go.set()


async def test_among_so_many_files_no_name_is_known_to_be_free(
    on_disk: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_logs, "ENTRIES_MAX", 3)
    for number in range(4):
        on_disk.write(f"{os.path.dirname(on_disk.path)}/{number}", b"")
    with pytest.raises(OSError, match="more than 3 files"):
        await on_disk.logs.parts(on_disk.path)
