"""The rotation of containers' logs over hours of virtual time: when, in which order, and what a failure leaves."""

from __future__ import annotations

import errno
import gzip
import logging
from typing import TYPE_CHECKING

import pytest
import trio

from shell.app.test_translated_settings import settings_of
from shell.pods.shellkit import Bench, until
from trikubelet.app.node import run_node
from trikubelet.app.translate import rules_of
from trikubelet.core.log_rotation import RotationRules
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation
from trikubelet.model.runtime_errors import RuntimeFailure, RuntimeUnavailable
from trikubelet.node.log_rotation import LogRotation
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_host import MemoryContainerLogs, MemoryPodFiles, VirtualClock
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trio.testing import MockClock

RULES = RotationRules(size_bytes=100, files_max=4)


class Writers:
    """A runtime whose containers write, as far as their logs go (a part of ``ports.Runtime``). ``refuses``: the error
    it answers with, if any; ``held``: an answer takes until then."""

    def __init__(self, files: MemoryPodFiles) -> None:
        self.files = files
        self.paths: dict[str, str] = {}
        self.reopened: list[str] = []
        self.refuses: Exception | None = None
        self.held: trio.Event | None = None
        self.opens = True

    async def reopen_log(self, container_id: str) -> None:
        self.reopened.append(container_id)
        await trio.lowlevel.checkpoint()
        if self.held is not None:
            await self.held.wait()
        if self.refuses is not None:
            raise self.refuses
        if self.opens:
            self.files.content.setdefault(self.paths[container_id], b"")


class World:
    def __init__(self, rules: RotationRules = RULES) -> None:
        self.files = MemoryPodFiles()
        self.logs = MemoryContainerLogs(self.files)
        self.runtime = Writers(self.files)
        self.pods: list[PodObservation] = []
        self.rotation = LogRotation(self.runtime, self.pods, self.logs, VirtualClock(), rules, Bounds())
        self.lines: dict[str, int] = {}

    def container(self, id_: str, state: ContainerState = ContainerState.RUNNING) -> str:
        directory = f"/logs/ns_{id_}_u"
        self.files.directories.add(directory)
        path = f"{directory}/main/0.log"
        status = ContainerStatus(id_, "main", 0, state, 1, log_path=path)
        self.pods.append(PodObservation(f"u-{id_}", id_, "ns", containers=(status,)))
        self.files.content[path] = b""
        self.runtime.paths[id_] = path
        return path

    def write(self, path: str, lines: int) -> None:
        for _ in range(lines):
            number = self.lines[path] = self.lines.get(path, 0) + 1
            self.files.content[path] += b"%9d\n" % number

    def parts(self, path: str) -> list[str]:
        return sorted(self.logs.parts_now(path))

    def all_lines(self, path: str) -> list[int]:
        content = self.files.content
        found = [content[f"{path}.{part}"] for part in self.parts(path)]
        texts = [gzip.decompress(one) if one.startswith(b"\x1f\x8b") else one for one in found]
        return [int(line) for line in b"".join([*texts, content[path]]).split()]


@pytest.fixture
async def world(nursery: trio.Nursery) -> World:
    world = World()
    await nursery.start(world.rotation.run)
    return world


async def test_a_log_is_rotated_when_it_is_large_and_nothing_is_asked_before(
    autojump_clock: MockClock, world: World
) -> None:
    path = world.container("a")
    world.write(path, 9)
    await trio.sleep(60)
    assert ([], []) == (world.runtime.reopened, world.parts(path))

    world.write(path, 1)
    await trio.sleep(10)

    assert ["a"] == world.runtime.reopened
    assert b"" == world.files.content[path]
    assert 1 == len(world.parts(path))
    assert list(range(1, 11)) == world.all_lines(path)


async def test_a_writer_without_end_keeps_its_last_lines_in_so_many_files(
    autojump_clock: MockClock, world: World
) -> None:
    path = world.container("a")
    for _ in range(50):
        world.write(path, 12)
        await trio.sleep(10)
        assert len(world.parts(path)) + 1 <= RULES.files_max

    assert list(range(600 - 36 + 1, 601)) == world.all_lines(path)
    assert [".gz", ".gz", ""] == [part[15:] for part in world.parts(path)]  # the newest is for who still reads it


