"""What a sync does when the disk takes nothing, or when it takes too long: told where a user looks, and no bug."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_node
from trikubelet.core.containers import ConfigError
from trikubelet.model import k8s
from trikubelet.model.runtime import RuntimeHandler, RuntimeInfo
from trikubelet.model.runtime_config import Mount
from trikubelet.model.runtime_errors import RuntimeUnavailable
from trikubelet.pods.start import FAILED_START_SHOWN_SECONDS
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.k8s import Pod

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/pods")


@pytest.mark.parametrize(
    ("method", "reason", "message"),
    [
        ("make_pod", "FailedToMakePodDataDirectories", "error making pod data directories: [Errno 28] No space left"),
        ("make_log_directory", "FailedCreatePodSandBox", "Failed to create pod sandbox: [Errno 28] No space left"),
        ("write_hosts", "Failed", "Error: [Errno 28] No space left"),
    ],
)
async def test_a_full_disk_is_reported_and_tried_again_and_is_no_bug(
    method: str,
    reason: str,
    message: str,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> str:
        raise FULL

    bench = Bench()
    with monkeypatch.context() as patch:
        patch.setattr(bench.files, method, full)
        async with bench.agent(pod("web")) as node:
            await until(lambda: any(event.reason == reason for event in node.events.all()))
            event = next(event for event in node.events.all() if event.reason == reason)
            worker = node.workers.worker("uid-web")
            assert worker is not None
            await until(lambda: worker.statistics().failures > 0)

            assert message in event.message
            assert "No space left on device" in worker.statistics().last_error
            assert "a bug in its worker" not in caplog.text
            patch.undo()
            await until(lambda: phase(node, "uid-web") == "Running")


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        pytest.param('failed to prepare subPath for volumeMount "v"', "fails", id="it is not there"),
        pytest.param("its volumes were not ready within 120s", "hangs", id="its disk hangs"),
    ],
)
async def test_a_sub_path_that_cannot_be_had_keeps_its_container_waiting(
    told: str, problem: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(*_: object) -> NoReturn:
        if problem == "hangs":
            await trio.sleep_forever()
        raise ConfigError('failed to prepare subPath for volumeMount "v" of container "main": Not a directory', "main")

    bench = Bench()
    with monkeypatch.context() as patch:
        patch.setattr(bench.volumes, "resolve", resolve)
        async with bench.agent(pod("web")) as node:
            await until(lambda: any(event.reason == "Failed" for event in node.events.all()), 200)
            event = next(event for event in node.events.all() if event.reason == "Failed")
            assert f"Error: {told}" in event.message
            await until(lambda: waiting(node, "uid-web").reason == "CreateContainerConfigError")
            assert told in waiting(node, "uid-web").message
            patch.undo()
            await until(lambda: phase(node, "uid-web") == "Running", 200)  # one sync more may hang


def with_tools(image: str) -> Pod:
    """A pod that mounts an image, and has another volume of an image that nobody mounts."""
    volumes = [("tools", image), ("unused", "gone:1")]
    return pod(
        "web",
        container("main", volume_mounts=(k8s.VolumeMount(name="tools", mount_path="/tools"),)),
        volumes=tuple(
            k8s.Volume(name=name, image=k8s.ImageVolumeSource(reference=image, pull_policy="IfNotPresent"))
            for name, image in volumes
        ),
    )


async def test_the_image_of_a_volume_is_pulled_before_its_container_is_made(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(with_tools("web:2")) as node:
        await until(lambda: phase(node, "uid-web") == "Running")

    pulls = [(one.reason, one.about.field_path) for one in node.events.all() if one.reason.startswith("Pull")]
    assert [("Pulling", ""), ("Pulled", ""), ("Pulled", "spec.containers{main}")] == pulls
    assert ["web:2"] == bench.images.pulls
    (made,) = (one.config for one in bench.world.containers.values())
    assert Mount("/tools", "", readonly=True, image="sha256:web:2", user_specified_image="web:2") == made.mounts[0]


async def test_the_image_of_a_volume_that_cannot_be_had_keeps_its_container_waiting(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with bench.agent(with_tools("gone:2")) as node:
        await until(lambda: node.statuses.get("uid-web") is not None)
        await until(lambda: waiting(node, "uid-web").reason == "ErrImagePull")
        assert "gone:2" in waiting(node, "uid-web").message


async def test_why_a_container_did_not_start_is_shown_before_it_is_shown_to_back_off(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    shown: list[tuple[float, str]] = []
    async with bench.agent(pod("web", container("main", ["unstartable"]))) as node:

        def note(_: str, __: object, status: k8s.PodStatus, ___: object) -> None:
            state = status.container_statuses[0].state
            reason = state.waiting.reason if state is not None and state.waiting is not None else ""
            if reason not in ("", "ContainerCreating") and (not shown or shown[-1][1] != reason):
                shown.append((trio.current_time() - began, reason))

        began = trio.current_time()
        node.statuses.changed.add(note)
        await until(lambda: len(shown) == 4, 200)
        backs_off = [event for event in node.events.all() if event.reason == "BackOff"]

    assert ["RunContainerError", "CrashLoopBackOff"] * 2 == [reason for _, reason in shown]
    (failed_at, _), (backs_off_at, _) = shown[2:]
    assert pytest.approx(FAILED_START_SHOWN_SECONDS, abs=1) == backs_off_at - failed_at
    assert len(backs_off) == 1


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        pytest.param(True, RuntimeHandler("", recursive_read_only_mounts=True), id="the runtime can"),
        pytest.param(False, RuntimeHandler(""), id="it cannot"),
        pytest.param(False, RuntimeHandler("other", recursive_read_only_mounts=True), id="another handler can"),
    ],
)
async def test_what_the_pods_runtime_handler_can_do_decides_how_far_down_a_mount_is_read_only(
    expected: bool, handler: RuntimeHandler, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    told = MemoryRuntime.info

    async def info(runtime: MemoryRuntime) -> RuntimeInfo:
        return replace(await told(runtime), handlers=(handler,))

    monkeypatch.setattr(MemoryRuntime, "info", info)
    mount = k8s.VolumeMount(name="v", mount_path="/v", read_only=True, recursive_read_only="IfPossible")
    volume = k8s.Volume(name="v", host_path=k8s.HostPathVolumeSource(path="/"))
    async with bench.agent(pod("web", container(volume_mounts=(mount,)), volumes=(volume,))) as node:
        await until(lambda: phase(node, "uid-web") == "Running")

    (made,) = (one.config for one in bench.world.containers.values())
    assert expected is made.mounts[0].recursive_read_only


def waiting(node: Node, uid: str) -> k8s.ContainerStateWaiting:
    """Why the pod's container waits."""
    status = node.statuses.get(uid)
    assert status is not None
    state = status.container_statuses[0].state
    return (state and state.waiting) or k8s.ContainerStateWaiting()


