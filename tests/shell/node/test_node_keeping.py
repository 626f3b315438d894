"""Mux, sync loop, housekeeping and garbage on a whole node in memory."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.core.names import log_directory_name
from trikubelet.host.removal import remove_tree
from trikubelet.model.bounds import Bounds
from trikubelet.model.errors import StillMounted
from trikubelet.model.runtime import ContainerState
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.chance import Odds
from trikubelet.testing.memory_host import MemoryPodFiles

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

CRASHER = container("main", ["exit", "1", "1"])


async def test_two_pods_of_one_name_in_one_source_are_reported_and_the_first_counts(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", container("a"), uid="uid-1"), pod("web", container("b"), uid="uid-2")) as node:
        await until(lambda: bench.running() == ["a"])
        (event,) = [event for event in node.events.all() if event.reason == "FailedValidation"]

    assert "Error validating pod default/web from file: duplicate pod name, ignoring" == event.message


async def test_a_source_that_never_speaks_holds_back_removal_and_nothing_else(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("old")):
        await until(lambda: bench.running() == ["main"])
    await bench.files.make_pod("uid-left-behind")
    async with bench.agent(pod("new", container("fresh")), sources=("file", "http")) as node:
        await until(lambda: bench.running() == ["fresh", "main"])
        await trio.sleep(600)
        assert ["fresh", "main"] == bench.running()
        assert {"uid-left-behind", "uid-old", "uid-new"} == bench.pods_on_disk()
        assert not node.desired.all_ready
        node.slots["http"].put(Snapshot())
        await until(lambda: bench.running() == ["fresh"])
        await until(lambda: bench.pods_on_disk() == {"uid-new"})


async def test_orphans_with_an_invalid_uid_end_and_are_forgotten(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with bench.agent(pod("old"), pod("older")):
        await until(lambda: bench.running() == ["main", "main"])
    bench.world.uids = {id_: f"../{uid}" for id_, uid in bench.world.uids.items()}
    for id_, sandbox in bench.world.sandboxes.items():
        bench.world.sandboxes[id_] = replace(sandbox, uid=f"../{sandbox.uid}")
    async with bench.agent() as node:
        await until(lambda: not bench.running())
        await until(lambda: not node.workers.uids, 600)

    assert [] == [record for record in caplog.records if record.exc_info]


async def test_more_changes_than_the_channel_holds_all_arrive(autojump_clock: MockClock) -> None:
    bench = Bench(Bounds(changes_waiting_max=1))
    async with bench.agent(*(pod(f"p{n}") for n in range(30))) as node:
        await until(lambda: len(bench.running()) == 30)
        node.slots["file"].put(Snapshot())
        await until(lambda: not bench.world.sandboxes)


async def test_an_update_that_changes_nothing_disturbs_nothing(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web")) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        worker = node.workers.worker("uid-web")
        assert worker is not None
        await trio.sleep(5)
        before = worker.statistics().syncs
        node.slots["file"].put(Snapshot((pod("web"),)))
        await trio.sleep(5)

        assert before == worker.statistics().syncs


async def test_pod_is_left_alone_while_the_runtime_cannot_be_listed(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web")):
        await until(lambda: bench.running() == ["main"])
    await bench.files.make_pod("uid-gone")
    bench.problems.odds = Odds(error=1.0)
    async with bench.agent() as node:
        await trio.sleep(120)
        assert {"uid-web", "uid-gone"} == bench.pods_on_disk()
        assert ["main"] == bench.running()
        assert "pleg has yet to be successful" in (node.pleg.unhealthy() or "")
        assert "container runtime is down" in (node.runtime_state.unhealthy() or "")
        bench.problems.odds = Odds()
        await until(lambda: bench.running() == [])


async def test_a_directory_that_cannot_be_removed_is_complained_about_once_and_tried_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    await bench.files.make_pod("uid-gone")
    remove = bench.files.remove_pod

    async def refuse(uid: str) -> None:
        raise StillMounted(f"{uid}/volumes/x is a mount point")

    bench.files.remove_pod = refuse  # type: ignore[method-assign]
    async with bench.agent():
        await trio.sleep(30)
        assert 1 == sum("x is a mount point" in record.getMessage() for record in caplog.records)
        bench.files.remove_pod = remove  # type: ignore[method-assign]
        await until(lambda: not bench.pods_on_disk())


async def test_a_hanging_volume_delays_neither_housekeeping_nor_other_directories(autojump_clock: MockClock) -> None:
    bench = Bench()
    tear_down = bench.volumes.tear_down

    async def hang(uid: str) -> None:
        if uid == "uid-a-hung":
            await trio.sleep_forever()
        await tear_down(uid)

    bench.volumes.tear_down = hang  # type: ignore[method-assign]
    for uid in ("uid-a-hung", "uid-b"):
        await bench.files.make_pod(uid)
    async with bench.agent():
        await until(lambda: bench.pods_on_disk() == {"uid-a-hung"}, 30)


async def test_the_last_body_and_its_log_stay_while_the_pod_lives_and_go_with_it(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("crash", CRASHER)) as node:
        await until(lambda: any(c.attempt == 2 for c in bench.world.all_containers()))
        await trio.sleep(100)
        bodies = [c for c in bench.world.all_containers() if c.state is ContainerState.EXITED]
        assert 1 == len(bodies)
        assert {log_directory_name("default", "crash", "uid-crash")} == bench.log_directories()
        node.slots["file"].put(Snapshot())
        await until(lambda: not bench.world.containers and not bench.world.sandboxes, 10)
        await until(lambda: not bench.log_directories(), 70)


async def test_a_dead_sandbox_goes_once_nothing_is_left_in_it_and_the_newest_stays(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web")) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        for _ in range(3):
            for sandbox_id in list(bench.world.sandboxes):
                bench.world.stop_sandbox(sandbox_id)
            await trio.sleep(130)

    # The newest dead container keeps the sandbox it is in; older ones are gone with theirs.
    assert [2, 3] == sorted(sandbox.attempt for sandbox in bench.world.sandboxes.values())
    assert [2, 3] == sorted(c.attempt for c in bench.world.all_containers())


async def test_garbage_that_cannot_be_removed_is_met_again(autojump_clock: MockClock) -> None:
    bench = Bench()

    async def refuse(id_: str) -> None:
        raise RuntimeFailure("device or resource busy")

    async with bench.agent(pod("web")) as node:
        await until(lambda: phase(node, "uid-web") == "Running")
        runtime = node.garbage._runtime
        honest = runtime.remove_container, runtime.remove_sandbox
        runtime.remove_container = runtime.remove_sandbox = refuse  # type: ignore[method-assign]
        node.slots["file"].put(Snapshot())
        await until(lambda: bench.running() == [])
        await trio.sleep(100)
        assert ["main"] == [c.name for c in bench.world.all_containers()]
        told = [event for event in node.events.all() if event.reason == "ContainerGCFailed"]
        assert {("Node", "n", 1)} == {(event.about.kind, event.about.name, event.count) for event in told}
        assert all("device or resource busy" in event.message for event in told)
        runtime.remove_container, runtime.remove_sandbox = honest  # type: ignore[method-assign]
        await until(lambda: not bench.world.containers and not bench.world.sandboxes, 130)


async def test_hanging_removals_delay_no_others(autojump_clock: MockClock) -> None:
    bench = Bench()
    stuck = [pod(f"a{number}", container("stuck")) for number in range(10)]
    async with bench.agent(*stuck, pod("z", container("fine"))) as node:
        await until(lambda: len(bench.running()) == 11)
        runtime, asked = node.garbage._runtime, []
        honest = runtime.remove_container

        async def hang(id_: str) -> None:
            if id_ in [c.id for c in bench.world.all_containers() if c.name == "stuck"]:
                asked.append(id_)
                await trio.sleep_forever()
            await honest(id_)

        runtime.remove_container = hang  # type: ignore[method-assign]
        node.slots["file"].put(Snapshot())
        await until(lambda: bench.running() == [])
        await until(lambda: len(asked) == 10 and all(c.name == "stuck" for c in bench.world.all_containers()), 35)
        await trio.sleep(60)
        assert 10 == len(asked)
        runtime.remove_container = honest  # type: ignore[method-assign]
        await until(lambda: not bench.world.containers, 200)


async def test_failure_with_changing_text_is_logged_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    tries = iter(range(1000))

    async def refuse(id_: str) -> None:
        raise RuntimeFailure(f"task {next(tries)} is busy")

    async with bench.agent(pod("web")) as node:
        await until(lambda: bench.running() == ["main"])
        runtime = node.garbage._runtime
        runtime.remove_container = runtime.remove_sandbox = refuse  # type: ignore[method-assign]
        node.slots["file"].put(Snapshot())
        await trio.sleep(1800)
        told = [event.message for event in node.events.all() if event.reason == "ContainerGCFailed"]

    assert next(tries) > 20
    assert ["Cannot remove container", "Cannot remove sandbox s"] == sorted(one[:23] for one in told)
    assert 2 == sum("is busy" in record.getMessage() for record in caplog.records)


NO_LOGS_GO = {"remove the log {logs}/default_web_uid-web/main/0.log", "remove the logs default_web_uid-web"}


@pytest.mark.parametrize(
    ("call", "place", "told"),
    [
        pytest.param("unlink", "0.log", NO_LOGS_GO, id="a log cannot be removed"),
        pytest.param("scandir", "logs", {"look through the pods' logs"}, id="no log can be looked for"),
        pytest.param("scandir", "links", {*NO_LOGS_GO, "remove links to logs that are gone"}, id="no link can be"),
        pytest.param("scandir", "pods", {"look for leftovers of pods"}, id="no directory can be"),
        pytest.param("unlink", "why", {"remove the leftovers of pod uid-web"}, id="a directory cannot be removed"),
    ],
)
async def test_files_that_cannot_be_touched_are_reported_once_met_again_and_never_end_the_agent(
    call: str,
    place: str,
    told: set[str],
    tmp_path: Path,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.move_to_disk(tmp_path)
    honest = getattr(os, call)

    def refuse(path: str | Path | int, **more: object) -> object:
        if not isinstance(path, int) and os.path.basename(path) == place:
            raise OSError(errno.EROFS, "Read-only file system")
        return honest(path, **more)

    async with bench.agent(pod("web"), pod("stays")) as node:
        await until(lambda: len(bench.running()) == 2)
        (tmp_path / "logs/default_web_uid-web/main/0.log").touch()
        (tmp_path / "root/pods/uid-web/why").touch()
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            node.slots["file"].put(Snapshot((pod("stays"),)))
            await trio.sleep(300)
            assert ["main"] == bench.running()
        said = [record.getMessage() for record in caplog.records if "Read-only" in record.getMessage()]
        whats = [one.removeprefix("Cannot ").partition(", will try again: ")[0] for one in said]
        assert sorted(what.format(logs=tmp_path / "logs") for what in told) == sorted(whats)
        await until(lambda: {"uid-stays"} == bench.pods_on_disk(), 130)
        await until(lambda: {"default_stays_uid-stays"} == bench.log_directories(), 130)


@pytest.mark.parametrize("call", ["remove_container", "remove_container_logs", "remove_sandbox"])
async def test_a_bug_that_one_pods_garbage_provokes_is_reported_once_and_the_others_goes(
    call: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    async with bench.agent(pod("bad", container("bad")), pod("fine", container("fine"))) as node:
        await until(lambda: bench.running() == ["bad", "fine"])
        bad_ones = {c.id for c in bench.world.all_containers() if c.name == "bad"}
        bad_ones |= {s.id for s in bench.world.sandboxes.values() if s.uid == "uid-bad"}
        owner: object = bench.files if call == "remove_container_logs" else node.garbage._runtime
        honest = getattr(owner, call)

        async def provoke(about: str) -> None:
            if about in bad_ones or "uid-bad" in about:
                raise ValueError("embedded null byte")
            await honest(about)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, call, provoke)
            node.slots["file"].put(Snapshot())
            await trio.sleep(300)
            told = [record for record in caplog.records if "embedded null byte" in record.getMessage()]
            assert (1, True) == (len(told), told[0].exc_info is not None)
            assert "default_fine_uid-fine" not in bench.log_directories()
        await until(lambda: not bench.world.sandboxes and not bench.log_directories(), 130)


async def test_endless_removal_of_logs_is_logged_and_delays_no_others(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    hung = [log_directory_name("default", f"a{number}", f"uid-{number}") for number in range(10)]
    for name in (*hung, "default_z_uid-z"):
        await bench.files.make_log_directory(f"/logs/{name}", "")
    remove, let_go = bench.files.remove_log_directory, trio.Event()

    async def hang(name: str) -> None:
        if name in hung:
            await let_go.wait()
        await remove(name)

    bench.files.remove_log_directory = hang  # type: ignore[method-assign]
    async with bench.agent(pod("web")) as node:
        await until(lambda: bench.running() == ["main"])
        await until(lambda: "default_z_uid-z" not in bench.log_directories(), 100)
        assert node.garbage.is_busy
        await trio.sleep(600)
        said = [record.getMessage() for record in caplog.records if "remove the logs" in record.getMessage()]
        assert [f"Cannot remove the logs {name}, will try again: no answer in time" for name in hung] == sorted(said)
        let_go.set()
        await until(lambda: bench.log_directories() == {"default_web_uid-web"})
        assert not node.garbage.is_busy


async def test_no_depth_of_directories_among_the_logs_ends_the_agent(tmp_path: Path, autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.move_to_disk(tmp_path)
    at = os.open(tmp_path / "logs", os.O_RDONLY)
    for name in ("default_gone_uid-gone", *("deeper" for _ in range(3000))):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)

    try:
        async with bench.agent():
            await until(lambda: not bench.log_directories(), 130)
    finally:
        with suppress(FileNotFoundError):  # if it failed: pytest cannot remove it either
            remove_tree(str(tmp_path / "logs/default_gone_uid-gone"))


async def test_an_idle_sync_loop_is_healthy_and_says_so(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent() as node:
        await trio.sleep(3600)

        assert node.sync_loop.unhealthy() is None
        assert node.pleg.unhealthy() is None
        assert node.runtime_state.unhealthy() is None


async def test_a_pod_deleted_while_the_agent_was_away_is_stopped_by_the_next_one(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(pod("web", source="api")):
        await until(lambda: bench.running() == ["main"])
    deleted = pod("web", source="api")
    deleted = type(deleted)(
        metadata=type(deleted.metadata)(
            name="web",
            namespace="default",
            uid="uid-web",
            annotations=deleted.metadata.annotations,
            deletion_timestamp="2027-01-15T08:00:00Z",
            deletion_grace_period_seconds=5,
        ),
        spec=deleted.spec,
    )
    async with bench.agent(deleted) as node:
        await until(lambda: bench.running() == [])
        await until(lambda: phase(node, "uid-web") == "Failed")


async def test_a_call_that_hangs_costs_its_sync_and_not_the_siblings(autojump_clock: MockClock) -> None:
    bench = Bench(Bounds(runtime_call_seconds_max=20))
    async with bench.agent(pod("web", container("bad"), container("good"))) as node:
        runtime = node.pleg._runtime
        honest = runtime.create_container

        async def hang_once(sandbox_id: str, config: object, sandbox: object) -> str:
            if config.name == "bad" and trio.current_time() < 15:  # type: ignore[attr-defined]
                await trio.sleep_forever()
            return await honest(sandbox_id, config, sandbox)  # type: ignore[arg-type]

        runtime.create_container = hang_once  # type: ignore[method-assign]
        await until(lambda: "good" in bench.running(), 25)
        await until(lambda: bench.running() == ["bad", "good"], 60)


class LogsThatHang(MemoryPodFiles):
    """Owns whether the file system of the logs hangs; nothing is told of them then (``ports.ContainerFiles``)."""

    hangs = False

    async def log_directories(self) -> frozenset[str]:
        if self.hangs:
            await trio.sleep(10)
            raise TimeoutError(errno.ETIMEDOUT, "the disk did not answer within 10 s")
        return await super().log_directories()


async def test_where_the_disk_of_the_logs_hangs_the_logs_stay_and_all_else_goes(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.files = files = LogsThatHang()
    async with bench.agent(pod("web"), pod("crash", CRASHER)) as node:
        await until(lambda: len(bench.running()) == 2)
        files.hangs = True
        node.slots["file"].put(Snapshot())
        await trio.sleep(600)
        assert ([], [], set()) == (list(bench.world.all_containers()), [*bench.world.sandboxes], files.pods)
        assert 2 == len(files.log_names)
        files.hangs = False
        await until(lambda: not files.log_names, 70)

    why = "[Errno 110] the disk did not answer within 10 s"
    said = [message for message in caplog.messages if "110" in message]
    assert [f"Cannot look through the pods' logs, will try again: {why}"] == said


async def test_where_the_disk_of_the_logs_hangs_garbage_goes_pod_by_pod_too(autojump_clock: MockClock) -> None:
    bench = Bench()
    bench.files = files = LogsThatHang()
    async with bench.agent(pod("crash", CRASHER)) as node:
        files.hangs = True
        await until(lambda: bool(bench.world.containers))
        node.slots["file"].put(Snapshot())
        bench.problems.odds = Odds(error=1.0, only=frozenset({"ListContainers"}))
        await trio.sleep(300)
        assert node.pleg.failing_since is not None
        bench.problems.odds = Odds()
        await until(lambda: not list(bench.world.all_containers()), 100)
