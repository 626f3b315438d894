"""The node's own logs as files of a directory, with real programs to filter them and a pretended journal."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shell.leasekit import leased
from shell.processkit import lives
from shell.threadkit import AtOnce, Hanging, no_threads
from trikubelet.httpd.messages import Request, Response
from trikubelet.kit import process_start
from trikubelet.kit.disk_steps import DiskUnavailable
from trikubelet.kit.process_start import START_SECONDS_MAX, STARTS, ProgramStarts
from trikubelet.server.node_log_files import FileText
from trikubelet.server.node_logs import PLACE_SECONDS_MAX, RUNNING_MAX, SECONDS_MAX, NodeLogs, ProgramText

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trio.testing import MockClock

    from trikubelet.kit.process_start import StartedProcess


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory, and a journalctl that knows the service ``known`` and says what it was asked."""
    programs = tmp_path / "bin"
    programs.mkdir()
    journal = programs / "journalctl"
    journal.write_text('#!/bin/sh\ncase "$*" in *--unit=known*) echo "asked: $*";; *) echo "-- No entries --";; esac\n')
    journal.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    made = tmp_path / "log"
    (made / "apt").mkdir(parents=True)
    (made / "syslog").write_text("one\ntwo\nthree\n")
    (made / "apt/term.log").write_text("apt\n")
    (made / "filed.log").write_text("a file's\n")
    (tmp_path / "secret").write_text("secret\n")
    (made / "out").symlink_to("../secret")
    (made / "absolute").symlink_to(tmp_path / "secret")
    (made / "inside").symlink_to("apt/term.log")
    os.mkfifo(made / "pipe")
    return made


async def test_a_name_that_is_no_utf_8_hides_no_others(root: Path) -> None:
    (root / os.fsdecode(b"apt/\xff\xfe.log")).touch()

    status, text = await asked(root, "apt")

    assert (200, True, True) == (status, 'href="term.log"' in text, 'href="%FF%FE.log"' in text)


async def asked(root: Path, path: str = "", *, queries: bool = True, **query: Any) -> tuple[int, str]:
    """Status and text."""
    values = {name: value if isinstance(value, tuple) else (value,) for name, value in query.items()}
    request = Request("GET", f"/logs/{path}", {name: some[0] for name, some in values.items()}, repeated=values)
    answer = await NodeLogs(queries=queries, root=root).answer(request, path)
    if isinstance(answer.body, bytes):
        return answer.status, answer.body.decode(errors="replace")
    text = b"".join([block async for block in answer.body])
    await answer.body.aclose()  # type: ignore[attr-defined]  # what the server does, where there is one
    return answer.status, text.decode()


@pytest.mark.parametrize(
    ("status", "text", "path"),
    [
        (200, "one\ntwo\nthree\n", "syslog"),
        (200, "apt\n", "apt/term.log"),
        (200, "apt\n", "inside"),
        (200, '<pre>\n<a href="term.log">term.log</a>\n</pre>\n', "apt"),
        (404, "404 page not found", "nothing"),
        (403, "leads out of {}", "out"),
        (403, "leads out of {}", "../secret"),
        (403, "a link to an absolute path leads out of {}", "absolute"),
        (403, "not a regular file", "pipe"),
    ],
)
async def test_a_path_is_a_file_below_the_directory_and_nothing_leads_out(
    root: Path, status: int, text: str, path: str
) -> None:
    assert (status, text.format(root)) == await asked(root, path)


async def test_the_directory_is_listed(root: Path) -> None:
    status, text = await asked(root)

    assert 200 == status
    assert {'<a href="apt/">apt/</a>', '<a href="syslog">syslog</a>'} <= set(text.split("\n"))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("one\ntwo\nthree\n", {}),
        ("three\n", {"tailLines": "1"}),
        ("two\nthree\n", {"pattern": "^t"}),
        ("three\n", {"pattern": "^t", "tailLines": "1"}),
        ("", {"pattern": "four"}),
    ],
)
async def test_a_file_is_filtered_as_asked(root: Path, text: str, query: dict[str, str]) -> None:
    assert (200, text) == await asked(root, query="/syslog", **query)