@pytest.mark.parametrize("seconds", [35, 45, 100])
async def test_a_deadline_is_met_while_a_container_backs_off(seconds: int, autojump_clock: MockClock) -> None:
    bench = Bench()
    crashing, well = container("crashing", ["exit", "1", "1"]), container("well")
    began = trio.current_time()
    async with bench.agent(pod("web", crashing, well, active_deadline_seconds=seconds)) as node:
        await until(lambda: phase(node, "uid-web") == "Failed", 300)

        assert seconds == pytest.approx(trio.current_time() - began, abs=2)


async def test_a_deadline_that_passes_during_a_slow_sync_is_met_right_after_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    set_up = bench.volumes.set_up

    async def slow(wanted: Pod) -> Mapping[str, str]:
        await trio.sleep(30)
        return await set_up(wanted)

    async with bench.agent(pod("web", active_deadline_seconds=20)) as node:
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(10)
        monkeypatch.setattr(bench.volumes, "set_up", slow)
        worker = node.workers.worker("uid-web")
        assert worker is not None
        worker.wake()
        await until(lambda: phase(node, "uid-web") == "Failed", 40)


class LostWhileStopping(MemoryRuntime):
    """A runtime that is lost once, a while after it was first asked to stop a container, and is back at once."""

    lost_after_seconds = 8.0
    graces: tuple[int, ...] = ()

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        """Be lost, or stop it."""
        is_first, self.graces = not self.graces, (*self.graces, grace_seconds)
        if is_first:
            await trio.sleep(self.lost_after_seconds)
            raise RuntimeUnavailable("the runtime restarts")
        await super().stop_container(container_id, grace_seconds)


async def test_a_pod_that_ends_while_the_runtime_restarts_has_the_rest_of_its_grace(autojump_clock: MockClock) -> None:
    bench = Bench()
    runtime = LostWhileStopping(bench.world, bench.problems)
    node = bench.build_node(runtime=runtime)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((pod("web", container("main", command=("stubborn",)), grace=600),)))
        await until(lambda: ["main"] == bench.running())
        removed_at = trio.current_time()
        node.slots["file"].put(Snapshot(()))
        await until(lambda: [] == bench.running(), 1000)
        lived_seconds = trio.current_time() - removed_at
        nursery.cancel_scope.cancel()

    assert (600, 592) == runtime.graces
    assert 600 < lived_seconds < 620
    assert "FailedKillPod" in [event.reason for event in node.events.all()]


@pytest.mark.parametrize("call", ["list_sandboxes", "list_containers"])
async def test_an_agent_has_started_although_the_runtime_hangs_at_its_first_list(
    call: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_uid: str | None = None) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    bench = Bench()
    runtime = MemoryRuntime(bench.world, bench.problems)
    node = bench.build_node(runtime=runtime)
    async with trio.open_nursery() as nursery:
        with monkeypatch.context() as patch:
            patch.setattr(runtime, call, hang)
            with trio.fail_after(5):
                await nursery.start(run_node, node)
            node.slots["file"].put(Snapshot((pod("web"),)))
            await trio.sleep(60)
        assert [] == bench.running()
        await until(lambda: ["main"] == bench.running(), 120)
        nursery.cancel_scope.cancel()
