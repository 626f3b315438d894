"""What the embedded runtime remembers of sandboxes and containers when it starts again, and what it does not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from shell.embedded import embeddedkit
from shell.embedded.embeddedkit import SERVE, Embedded, gone
from trikubelet.core.relist import Relist
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.embedded import disk_records, pods, runtime
from trikubelet.embedded.link import Command
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.model.runtime_errors import NotFound, ResourceExhausted, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from trikubelet.core.relist import PodRecord
    from trikubelet.cri.v1 import api_pb2 as pb

pytestmark = pytest.mark.timeout(180)  # more than the deadlines within

FOREVER = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"
FAILING = FOREVER.replace("exit 0", "exit 7")
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"


@asynccontextmanager
async def running(place: Path, stopping: trio.Event | None = None) -> AsyncIterator[Embedded]:
    """A runtime for the length of the block, whose sandbox has the label by which an agent knows its pod."""
    async with embeddedkit.running(place, stopping) as embedded:
        embedded.sandbox = replace(embedded.sandbox, labels={"io.kubernetes.pod.uid": "uid-1"})
        yield embedded


def records(place: Path) -> list[Path]:
    """The files of containers that may have run."""
    return [path for path in sorted(place.glob("state/sandboxes/*/*.json")) if path.name != "sandbox.json"]


async def pod_of(embedded: Embedded) -> PodRecord | None:
    """Return the one pod in an agent's first relist."""
    relist = Relist()
    sandboxes = await embedded.runtime.list_sandboxes("uid-1")
    relist.observe_pod("uid-1", sandboxes, await embedded.runtime.list_containers("uid-1"))
    return relist.pod("uid-1")


async def test_ended_containers_are_remembered_with_everything_that_was_shown_of_them(tmp_path: Path) -> None:
    labels = {"io.kubernetes.pod.uid": "uid-1", "io.kubernetes.container.name": "main"}
    annotations = {"io.kubernetes.container.hash": "abc", "io.kubernetes.container.restartCount": "0"}
    async with running(tmp_path) as embedded:
        id_ = await embedded.start("echo said; exit 3", labels=labels, annotations=annotations)
        before = await embedded.exited(id_)
        sandbox = (await embedded.runtime.sandbox_status(embedded.sandbox_id)).decode()
    async with running(tmp_path) as embedded:
        assert before == (await embedded.runtime.container_status(id_)).decode()
        after = (await embedded.runtime.sandbox_status(sandbox.id)).decode()
        record = await pod_of(embedded)

    assert (3, "Error") == (before.exit_code, before.reason)
    assert SandboxState.NOTREADY is after.state
    assert (sandbox.uid, sandbox.name, sandbox.namespace) == (after.uid, after.name, after.namespace)
    assert (sandbox.created_at, sandbox.attempt) == (after.created_at, after.attempt)
    assert record is not None
    assert ["main"] == [one.name for one in record.containers]