async def test_a_services_journal_is_asked(root: Path) -> None:
    status, text = await asked(root, query=("known", "other"), tailLines="5")

    assert (200, True) == (status, "--unit=known --unit=other --lines=5" in text)


async def test_a_service_without_a_journal_is_looked_for_as_a_file(root: Path) -> None:
    assert (200, "a file's\n") == await asked(root, query="filed")
    assert (404, "404 page not found") == await asked(root, query="nobody")


async def test_without_journalctl_files_are_left(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root.parent / "bin/journalctl").unlink()
    monkeypatch.setenv("PATH", str(root.parent / "bin"))

    assert (200, "a file's\n") == await asked(root, query="filed")


async def test_a_query_that_is_wrong_is_refused_and_where_they_are_off_all_are(root: Path) -> None:
    assert 400 == (await asked(root, query="--help"))[0]
    assert 400 == (await asked(root, pattern="x"))[0]
    assert (403, "one\ntwo\nthree\n") == (
        (await asked(root, queries=False, query="known"))[0],
        (await asked(root, "syslog", queries=False))[1],
    )
    assert (403, True) == (
        (refused := await asked(root, "../secret", query="/../secret"))[0],
        "leads out" in refused[1],
    )


async def test_a_query_that_is_given_up_before_the_journal_says_anything_ends_it_and_gives_its_place_back(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("begun", "never"):
        os.mkfifo(tmp_path / name)
    script = f"#!/bin/sh\necho > {tmp_path}/begun\nread nothing < {tmp_path}/never\n"
    (tmp_path / "bin/journalctl").write_text(script)
    begun: list[StartedProcess] = []
    is_known, at_once = trio.Event(), STARTS.start

    async def start(command: Sequence[str], **more: Any) -> StartedProcess:
        begun.append(await at_once(command, **more))
        is_known.set()
        return begun[-1]

    monkeypatch.setattr(STARTS, "start", start)
    logs = NodeLogs(queries=True, root=root)
    query = {"query": "known"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.answer, Request("GET", "/logs/", query, repeated={"query": ("known",)}))
        await trio.to_thread.run_sync((tmp_path / "begun").read_text)
        await is_known.wait()  # it may have said so before the thread that started it has
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert begun[0].returncode is not None
    assert 0 == logs._running.borrowed_tokens


async def test_a_query_that_is_given_up_ends_what_its_time_limit_has_just_started(root: Path, tmp_path: Path) -> None:
    """timeout(1) passes a signal on only once it knows its child, which may have run for a while by then."""
    for name in ("begun", "never"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "bin/timeout").write_text('#!/bin/sh\nshift\n"$@" &\nwait\n')
    (tmp_path / "bin/timeout").chmod(0o755)
    (tmp_path / "bin/journalctl").write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/begun\nread nothing < {tmp_path}/never\n"
    )
    logs = NodeLogs(queries=True, root=root)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.answer, Request("GET", "/logs/", {"query": "known"}, repeated={"query": ("known",)}))
        pid = int(await trio.to_thread.run_sync((tmp_path / "begun").read_text))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    with trio.fail_after(60):
        while lives(pid):  # noqa: ASYNC110 - nobody says that somebody else's process has ended
            await trio.sleep(0.01)


@pytest.mark.parametrize(
    ("path", "query"), [("syslog", {}), ("", {"query": "/syslog"}), ("", {"query": "/syslog", "tailLines": "1"})]
)
async def test_a_file_on_which_a_pod_has_a_lease_is_not_waited_for(
    root: Path, path: str, query: dict[str, str]
) -> None:
    with leased(str(root / "syslog")):
        assert (403, os.strerror(errno.EAGAIN)) == await asked(root, path, **query)


