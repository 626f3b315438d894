"""The contract of ``ports.PodFiles``, held by the real disk and by the host in memory."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trikubelet.core.names import LOGGED_ATTEMPTS_MAX
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.kit.threads import ThreadPool
from trikubelet.model.pod_notes import NOTE_BYTES_MAX, NodeNote, Note
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from trikubelet.ports import PodFiles


@dataclass(frozen=True)
class Subject:
    """The files under test; ``write`` and ``read`` stand for a container, ``links`` for a log collector, ``lose`` for
    whoever removes a file behind our back, and ``nail`` for who makes it one that nobody may remove, for as long as the
    block. Beside ``logs`` is a directory called ``elsewhere``."""

    files: PodFiles
    logs: str
    write: Callable[[str, bytes], object]
    read: Callable[[str], bytes]
    links: Callable[[], dict[str, str]]
    lose: Callable[[str], object]
    nail: Callable[[str], AbstractContextManager[object]]


def on_disk(tmp_path: Path) -> Subject:
    def links() -> dict[str, str]:
        return {link.name: str(link.readlink()) for link in (tmp_path / "links").iterdir()}

    (tmp_path / "elsewhere").mkdir()
    return Subject(
        DiskPodFiles(tmp_path / "root", tmp_path / "logs", tmp_path / "links", ThreadPool("removals", 2)),
        str(tmp_path / "logs"),
        lambda path, data: Path(path).write_bytes(data),
        lambda path: Path(path).read_bytes(),
        links,
        lambda path: Path(path).unlink(missing_ok=True),
        nailed_to_the_disk,
    )


@contextmanager
def nailed_to_the_disk(path: str) -> Iterator[None]:
    """Not every file system of a test knows immutable files, so it is the call that refuses."""
    unlink = os.unlink

    def refuse(name: str | Path, *, dir_fd: int | None = None) -> None:
        if os.path.basename(name) == os.path.basename(path):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(name))
        unlink(name, dir_fd=dir_fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        yield


def in_memory(_: Path) -> Subject:
    files = MemoryPodFiles()

    @contextmanager
    def nailed(path: str) -> Iterator[None]:
        files.immutable.add(path)
        yield
        files.immutable.remove(path)

    return Subject(
        files,
        "/logs",
        files.content.__setitem__,
        lambda path: files.content[path],
        lambda: files.links,
        files.content.pop,
        nailed,
    )


@pytest.fixture(params=[on_disk, in_memory])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    made: Subject = request.param(tmp_path)
    return made


async def test_a_pods_directory_is_made_and_removed_and_twice_is_once(subject: Subject) -> None:
    files = subject.files
    await files.make_pod("u")
    await files.make_pod("u")
    await files.make_pod("v")
    assert frozenset({"u", "v"}) == await files.pods_on_disk()

    await files.remove_pod("u")
    await files.remove_pod("u")
    assert frozenset({"v"}) == await files.pods_on_disk()


async def test_the_hosts_file_says_what_was_written_last_whatever_a_container_made_of_it(subject: Subject) -> None:
    files = subject.files
    await files.make_pod("u")
    path = await files.write_hosts("u", "first\n")
    assert b"first\n" == subject.read(path)

    subject.write(path, b"\xff\xfe not text")
    assert path == await files.write_hosts("u", "second é\n")
    assert "second é\n".encode() == subject.read(path)


async def test_a_pods_users_are_kept_until_they_are_forgotten_or_its_directory_is_gone(subject: Subject) -> None:
    files = subject.files
    for uid in ("u", "v"):
        await files.make_pod(uid)
        assert b"" == files.noted(uid, Note.USER_IDS)
        files.note(uid, Note.USER_IDS, b"first")
        files.note(uid, Note.USER_IDS, b"")
        files.note(uid, Note.USER_IDS, uid.encode())
    assert [b"u", b"v"] == [files.noted(uid, Note.USER_IDS) for uid in ("u", "v")]
    assert {"u": b"u", "v": b"v"} == files.noted_of_all(Note.USER_IDS)

    files.note("u", Note.USER_IDS, b"")
    assert {"v": b"v"} == files.noted_of_all(Note.USER_IDS)
    files.forget_note("u", Note.USER_IDS)
    files.forget_note("u", Note.USER_IDS)
    await files.remove_pod("v")

    assert [b"", b""] == [files.noted(uid, Note.USER_IDS) for uid in ("u", "v")]
    assert {} == files.noted_of_all(Note.USER_IDS)


@pytest.mark.parametrize("uid", ["../../elsewhere", "..", ""])
def test_of_what_is_no_uid_nothing_was_noted_and_nothing_is_removed(uid: str, tmp_path: Path) -> None:
    """The runtime may have an orphan with any label for a UID, and its end is the end of each pod."""
    files = on_disk(tmp_path).files
    treasure = tmp_path / "elsewhere" / Note.USER_IDS.value
    treasure.write_text("gold")

    files.forget_note(uid, Note.USER_IDS)

    assert "gold" == treasure.read_text()


async def test_a_note_is_read_whole_or_refused(subject: Subject) -> None:
    files = subject.files
    await files.make_pod("u")
    large = b"x" * NOTE_BYTES_MAX
    files.note("u", Note.RESOURCES, large)

    with pytest.raises(
        OSError, match="its note 'resources' would have 8388609 bytes, more than the 8388608 that are read"
    ):
        files.note("u", Note.RESOURCES, large + b"x")
    assert large == files.noted("u", Note.RESOURCES)


async def test_of_a_termination_message_that_is_too_long_the_end_is_kept(subject: Subject) -> None:
    files = subject.files
    await files.make_pod("u")
    path = await files.termination_log("u", "c", 3)
    assert "" == await files.read_termination_log("u", "c", "3", 100)

    subject.write(path, b"why it \xffended")
    assert "why it �ended" == await files.read_termination_log("u", "c", "3", 100)
    assert "ended" == await files.read_termination_log("u", "c", "3", 5)
    assert "why it �ended" == await files.read_termination_log("u", "c", "3", 13)
    assert "" == await files.read_termination_log("u", "c", "3", 0)
    assert "" == await files.read_termination_log("u", "c", "2", 100)
    assert "" == await files.read_termination_log("v", "c", "3", 100)


async def test_a_termination_message_is_not_wiped_by_asking_for_its_file_again(subject: Subject) -> None:
    files = subject.files
    await files.make_pod("u")
    subject.write(await files.termination_log("u", "c", 0), b"said")

    await files.termination_log("u", "c", 0)

    assert "said" == await files.read_termination_log("u", "c", "0", 100)


async def test_what_a_pods_directory_held_is_gone_with_it(subject: Subject) -> None:
    files = subject.files
    await files.make_pod("u")
    subject.write(await files.termination_log("u", "c", 0), b"said")

    await files.remove_pod("u")
    await files.make_pod("u")

    assert "" == await files.read_termination_log("u", "c", "0", 100)


async def test_which_runs_left_logs_is_known_from_the_rotated_ones_too(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    assert [] == list(await files.log_attempts(directory, "c"))

    await files.make_log_directory(directory, "")
    await files.make_log_directory(directory, "c")
    await files.make_log_directory(directory, "c")
    assert [] == list(await files.log_attempts(directory, "c"))

    for name in ("2.log", "10.log.20260101-000000.gz", "9.log", "9.log.20260101-000000", "11.logs", "x", "12", "y.log"):
        subject.write(f"{directory}/c/{name}", b"")
    assert [10, 9, 2] == list(await files.log_attempts(directory, "c"))
    assert [] == list(await files.log_attempts(directory, "other"))


async def test_a_log_that_no_attempt_can_have_counts_for_none(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    for name in ("7.log", "4294967295.log", "2147483647.log", "1000000000.log.20260101-000000", f"{'9' * 200}.log"):
        subject.write(f"{directory}/c/{name}", b"")

    assert [7] == list(await files.log_attempts(directory, "c"))


async def test_newest_of_too_many_log_attempts_are_listed_first(
    subject: Subject,
) -> None:
    files, directory, over = subject.files, f"{subject.logs}/ns_p_u", 2 * LOGGED_ATTEMPTS_MAX + 5
    await files.make_log_directory(directory, "c")
    for number in range(over):
        subject.write(f"{directory}/c/{number}.log", b"")

    for first in (over, over - LOGGED_ATTEMPTS_MAX, 5):
        told = list(await files.log_attempts(directory, "c"))
        assert list(range(first))[::-1][:LOGGED_ATTEMPTS_MAX] == told
        for number in told:
            await files.remove_container_logs(f"{directory}/c/{number}.log")
    assert [] == list(await files.log_attempts(directory, "c"))


async def test_the_end_of_a_log_has_no_prefixes_and_no_more_than_was_asked_for(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    path = f"{directory}/c/0.log"
    assert "" == await files.tail_log(path, 10, 100)

    stamp = b"2026-01-01T00:00:00.000000000Z"
    lines = [
        b"%s stdout F first\n" % stamp,
        b"rubbish\n",
        b"%s stderr P half, \n" % stamp,
        b"%s stderr F whole\n" % stamp,
    ]
    subject.write(path, b"".join(lines))
    assert "first\nhalf, whole\n" == await files.tail_log(path, 10, 100)
    assert "whole\n" == await files.tail_log(path, 1, 100)
    assert "le\n" == await files.tail_log(path, 10, 3)


async def test_a_long_log_gives_its_last_lines(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    path = f"{directory}/c/0.log"
    lines = [b"2026-01-01T00:00:00.000000000Z stdout F line %d of many\n" % n for n in range(1000)]
    subject.write(path, b"".join(lines))

    told = await files.tail_log(path, 80, 2048)

    assert 80 == told.count("\n")
    assert told.startswith("line 920 of many\n")
    assert told.endswith("line 999 of many\n")


async def test_the_last_that_was_written_is_there_however_long_its_line(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    path, stamp = f"{directory}/c/0.log", b"2026-01-01T00:00:00.000000000Z"

    async def tail(*records: tuple[bytes, bytes]) -> str:
        subject.write(path, b"".join(b"%s stderr %s %s\n" % (stamp, tag, text) for tag, text in records))
        return await files.tail_log(path, 80, 2048)

    assert "y" * 2042 + " last\n" == await tail((b"F", b"early"), (b"F", b"y" * 9000 + b" last"))
    parts = [(b"P", b"z" * 16384), (b"P", b"z" * 16384), (b"F", b"z" * 100 + b"END")]
    assert "z" * 2044 + "END\n" == await tail((b"F", b"early"), *parts)
    assert "z" * 2043 + "\nend\n" == await tail((b"F", b"early"), (b"F", b"z" * 7200), (b"F", b"end"))
    # A runtime that splits no line.
    assert "x" * 2047 + "\n" == await tail((b"F", b"early"), (b"F", b"x" * 100_000))


async def test_a_carriage_return_ends_no_record(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    path = f"{directory}/c/0.log"
    subject.write(path, b"2026-01-01T00:00:00.000000000Z stderr F 10 %\r100 %\x0b\x85\rthe reason\n")

    assert "10 %\r100 %\x0b\ufffd\rthe reason\n" == await files.tail_log(path, 80, 2048)


async def test_a_log_that_was_rotated_just_now_gives_the_last_lines_before_that_too(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    path, line = f"{directory}/c/0.log", b"2026-01-01T00:00:00.000000000Z stdout F %d\n"
    subject.write(f"{path}.20260101-000000", b"".join(line % n for n in range(1000)))
    assert "998\n999\n" == await files.tail_log(path, 2, 100)

    subject.write(path, line % 1000)
    assert "999\n1000\n" == await files.tail_log(path, 2, 100)
    assert 80 == (await files.tail_log(path, 80, 2048)).count("\n")

    subject.write(f"{path}.20260101-000001.gz", b"compressed")  # by somebody else: what lies between is not known
    assert "1000\n" == await files.tail_log(path, 2, 100)


@pytest.mark.timeout(60)  # for who waits in ``open`` for a pipe that nobody writes to
async def test_a_pipe_in_place_of_a_log_or_of_a_part_of_it_is_not_waited_for(tmp_path: Path) -> None:
    subject = on_disk(tmp_path)
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    path = f"{directory}/c/0.log"
    os.mkfifo(f"{path}.20260101-000000")
    subject.write(path, b"2026-01-01T00:00:00.000000000Z stdout F said\n")
    assert "said\n" == await files.tail_log(path, 10, 100)

    os.unlink(path)
    os.mkfifo(path)
    assert "" == await files.tail_log(path, 10, 100)


@pytest.mark.timeout(60)  # for who waits in ``open`` for a pipe that nobody writes to
async def test_a_pipe_in_place_of_a_termination_message_is_not_waited_for(tmp_path: Path) -> None:
    files = on_disk(tmp_path).files
    path = await files.termination_log("u", "c", 0)
    os.unlink(path)
    os.mkfifo(path)
    assert "" == await files.read_termination_log("u", "c", "0", 100)


async def test_a_log_is_linked_and_a_link_of_an_earlier_life_replaced(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    await files.link_log("p_ns_c-id.log", f"{directory}/c/0.log")
    await files.link_log("p_ns_c-id.log", f"{directory}/c/0.log")
    await files.link_log("p_ns_c-id.log", f"{directory}/c/1.log")

    assert {"p_ns_c-id.log": f"{directory}/c/1.log"} == subject.links()


async def test_dead_links_are_removed_except_those_of_existing_containers(subject: Subject) -> None:
    files = subject.files
    directory = f"{subject.logs}/ns_p_u1"
    await files.make_log_directory(directory, "c")
    subject.write(f"{directory}/c/0.log", b"")
    for log, container_id in (("0", "read"), ("1", "rotating"), ("2", "gone")):
        await files.link_log(f"p_ns_c-{container_id}.log", f"{directory}/c/{log}.log")
    for log in ("1", "2"):
        subject.lose(f"{directory}/c/{log}.log")
    await files.remove_dead_links({"rotating"})
    assert {"p_ns_c-read.log", "p_ns_c-rotating.log"} == subject.links().keys()


async def test_a_containers_logs_go_with_their_rotated_parts_and_links(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    for name in ("1.log", "1.log.20260101-000000", "11.log"):
        subject.write(f"{directory}/c/{name}", b"")
    await files.link_log("one.log", f"{directory}/c/1.log")
    await files.link_log("eleven.log", f"{directory}/c/11.log")

    await files.remove_container_logs(f"{directory}/c/11.log")
    await files.remove_container_logs(f"{directory}/c/11.log")

    assert [1] == list(await files.log_attempts(directory, "c"))
    assert {"one.log": f"{directory}/c/1.log"} == subject.links()


async def test_a_name_of_a_log_is_no_pattern(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_log_directory(directory, "c")
    for name in ("[12].log", "[12].log.20260101-000000", "1.log.20260101-000000"):
        subject.write(f"{directory}/c/{name}", b"said")

    await files.remove_container_logs(f"{directory}/c/[12].log")

    assert b"said" == subject.read(f"{directory}/c/1.log.20260101-000000")
    for name in ("[12].log", "[12].log.20260101-000000"):
        with pytest.raises(LookupError if subject.logs == "/logs" else FileNotFoundError):
            subject.read(f"{directory}/c/{name}")


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param("{beside}/elsewhere/0.log", id="somewhere else"),
        pytest.param("{logs}/../elsewhere/0.log", id="up from the logs"),
        pytest.param("{logs}/ns_p_u/c/../../../elsewhere/0.log", id="up from a container's"),
        pytest.param("{logs}/0.log", id="in no pod's directory"),
    ],
)
async def test_a_log_that_is_not_among_the_pods_logs_is_left_alone_with_its_links(
    reported: str, subject: Subject
) -> None:
    files = subject.files
    await files.make_log_directory(f"{subject.logs}/ns_p_u", "c")
    path = reported.format(logs=subject.logs, beside=subject.logs.removesuffix("/logs"))
    parts = (path, f"{path}.20260101-000000")
    for part in parts:
        subject.write(part, b"precious")
    await files.link_log("a.log", path)

    await files.remove_container_logs(path)

    assert [b"precious"] * 2 == [subject.read(part) for part in parts]
    assert {"a.log": path} == subject.links()


async def test_logs_of_a_pod_are_removed_with_the_links_into_them_only(subject: Subject) -> None:
    files = subject.files
    for uid in ("u", "u2"):
        await files.make_log_directory(f"{subject.logs}/ns_p_{uid}", "c")
        subject.write(f"{subject.logs}/ns_p_{uid}/c/0.log", b"")
        await files.link_log(f"{uid}.log", f"{subject.logs}/ns_p_{uid}/c/0.log")
    assert frozenset({"ns_p_u", "ns_p_u2"}) == await files.log_directories()

    await files.remove_log_directory("ns_p_u")
    await files.remove_log_directory("ns_p_u")

    assert frozenset({"ns_p_u2"}) == await files.log_directories()
    assert {"u2.log": f"{subject.logs}/ns_p_u2/c/0.log"} == subject.links()
    assert [0] == list(await files.log_attempts(f"{subject.logs}/ns_p_u2", "c"))


async def test_what_cannot_be_removed_is_said_and_removed_when_it_can(subject: Subject) -> None:
    files, directory = subject.files, f"{subject.logs}/ns_p_u"
    await files.make_pod("u")
    message = await files.termination_log("u", "c", 0)
    await files.make_log_directory(directory, "c")
    log = f"{directory}/c/0.log"
    subject.write(log, b"")

    for path, remove, name in (
        (message, files.remove_pod, "u"),
        (log, files.remove_container_logs, log),
        (log, files.remove_log_directory, "ns_p_u"),
    ):
        with subject.nail(path), pytest.raises(PermissionError):
            await remove(name)
    assert ({"u"}, {"ns_p_u"}) == (await files.pods_on_disk(), await files.log_directories())

    await files.remove_pod("u")
    await files.remove_log_directory("ns_p_u")
    assert not (await files.pods_on_disk() | await files.log_directories())


async def test_note_of_all_pods_is_kept_whole(subject: Subject) -> None:
    files = subject.files
    assert b"" == files.node_note(NodeNote.ALLOCATED)
    await files.keep_node_note(NodeNote.ALLOCATED, b"one")
    await files.keep_node_note(NodeNote.ALLOCATED, b"two")
    assert (b"two", b"") == (files.node_note(NodeNote.ALLOCATED), files.node_note(NodeNote.ACTUATED))