async def test_secrets_in_the_environment_are_not_recorded(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        await embedded.exited(await embedded.start("true", envs=(("PASSWORD", "s3cr3t"),)))
    (record,) = records(tmp_path)

    assert "s3cr3t" not in record.read_text()
    assert 0o600 == record.stat().st_mode & 0o777


@pytest.mark.parametrize(("script", "code", "seconds_max"), [(FOREVER, 143, 60), (FAILING, 7, 60), (STUBBORN, 137, 1)])
async def test_the_end_of_a_container_that_the_runtime_itself_ends_is_recorded(
    script: str, code: int, seconds_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a shell needs more than the runtime's own two seconds for its trap, and the disk for the record.
    monkeypatch.setattr(runtime, "FAREWELL_SECONDS_MAX", seconds_max)
    monkeypatch.setattr(runtime, "RECORDING_SECONDS_MAX", 60)
    async with running(tmp_path) as embedded:
        id_ = await embedded.start(script)
        await embedded.wrote("up")
    async with running(tmp_path) as embedded:
        status = (await embedded.runtime.container_status(id_)).decode()

    assert (ContainerState.EXITED, code, "AgentStopped") == (status.state, status.exit_code, status.reason)


async def test_a_container_that_a_hook_ends_while_the_agent_stops_has_not_completed(tmp_path: Path) -> None:
    told, stopping = tmp_path / "told", trio.Event()
    async with running(tmp_path, stopping) as embedded:
        id_ = await embedded.start(f"echo up; while [ ! -e {told} ]; do sleep 0.05; done")
        await embedded.wrote("up")
        stopping.set()
        told.touch()
        ended = await embedded.exited(id_)

    assert (143, "AgentStopped") == (ended.exit_code, ended.reason)


async def test_a_container_that_ended_before_the_agent_stops_has_completed_though_its_output_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, stopping = trio.Event(), trio.Event()
    wait = Command.ended

    async def notes_the_end(self: Command) -> int:
        code = await wait(self)
        ended.set()
        return code

    async def stops_the_agent(*_: object) -> None:
        await ended.wait()
        stopping.set()
        await trio.sleep_forever()  # until the runtime stops reading

    monkeypatch.setattr(Command, "ended", notes_the_end)
    monkeypatch.setattr(pods, "_pump", stops_the_agent)
    async with running(tmp_path, stopping) as embedded:
        id_ = await embedded.start("exit 0")
        await stopping.wait()
        await embedded.runtime.stop_container(id_, 60)
        status = await embedded.exited(id_)

    assert (0, "Completed") == (status.exit_code, status.reason)


async def test_a_container_of_a_killed_agent_counts_as_killed_at_the_same_time_after_each_restart(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, stopping = disk_records.DiskRecords.keep_container, trio.Event()

    async def keep_late(records: disk_records.DiskRecords, sandbox_id: str, status: pb.ContainerStatus) -> None:
        await stopping.wait()
        await keep(records, sandbox_id, status)

    (place / "logs").mkdir()
    command = [sys.executable, "-c", SERVE, f"{place}/cri.sock", f"{place}/state"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as agent:  # noqa: ASYNC220 - a test's set-up
        assert agent.stdout is not None
        assert b"ready\n" == agent.stdout.readline()
        async with open_channel(f"unix://{place}/cri.sock") as channel:
            embedded = Embedded(CriRuntime(channel), CriImages(channel), place / "logs", agent.pid)
            id_ = await embedded.start(FOREVER)
            await embedded.wrote("up")
            began = (await embedded.runtime.container_status(id_)).decode().started_at
        agent.kill()
    await gone(str(place))
    monkeypatch.setattr(disk_records.DiskRecords, "keep_container", keep_late)
    found = []
    for _ in range(2):
        async with running(place, stopping) as embedded:
            found.append((await embedded.runtime.container_status(id_)).decode())

    assert found[0] == found[1]
    assert (ContainerState.EXITED, 137, "ContainerStatusUnknown") == (
        found[0].state,
        found[0].exit_code,
        found[0].reason,
    )
    assert 0 < found[0].started_at <= began < found[0].finished_at


async def test_a_container_that_never_started_is_not_remembered(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        id_ = await embedded.create(("true",))
    async with running(tmp_path) as embedded:
        with pytest.raises(NotFound):
            await embedded.runtime.container_status(id_)


async def test_a_container_that_could_not_be_executed_is_remembered(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        id_ = await embedded.create(("/no/such/program",))
        with pytest.raises(RuntimeFailure):
            await embedded.runtime.start_container(id_)
    async with running(tmp_path) as embedded:
        status = (await embedded.runtime.container_status(id_)).decode()

    assert (128, "StartError") == (status.exit_code, status.reason)


async def test_removed_containers_and_sandboxes_are_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        first, second = [await embedded.start("true", name) for name in ("first", "second")]
        await embedded.exited(first)
        await embedded.exited(second)
        await embedded.runtime.remove_container(first)
    assert [f"{second}.json"] == [path.name for path in records(tmp_path)]

    async with running(tmp_path) as embedded:
        with pytest.raises(NotFound):
            await embedded.runtime.container_status(first)
        record = await pod_of(embedded)
        assert record is not None
        await embedded.runtime.remove_sandbox(record.sandboxes[0].id)
        assert await pod_of(embedded) is None
    assert [] == list((tmp_path / "state/sandboxes").iterdir())


async def test_a_container_that_is_removed_as_it_ends_leaves_no_record(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        for number in range(20):
            await embedded.runtime.remove_container(await embedded.start(FOREVER, f"c{number}"))
        await embedded.runtime.remove_sandbox(embedded.sandbox_id)

    assert [] == list((tmp_path / "state/sandboxes").iterdir())


async def test_a_remembered_sandbox_keeps_its_name_and_a_new_attempt_runs_beside_it(tmp_path: Path) -> None:
    async with running(tmp_path) as embedded:
        await embedded.exited(await embedded.start("true"))
    async with running(tmp_path) as embedded:
        with pytest.raises(RuntimeFailure, match="is reserved for"):
            await embedded.runtime.run_sandbox(embedded.sandbox)
        embedded.sandbox = replace(embedded.sandbox, attempt=1)
        await embedded.exited(await embedded.start("true"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def anothers(path: Path) -> None:
    path.write_text(path.read_text().replace(path.name.removesuffix(".json"), "f" * 64))


def binary(path: Path) -> None:
    path.write_bytes(os.urandom(500))


def nested(path: Path) -> None:
    path.write_text("[" * 100_000)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("damage", [cut, emptied, anothers, binary, nested, directory, pipe, endless])
async def test_a_damaged_record_is_reported_and_costs_only_its_container(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as embedded:
        ids = [await embedded.start("true", name) for name in ("bad", "good")]
        for id_ in ids:
            await embedded.exited(id_)
    (bad,) = (path for path in records(tmp_path) if path.name == f"{ids[0]}.json")
    damage(bad)
    async with running(tmp_path) as embedded:
        with pytest.raises(NotFound):
            await embedded.runtime.container_status(ids[0])
        assert ContainerState.EXITED is (await embedded.runtime.container_status(ids[1])).decode().state
    assert [f"Cannot read the record {bad}"] == [m.partition(": ")[0] for m in caplog.messages if "record" in m]


async def test_a_damaged_record_of_a_sandbox_costs_only_that_pod(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as embedded:
        await embedded.exited(await embedded.start("true"))
    (tmp_path / f"state/sandboxes/{embedded.sandbox_id}/sandbox.json").write_text("{}")
    (tmp_path / "state/sandboxes/.hidden").touch()
    (tmp_path / "state/sandboxes/strange").touch()
    async with running(tmp_path) as embedded:
        assert await pod_of(embedded) is None
        await embedded.exited(await embedded.start("true"))
    assert 2 == sum(message.startswith("Cannot read the record") for message in caplog.messages)


async def test_what_a_killed_writer_left_is_no_record_and_goes_with_its_sandbox(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as embedded:
        id_ = await embedded.start("true")
        await embedded.exited(id_)
    (record,) = records(tmp_path)
    record.with_name(f".{record.name}.new").write_text("{")
    async with running(tmp_path) as embedded:
        await embedded.runtime.container_status(id_)
        await embedded.runtime.remove_sandbox(record.parent.name)
    assert [] == list((tmp_path / "state/sandboxes").iterdir())
    assert [] == [message for message in caplog.messages if "record" in message]


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For the length of the block nothing more can be recorded."""

    def fails(path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(disk_records, "write_privately", fails)
        yield


async def test_container_without_a_recorded_start_does_not_run_and_can_be_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as embedded:
        id_ = await embedded.create(("sh", "-c", "echo ran"))
        with full_disk(monkeypatch), pytest.raises(RuntimeFailure, match=r"cannot change the record .*No space left"):
            await embedded.runtime.start_container(id_)
        assert ContainerState.CREATED is (await embedded.runtime.container_status(id_)).decode().state
        assert [] == embedded.output()
        await embedded.runtime.start_container(id_)
        await embedded.exited(id_)
        assert ["ran"] == embedded.output()


async def test_a_sandbox_that_cannot_be_recorded_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as embedded:
        with full_disk(monkeypatch), pytest.raises(RuntimeFailure, match="No space left"):
            await embedded.create(("true",))
        await embedded.create(("true",))  # its name is free again


async def test_an_end_that_cannot_be_recorded_is_logged_and_the_container_has_ended_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as embedded:
        id_ = await embedded.start(FOREVER)
        await embedded.wrote("up")
        with full_disk(monkeypatch):
            await embedded.runtime.stop_container(id_, 60)
            assert 0 == (await embedded.exited(id_)).exit_code
            with trio.fail_after(60):
                while not any("is unknown to the next agent" in message for message in caplog.messages):  # noqa: ASYNC110
                    await trio.sleep(0.02)
    async with running(tmp_path) as embedded:
        assert 137 == (await embedded.runtime.container_status(id_)).decode().exit_code


async def test_more_sandboxes_and_containers_than_are_remembered_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trikubelet.embedded.pods.SANDBOXES_MAX", 2)
    monkeypatch.setattr("trikubelet.embedded.pods.CONTAINERS_MAX", 2)
    async with running(tmp_path) as embedded:
        for number in range(2):
            await embedded.create(("true",), f"c{number}")
        with pytest.raises(ResourceExhausted, match="no more than 2 containers"):
            await embedded.create(("true",), "c2")
        await embedded.runtime.run_sandbox(replace(embedded.sandbox, attempt=1))
        with pytest.raises(ResourceExhausted, match="no more than 2 sandboxes"):
            await embedded.runtime.run_sandbox(replace(embedded.sandbox, attempt=2))


async def test_a_record_that_would_be_too_large_to_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_records, "RECORD_BYTES_MAX", 2000)
    async with running(tmp_path) as embedded:
        id_ = await embedded.create(("true",), annotations={"a": "x" * 3000})
        with pytest.raises(RuntimeFailure, match=r"it would have \d+ bytes, more than 2000"):
            await embedded.runtime.start_container(id_)


async def test_a_removal_during_a_start_that_cannot_be_recorded_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as embedded, trio.open_nursery() as nursery:
        id_ = await embedded.create(("true",))
        may_fail = threading.Event()

        def fails_late(path: Path, _content: bytes) -> None:
            assert may_fail.wait(60)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

        async def start() -> None:
            with pytest.raises(RuntimeFailure):
                await embedded.runtime.start_container(id_)

        monkeypatch.setattr(disk_records, "write_privately", fails_late)
        nursery.start_soon(start)
        await trio.testing.wait_all_tasks_blocked(0.1)
        nursery.start_soon(embedded.runtime.remove_container, id_)
        await trio.testing.wait_all_tasks_blocked(0.1)
        may_fail.set()