async def test_the_program_that_filters_a_file_may_wait_for_what_it_reads(root: Path) -> None:
    tail = root.parent / "bin/tail"
    tail.write_text("#!/bin/sh\ngrep flags /proc/self/fdinfo/0\n")
    tail.chmod(0o755)

    status, said = await asked(root, query="/syslog", tailLines="1")

    assert (200, 0) == (status, int(said.split()[1], 8) & os.O_NONBLOCK)


@pytest.mark.parametrize(
    ("path", "query"), [("", {}), ("apt/term.log", {}), ("", {"query": "/apt/term.log", "tailLines": "1"})]
)
async def test_a_disk_that_does_not_answer_is_what_is_answered(
    root: Path, autojump_clock: MockClock, path: str, query: dict[str, str]
) -> None:
    threads = AtOnce()
    threads.hangs = True
    request = Request("GET", "/logs/", query, repeated={name: (value,) for name, value in query.items()})

    answer = await NodeLogs(queries=True, root=root, threads=threads).answer(request, path)

    hangs = root / "apt" if path or query else root
    assert (500, f"{hangs}: the disk did not answer within 10 s".encode()) == (answer.status, answer.body)


async def test_a_disk_that_cannot_be_asked_for_want_of_threads_is_no_refusal(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_threads(monkeypatch)
    assert (500, f"{root}/syslog: cannot start a thread") == await asked(root, "syslog")


async def test_a_program_that_cannot_be_started_is_what_is_answered_and_gives_its_place_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    def popen(*_: object, **__: object) -> None:
        hanging()
        raise OSError(errno.ENOEXEC, "let go")

    hanging, logs = Hanging(), NodeLogs(queries=True, root=root)
    monkeypatch.setattr(process_start, "STARTS", ProgramStarts())
    monkeypatch.setattr("subprocess.Popen", popen)
    request = Request("GET", "/logs/", {"query": "known"}, repeated={"query": ("known",)})
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await logs.answer(request))

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.to_thread.run_sync(hanging.began.wait)
            await wait_all_tasks_blocked()
            mock_clock.jump(START_SECONDS_MAX)
    finally:
        hanging.let_go.set()

    why = b"timeout: not started within 5 s: the machine is slow, or a file that is read cannot be closed"
    assert [(500, why)] == [(answer.status, answer.body) for answer in answers]
    assert 0 == logs._running.borrowed_tokens


async def test_slow_reader_of_a_query_does_not_block_others(root: Path, mock_clock: MockClock) -> None:
    logs = NodeLogs(queries=True, root=root, threads=AtOnce())
    request = Request("GET", "/logs/", {"query": "/syslog", "pattern": "."}, repeated={"query": ("/syslog",)})
    unread = [await logs.answer(request) for _ in range(RUNNING_MAX)]
    assert RUNNING_MAX == logs._running.borrowed_tokens
    late: list[Response] = []

    async def ask() -> None:
        late.append(await logs.answer(request))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        mock_clock.jump(SECONDS_MAX)
    why = f"{RUNNING_MAX} queries of this node's logs are running already (try again later)".encode()
    assert [(503, why)] == [(answer.status, answer.body) for answer in late]

    mock_clock.jump(PLACE_SECONDS_MAX)
    await wait_all_tasks_blocked()
    assert 0 == logs._running.borrowed_tokens
    for answer in [*unread, await logs.answer(request)]:
        assert isinstance(answer.body, ProgramText)
        assert b"one\ntwo\nthree\n" == b"".join([block async for block in answer.body])
        await answer.body.aclose()
    assert 0 == logs._running.borrowed_tokens


async def test_file_with_a_later_hanging_disk_breaks_off_and_is_closed(root: Path, autojump_clock: MockClock) -> None:
    threads = AtOnce()
    answer = await NodeLogs(queries=False, root=root, threads=threads).answer(Request("GET", "/logs/syslog"), "syslog")
    text = answer.body
    assert isinstance(text, FileText)
    assert b"one\ntwo\nthree\n" == await anext(text)
    threads.hangs = True

    with pytest.raises(DiskUnavailable, match="did not answer within 10 s"):
        await anext(text)
    await text.aclose()

    assert text._file.closed
