"""Bad commands, full disks, lost clients: each costs what it concerns, never the runtime."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from shell.embedded.embeddedkit import POLL_SECONDS, WAIT_SECONDS_MAX, running
from trikubelet.embedded.link import Isolation, KeeperLink
from trikubelet.embedded.log import ContainerLog
from trikubelet.host.clock import SystemClock
from trikubelet.model.runtime import ContainerState
from trikubelet.model.runtime_config import ContainerConfig
from trikubelet.model.runtime_errors import InvalidArgument, NotFound, RuntimeFailure, RuntimeTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from shell.embedded.embeddedkit import Embedded

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Embedded]:
    """A runtime in this process."""
    async with running(tmp_path) as found:
        yield found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("no-such-program",), "no-such-program: executable file not found"),
        (("/no/such/program",), "/no/such/program: no such file"),
        (("/etc/passwd",), "/etc/passwd: Permission denied"),
        (("/tmp",), "/tmp: Permission denied"),
        (("", "-c"), "^(container .*: )?the command is empty$"),
    ],
    ids=["not in PATH", "no file", "no program", "directory", "nothing"],
)
async def test_a_command_that_cannot_run_says_why(embedded: Embedded, command: tuple[str, ...], message: str) -> None:
    container_id = await embedded.create(command)

    with pytest.raises(RuntimeFailure, match=message):
        await embedded.runtime.start_container(container_id)

    status = (await embedded.runtime.container_status(container_id)).decode()
    assert (ContainerState.EXITED, 128, "StartError") == (status.state, status.exit_code, status.reason)
    assert re.search(message, status.message)


async def test_a_working_directory_that_is_not_there_says_so(embedded: Embedded) -> None:
    container_id = await embedded.create(("true",), working_dir="/no/such/directory")

    with pytest.raises(RuntimeFailure, match="working directory /no/such/directory: No such file"):
        await embedded.runtime.start_container(container_id)


async def test_an_image_says_what_runs_here_and_where_others_run(embedded: Embedded) -> None:
    with pytest.raises(NotFound, match=r'write image "host".*--container-runtime-endpoint=unix://'):
        await embedded.images.pull_image("nginx:1.28")
    sandbox_id = await embedded.runtime.run_sandbox(embedded.sandbox)
    with pytest.raises(InvalidArgument, match=r'write image "host"'):
        await embedded.runtime.create_container(
            sandbox_id, ContainerConfig("c", 0, "nginx:1.28", command=("true",)), embedded.sandbox
        )


async def test_a_command_that_takes_too_long_is_killed_with_its_children(embedded: Embedded, tmp_path: Path) -> None:
    container_id = await embedded.start("while :; do sleep 1; done")

    with pytest.raises(RuntimeTimeout, match="longer than 1 s"):
        await embedded.runtime.exec_sync(container_id, ["sh", "-c", f"sleep 7272 | cat > {tmp_path}/x; true"], 1)

    listing = await embedded.runtime.exec_sync(container_id, ["ps", "ax"], 0)
    assert b"sleep 7272" not in listing.stdout


async def test_command_is_killed_when_its_caller_leaves(embedded: Embedded, tmp_path: Path) -> None:
    container_id = await embedded.start("while :; do sleep 1; done")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            embedded.runtime.exec_sync, container_id, ["sh", "-c", f"touch {tmp_path}/up; exec sleep 7171"], 0
        )
        with trio.fail_after(WAIT_SECONDS_MAX):
            while not (tmp_path / "up").exists():  # noqa: ASYNC110 - a file has no event
                await trio.sleep(POLL_SECONDS)
        nursery.cancel_scope.cancel()

    with trio.fail_after(WAIT_SECONDS_MAX):
        while b"sleep 7171" in (await embedded.runtime.exec_sync(container_id, ["ps", "ax"], 0)).stdout:  # noqa: ASYNC110 - nor has ps
            await trio.sleep(POLL_SECONDS)


async def test_a_full_disk_costs_lines_and_not_the_container(
    embedded: Embedded, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embedded.logs.rmdir()
    embedded.logs.symlink_to(small_disk)
    go_on = small_disk.parent / "go-on"
    script = f"yes 0123456789 | head -100000; while ! test -e {go_on}; do sleep 0.05; done"
    container_id = await embedded.start(script)
    with trio.fail_after(WAIT_SECONDS_MAX):
        while "dropping lines" not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await trio.sleep(POLL_SECONDS)
    neighbour = await embedded.start("exit 4", "neighbour")
    assert 4 == (await embedded.exited(neighbour)).exit_code

    go_on.touch()

    assert 0 == (await embedded.exited(container_id)).exit_code
    assert {"0123456789"} == set(embedded.output())


def test_no_half_line_is_left_when_the_disk_is_full_and_lines_go_on_when_it_is_not(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (small_disk / "filler").write_bytes(b"x" * 60 * 1024)
    log = ContainerLog(str(small_disk / "log"), SystemClock())

    for _ in range(20):
        log.feed("stdout", b"y" * 1000 + b"\n")
    assert 0 < log.lines_dropped
    (small_disk / "filler").unlink()
    log.feed("stdout", b"after\n")
    log.close()

    lines = (small_disk / "log").read_text().splitlines()
    assert lines[-1].endswith(" stdout F after")
    assert 20 - log.lines_dropped + 1 == len(lines)
    assert all(len(line.split(" ", 3)[3]) == 1000 for line in lines[:-1])
    assert 1 == len(caplog.records)


def test_a_pipe_in_place_of_a_log_is_not_waited_for_and_its_reader_gets_nothing(tmp_path: Path) -> None:
    """The logs' directory may be mounted into a container; all containers' output goes through this one process."""
    log = ContainerLog(str(tmp_path / "log"), SystemClock())
    (tmp_path / "log").rename(tmp_path / "log.1")
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match="No such device"):
        log.reopen()
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        log.reopen()
    os.close(reader)
    log.feed("stdout", b"goes on\n")
    log.close()

    assert (tmp_path / "log.1").read_text().endswith(" stdout F goes on\n")


async def test_what_was_written_is_in_the_log_when_the_container_has_exited(embedded: Embedded) -> None:
    container_id = await embedded.start("seq 1 50000")

    await embedded.exited(container_id)

    assert [str(number) for number in range(1, 50001)] == embedded.output()


async def test_events_report_a_containers_life(embedded: Embedded) -> None:
    async with embedded.runtime.events() as events:
        sandbox_id = await embedded.runtime.run_sandbox(embedded.sandbox)
        embedded.sandbox_id = sandbox_id
        container_id = await embedded.start("true")
        seen = []
        with trio.fail_after(WAIT_SECONDS_MAX):
            async for event in events:
                seen.append((event.kind, event.container_id, event.pod_uid))
                if seen[-1] == (2, container_id, "uid-1"):
                    break

    assert [(0, container_id, "uid-1"), (1, container_id, "uid-1"), (2, container_id, "uid-1")] == [
        event for event in seen if event[1] == container_id
    ]


async def test_a_machine_without_mount_namespaces_is_reported_with_what_pods_cannot_do_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        KeeperLink, "isolation", property(lambda _: Isolation("none", "why not"), lambda *_: None), raising=False
    )
    async with running(tmp_path):
        pass

    (said,) = (one.getMessage() for one in caplog.records if one.getMessage().startswith("embedded runtime: "))
    assert said.startswith("embedded runtime: pods with volumes cannot start, because no mounts are possible: why not")
    assert "start the agent as root" in said