async def test_only_containers_that_run_and_have_a_log_are_looked_after(
    autojump_clock: MockClock, world: World
) -> None:
    for n, state in enumerate(set(ContainerState) - {ContainerState.RUNNING}):
        world.write(world.container(f"c{n}", state), 100)
    world.pods.append(PodObservation("u", containers=(ContainerStatus("no log", "c", 0, ContainerState.RUNNING, 1),)))
    await trio.sleep(60)
    assert [] == world.runtime.reopened


async def test_a_log_without_a_file_is_opened_again(autojump_clock: MockClock, world: World) -> None:
    path = world.container("a")
    del world.files.content[path]
    await trio.sleep(60)
    assert ["a"] == world.runtime.reopened
    assert b"" == world.files.content[path]


async def test_a_log_stays_as_it_was_when_the_runtime_opens_no_new_one_and_that_is_reported_once(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = world.container("a")
    world.write(path, 20)
    world.runtime.refuses = RuntimeFailure("no file descriptors")
    await trio.sleep(15)
    assert [] == caplog.records  # a container may just have ended
    await trio.sleep(60)

    assert list(range(1, 21)) == world.all_lines(path)
    assert [] == world.parts(path)
    assert ["WARNING"] == [record.levelname for record in caplog.records]
    said = "Cannot rotate the log of container main of pod ns/a, will try again: no file descriptors (0.log)"
    assert said == caplog.records[0].getMessage()

    world.runtime.refuses = None
    await trio.sleep(10)
    assert 1 == len(world.parts(path))
    assert list(range(1, 21)) == world.all_lines(path)

    world.runtime.refuses = RuntimeFailure("again")
    world.write(path, 20)
    await trio.sleep(60)
    assert ["no file descriptors", "again"] == [
        record.getMessage().split(": ")[1].removesuffix(" (0.log)") for record in caplog.records
    ]


async def test_a_container_that_has_just_ended_is_no_problem(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(world.container("a"), 20)
    world.runtime.refuses = RuntimeFailure("container is not running")
    await trio.sleep(15)
    world.pods.clear()
    await trio.sleep(60)
    assert [] == caplog.records
    assert {} == world.rotation._failed  # containers come and go for years


async def test_a_runtime_that_is_away_is_reported_by_others(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = world.container("a")
    world.write(path, 20)
    world.runtime.refuses = RuntimeUnavailable("nobody answers")
    await trio.sleep(60)
    assert [] == caplog.records
    assert [] == world.parts(path)


async def test_a_new_file_is_not_lost_when_the_answer_is(autojump_clock: MockClock, world: World) -> None:
    path = world.container("a")
    world.write(path, 20)
    opens = world.runtime.reopen_log

    async def lost(container_id: str) -> None:
        await opens(container_id)
        world.write(path, 1)
        raise RuntimeUnavailable("connection lost")

    world.runtime.reopen_log = lost
    await trio.sleep(15)

    assert 1 == len(world.parts(path))
    assert list(range(1, 22)) == world.all_lines(path)


async def test_an_answer_that_never_comes_delays_the_rotation_only(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = world.container("a")
    world.write(path, 20)
    world.runtime.held = trio.Event()
    await trio.sleep(2.5 * Bounds().runtime_call_seconds_max)
    world.runtime.held.set()
    await trio.sleep(15)

    assert 1 == len(world.parts(path))
    assert list(range(1, 21)) == world.all_lines(path)
    assert ["the runtime gave no answer in time"] == [
        record.getMessage().split(": ")[1].removesuffix(" (0.log)") for record in caplog.records
    ]


async def test_an_agent_that_ends_amid_a_rotation_leaves_the_log_in_one_piece(autojump_clock: MockClock) -> None:
    world = World()
    path = world.container("a")
    world.write(path, 20)
    world.runtime.held = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(world.rotation.run)
        await trio.sleep(15)
        assert path not in world.files.content
        nursery.cancel_scope.cancel()

    assert list(range(1, 21)) == world.all_lines(path)
    assert [] == world.parts(path)


async def test_an_agent_that_ends_waits_for_an_answer_that_comes_soon(autojump_clock: MockClock) -> None:
    world = World()
    path = world.container("a")
    world.write(path, 20)
    world.runtime.held = trio.Event()

    async def answer_soon() -> None:
        await trio.sleep(6)
        world.runtime.held.set()

    async with trio.open_nursery() as runtime:
        runtime.start_soon(answer_soon)
        async with trio.open_nursery() as nursery:
            await nursery.start(world.rotation.run)
            await trio.sleep(5)
            nursery.cancel_scope.cancel()

    assert b"" == world.files.content[path]
    assert 1 == len(world.parts(path))


async def test_an_agent_that_ends_waits_for_runtime_and_disk_together_no_longer_than_for_any_call(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.write(world.container("a"), 20)
    world.runtime.held = trio.Event()

    async def hang(path: str, part: str) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(world.logs, "put_back", hang)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.rotation.run)
        await trio.sleep(15)
        assert ["a"] == world.runtime.reopened
        nursery.cancel_scope.cancel()
        cancelled_at = trio.current_time()

    assert trio.current_time() - cancelled_at == pytest.approx(Bounds().settle_seconds_max)


async def test_a_disk_that_is_full_is_reported_at_once_and_once_and_files_stay_few(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.container("a")

    async def full(path: str, part: str) -> None:
        raise OSError(28, "No space left on device", f"{path}.{part}")

    monkeypatch.setattr(world.logs, "compress", full)
    for _ in range(20):
        world.write(path, 12)
        await trio.sleep(10)

    assert RULES.files_max - 1 == len(world.parts(path))
    assert ["Cannot rotate the log of container main"] == [record.getMessage()[:39] for record in caplog.records]
    assert "No space left on device" in caplog.text


async def test_one_failing_log_keeps_no_other_from_its_rotation(autojump_clock: MockClock, world: World) -> None:
    good, bad = world.container("good"), world.container("bad")
    opens = world.runtime.reopen_log

    async def one_refuses(container_id: str) -> None:
        if container_id == "bad":
            raise RuntimeFailure("no")
        await opens(container_id)

    world.runtime.reopen_log = one_refuses
    for _ in range(5):
        world.write(good, 12)
        world.write(bad, 12)
        await trio.sleep(10)

    assert 3 == len(world.parts(good))
    assert list(range(1, 61)) == world.all_lines(bad)


@pytest.mark.parametrize("where", ["parts", "compress"])
async def test_a_bug_that_one_log_provokes_is_reported_once_and_keeps_no_other_from_its_rotation(
    where: str,
    autojump_clock: MockClock,
    world: World,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad, good = world.container("bad"), world.container("good")
    as_ever = getattr(world.logs, where)

    async def provoked(path: str, *part: str) -> object:
        if path == bad:
            raise ValueError("never thought of")
        return await as_ever(path, *part)

    monkeypatch.setattr(world.logs, where, provoked)
    for _ in range(5):
        world.write(good, 12)
        world.write(bad, 12)
        await trio.sleep(10)

    assert 3 == len(world.parts(good))
    said = "The log of container main of pod ns/bad: a bug in rotating it; it is tried again at the next look"
    assert [said] == caplog.messages

    monkeypatch.undo()
    world.write(bad, 12)
    await trio.sleep(15)
    assert b"" == world.files.content[bad]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (OSError("no answer"), "Cannot see how long the logs of containers are, will try again: no answer"),
        (ValueError("never thought of"), "All logs: a bug in rotating it; it is tried again at the next look"),
    ],
)
async def test_a_disk_that_does_not_say_how_long_logs_are_is_reported_once_and_asked_again(
    fault: Exception,
    said: str,
    autojump_clock: MockClock,
    world: World,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = world.container("web")

    async def fails(_: Sequence[str]) -> Sequence[int]:
        await trio.lowlevel.checkpoint()
        raise fault

    monkeypatch.setattr(world.logs, "sizes", fails)
    world.write(path, 120)
    await trio.sleep(60)
    assert [said] == caplog.messages
    assert not world.parts(path)

    monkeypatch.undo()
    await trio.sleep(15)
    assert 1 == len(world.parts(path))


async def test_a_part_that_takes_long_to_compress_keeps_no_log_from_its_rotation(
    autojump_clock: MockClock, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = world.container("slow"), world.container("quick")
    compresses, over = world.logs.compress, trio.Event()
    begun: list[str] = []

    async def slowly(path: str, part: str) -> None:
        if path == slow:
            begun.append(part)
            await over.wait()
        await compresses(path, part)

    monkeypatch.setattr(world.logs, "compress", slowly)
    for _ in range(5):
        world.write(slow, 12)
        world.write(quick, 12)
        await trio.sleep(10)
    last = list(range(60 - 36 + 1, 61))
    assert ["", "", ""] == [part[15:] for part in world.parts(slow)]
    assert [last, last] == [world.all_lines(slow), world.all_lines(quick)]
    assert 1 == len(begun)  # and removed meanwhile, as the oldest
    assert begun[0] not in world.parts(slow)

    over.set()
    for _ in range(2):
        await trio.sleep(10)
        world.write(slow, 12)
    await trio.sleep(15)
    assert [".gz", ".gz", ""] == [part[15:] for part in world.parts(slow)]
    assert list(range(84 - 36 + 1, 85)) == world.all_lines(slow)


@pytest.mark.parametrize("workers", [1, 2])
async def test_no_more_logs_are_rotated_at_once_than_there_are_workers_and_none_twice(
    workers: int, autojump_clock: MockClock, nursery: trio.Nursery, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path, containerLogMaxSize="100", containerLogMaxWorkers=workers)
    rules = rules_of(settings, Bounds()).logs
    assert rules is not None
    world = World(rules)
    for id_ in "abc":
        world.write(world.container(id_), 20)
    world.runtime.held = trio.Event()
    await nursery.start(world.rotation.run)
    await trio.sleep(60)
    assert workers == len(world.runtime.reopened)

    world.runtime.held.set()
    await trio.sleep(60)
    assert ["a", "b", "c"] == sorted(world.runtime.reopened)


class OpeningRuntime(MemoryRuntime):
    """A world in memory whose logs are among a host's files."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.world, bench.problems)
        self.files = bench.files

    async def reopen_log(self, container_id: str) -> None:
        await super().reopen_log(container_id)
        self.files.content.setdefault((await self.container_status(container_id)).decode().log_path, b"")


async def test_a_node_rotates_the_logs_of_its_pods(autojump_clock: MockClock) -> None:
    bench = Bench()
    node = bench.build_node(runtime=OpeningRuntime(bench))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((pod("web"),)))
        await until(lambda: bench.running() == ["main"])
        (path,) = bench.files.links.values()
        bench.files.content[path] = b"x" * (10 << 20)
        await trio.sleep(15)
        nursery.cancel_scope.cancel()

    assert b"" == bench.files.content[path]
    assert [10 << 20] == [len(said) for name, said in bench.files.content.items() if name.startswith(f"{path}.")]


async def test_a_log_that_the_runtime_does_not_open_is_reported(
    autojump_clock: MockClock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = world.container("a")
    del world.files.content[path]
    world.runtime.opens = False
    with caplog.at_level(logging.WARNING):
        await trio.sleep(60)
    assert ["missing, also after the runtime was told to reopen it" in record.getMessage() for record in caplog.records]
    assert 1 == len(caplog.records)


async def test_a_log_renamed_by_a_disk_that_was_given_up_is_opened_again(
    autojump_clock: MockClock, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.container("a")
    world.write(path, 20)
    renames = world.logs.set_aside

    async def late(path: str, part: str) -> None:
        await renames(path, part)
        raise TimeoutError(errno.ETIMEDOUT, "the disk did not answer within 10 s")

    monkeypatch.setattr(world.logs, "set_aside", late)
    await trio.sleep(15)
    assert path not in world.files.content
    assert [] == world.runtime.reopened
    await trio.sleep(10)

    assert list(range(1, 21)) == world.all_lines(path)
    assert ["a"] == world.runtime.reopened


async def test_an_agent_that_ends_waits_for_a_disk_that_hangs_a_moment_only(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    path = world.container("a")
    world.write(path, 20)
    world.runtime.refuses = RuntimeFailure("no")

    async def hang(path: str, part: str) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(world.logs, "put_back", hang)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.rotation.run)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert trio.current_time() <= 3
    (part,) = world.parts(path)
    assert [f"The log {path} stays {part}: the disk does not answer"] == caplog.messages


async def test_what_is_compressed_while_parts_are_looked_for_keeps_its_unfinished_file(
    autojump_clock: MockClock, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.container("a")
    looks, removed = world.logs.parts, []

    async def looks_long(path: str) -> frozenset[str]:
        found = await looks(path)
        world.rotation._compressing["a"] = "20260101-000000"  # by the time it is told what there is
        return found | {"20260101-000000", "20260101-000000.tmp"}

    async def note(path: str, part: str) -> None:
        removed.append(part)

    monkeypatch.setattr(world.logs, "parts", looks_long)
    monkeypatch.setattr(world.logs, "remove", note)
    world.write(path, 20)
    await trio.sleep(15)

    assert ["a"] == world.runtime.reopened
    assert [] == removed


MIB = 1 << 20
FLOOD_RULES = RotationRules(size_bytes=MIB, files_max=3, flood_seconds=1)


def used(world: World, path: str) -> int:
    """The bytes of a log and its parts."""
    return sum(len(content) for name, content in world.files.content.items() if name.startswith(path))


async def flood(world: World, path: str, seconds: int) -> int:
    """Write 20 MiB a second for so long; the most bytes that its files had."""
    most = 0
    for _ in range(seconds * 10):
        world.files.content[path] = world.files.content.get(path, b"") + bytes(2 * MIB)
        most = max(most, used(world, path))
        await trio.sleep(0.1)
    return most


async def test_a_log_that_grows_fast_is_rotated_each_second(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    world = World(FLOOD_RULES)
    path, quiet = world.container("a"), world.container("b")
    await nursery.start(world.rotation.run)
    await trio.sleep(15.05)

    most = await flood(world, path, 30)

    assert most <= 3 * 20 * MIB + 4 * MIB  # being written, the newest part, and one that goes within the rotation
    assert len(world.parts(path)) <= 2
    assert [] == world.parts(quiet)


async def test_a_log_that_no_longer_grows_fast_is_looked_at_no_more_often_than_others(
    autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(FLOOD_RULES)
    path = world.container("a")
    await nursery.start(world.rotation.run)
    await flood(world, path, 5)
    await trio.sleep(15)
    looks = []
    sizes = world.logs.sizes

    async def counted(paths: Sequence[str]) -> Sequence[int | OSError | None]:
        looks.append(paths)
        return await sizes(paths)

    monkeypatch.setattr(world.logs, "sizes", counted)
    await trio.sleep(100)

    assert 10 == len(looks)


async def test_a_log_that_grows_fast_in_a_rotation_that_takes_long_stays_watched(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world = World(FLOOD_RULES)
    path = world.container("a")
    await nursery.start(world.rotation.run)
    world.runtime.held = trio.Event()
    world.files.content[path] = bytes(20 * MIB)
    await trio.sleep(3.5)  # seen at the first second; its rotation waits for the runtime
    world.runtime.held.set()
    await trio.sleep(0.1)
    [first] = world.parts(path)
    world.files.content[path] = bytes(2 * MIB)
    await trio.sleep(1)

    assert b"" == world.files.content[path]
    assert first not in world.parts(path)  # with its 20 MiB it had no room any more


async def test_logs_are_rotated_in_time_if_the_free_space_is_unknown(
    autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> int:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.ETIMEDOUT, "the disk did not answer")

    world = World(FLOOD_RULES)
    monkeypatch.setattr(world.logs, "free_bytes", fails)
    path = world.container("a")
    await nursery.start(world.rotation.run)
    world.files.content[path] = bytes(2 * MIB)
    await trio.sleep(11)

    assert 1 == len(world.parts(path))
