"""A node that holds more dead containers than its runtime can list: garbage goes pod by pod until it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from shell.cri.crowdkit import EXITED, NOT_READY, Crowd, talking
from shell.pods import shellkit
from shell.pods.shellkit import Bench, until
from trikubelet.app.node import run_node
from trikubelet.core.names import POD_UID, log_directory_name
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
from trikubelet.model.runtime_errors import MessageTooLarge
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import pod
from trikubelet.testing.memory_runtime import MemoryRuntime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.testing import MockClock

LISTED_MAX = 60
HUNG = {"uid-a-hung", "uid-b-hung", "uid-c-hung"}


class Narrow(MemoryRuntime):
    """A runtime that lists ``LISTED_MAX`` sandboxes or containers at most."""

    async def list_sandboxes(self, pod_uid: str | None = None) -> Sequence[bytes]:
        if pod_uid is None and len(self._world.sandboxes) > LISTED_MAX:
            raise MessageTooLarge("the sandboxes do not fit")
        return await super().list_sandboxes(pod_uid)

    async def list_containers(self, pod_uid: str | None = None) -> Sequence[bytes]:
        if pod_uid is None and len(self._world.containers) > LISTED_MAX:
            raise MessageTooLarge("the containers do not fit")
        return await super().list_containers(pod_uid)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench with such a runtime on it."""
    monkeypatch.setattr(shellkit, "MemoryRuntime", Narrow)
    return Bench()


def leave_behind(bench: Bench, name: str, sandboxes: int, containers: int) -> None:
    """Make the leftovers of a pod that crashed for a long time: dead sandboxes with dead containers in them."""
    uid = f"uid-{name}"
    for attempt in range(sandboxes):
        config = SandboxConfig(uid=uid, name=name, namespace="default", attempt=attempt, labels={POD_UID: uid})
        sandbox = bench.world.run_sandbox(config)
        for number in range(containers):
            made = ContainerConfig("main", attempt * containers + number, "app:1", labels={POD_UID: uid})
            container = bench.world.create_container(sandbox, made)
            bench.world.start_container(container)
            bench.world.end(container, 1)
        bench.world.stop_sandbox(sandbox)


async def test_dead_containers_go_pod_by_pod_until_the_node_can_be_listed_again(
    bench: Bench, autojump_clock: MockClock
) -> None:
    for number in range(10):
        leave_behind(bench, f"old-{number}", sandboxes=1, containers=20)
    async with bench.agent(pod("wanted")) as node:
        await trio.sleep(1)
        assert "the containers do not fit" in str(node.pleg.unhealthy())
        await until(lambda: node.pleg.unhealthy() is None)
        await until(lambda: [sandbox.uid for sandbox in bench.world.sandboxes.values()] == ["uid-wanted"])
        await until(lambda: bench.running() == ["main"])


async def test_dead_containers_beyond_a_message_are_listed_in_parts_and_removed(
    autojump_clock: MockClock,
) -> None:
    crowd = Crowd(64 * 1024)
    for number in range(30):
        crowd.add_pod(f"p{number}", *[EXITED] * 10, namespace=f"ns-{number % 2}", state=NOT_READY)
    async with talking(crowd) as (runtime, _), trio.open_nursery() as nursery:
        node = Bench().build_node(runtime=runtime)
        await nursery.start(run_node, node)
        await trio.sleep(1)
        assert 300 == node.pleg.counts().exited
        assert node.pleg.unhealthy() is None
        node.slots["file"].put(Snapshot())
        await until(lambda: not crowd.containers and not crowd.sandboxes)
        await trio.sleep(10)
        crowd.asked.clear()
        await until(lambda: len(crowd.asked) >= 4)
        assert ["ListPodSandbox", "ListContainers"] * 2 == crowd.asked[:4]
        (told,) = [event for event in node.events.all() if event.reason == "RuntimeListTooLarge"]
        assert "containers are listed by pod" in told.message
        nursery.cancel_scope.cancel()


async def test_dead_sandboxes_are_found_by_the_logs_of_their_pods_when_even_they_cannot_be_listed(
    bench: Bench, autojump_clock: MockClock
) -> None:
    for number in range(7):
        leave_behind(bench, f"old-{number}", sandboxes=10, containers=0)
        await bench.files.make_log_directory(
            log_directory_name("default", f"old-{number}", f"uid-old-{number}"), "main"
        )
    async with bench.agent() as node:
        await trio.sleep(1)
        assert "the sandboxes do not fit" in str(node.pleg.unhealthy())
        await until(lambda: node.pleg.unhealthy() is None)
        await until(lambda: not bench.world.sandboxes)


async def test_a_pod_that_cannot_be_listed_itself_does_not_keep_the_garbage_of_the_others(
    bench: Bench, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def list_containers(self: Narrow, pod_uid: str | None = None) -> Sequence[bytes]:
        if pod_uid in (None, "uid-a-huge"):
            raise MessageTooLarge("the exited containers of pod uid-a-huge do not fit")
        return await MemoryRuntime.list_containers(self, pod_uid)

    monkeypatch.setattr(Narrow, "list_containers", list_containers)
    leave_behind(bench, "a-huge", sandboxes=1, containers=5)
    leave_behind(bench, "b", sandboxes=1, containers=5)
    async with bench.agent() as node:
        await trio.sleep(500)
        told = [event for event in node.events.all() if event.reason == "ContainerGCFailed"]

    assert 6 == len(bench.world.containers), "of b, whose end nobody is sure of before the first list, the newest stays"
    assert [("Cannot list pod uid-a-huge, will try again: the exited containers of pod uid-a-huge do not fit", 1)] == [
        (event.message, event.count) for event in told
    ]


async def test_pods_with_hanging_lists_do_not_block_the_garbage_of_others(
    bench: Bench, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def list_containers(self: Narrow, pod_uid: str | None = None) -> Sequence[bytes]:
        if pod_uid is None:
            raise MessageTooLarge("the containers do not fit")
        if pod_uid in HUNG:
            await trio.sleep_forever()
        return await MemoryRuntime.list_containers(self, pod_uid)

    monkeypatch.setattr(Narrow, "list_containers", list_containers)
    for name in ("a-hung", "b-hung", "c-hung", "d"):
        leave_behind(bench, name, sandboxes=1, containers=5)
    async with bench.agent():
        await until(lambda: len(bench.world.containers) == 16, seconds=500)


async def test_recent_failure_of_lists_does_not_list_pod_by_pod(
    bench: Bench, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    async def list_sandboxes(self: Narrow, pod_uid: str | None = None) -> Sequence[bytes]:
        asked.append(pod_uid)
        if pod_uid is None and (trio.current_time() + 10) % 60 >= 20:  # a pass begins each full minute
            return await MemoryRuntime.list_sandboxes(self)
        raise MessageTooLarge("the sandboxes do not fit")

    async with bench.agent(pod("wanted")) as node:
        await until(lambda: bench.running() == ["main"])
        await trio.sleep(30)
        monkeypatch.setattr(Narrow, "list_sandboxes", list_sandboxes)
        await until(lambda: trio.current_time() > 181, seconds=180)
        assert node.pleg.failing_since is not None

    assert {None} == set(asked)


async def test_a_node_that_can_be_listed_again_is_not_asked_for_its_pods_one_by_one_any_more(
    bench: Bench, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def list_sandboxes(self: Narrow, pod_uid: str | None = None) -> Sequence[bytes]:
        asked.append(pod_uid)
        if trio.current_time() < 400:
            await trio.sleep_forever()
        await trio.sleep(1)
        return await MemoryRuntime.list_sandboxes(self, pod_uid)

    monkeypatch.setattr(Narrow, "list_sandboxes", list_sandboxes)
    for number in range(100):
        await bench.files.make_log_directory(log_directory_name("default", "gone", f"uid-{number}"), "main")
    async with bench.agent() as node:
        await trio.sleep(1000)

    assert "uid-1" in asked
    assert "uid-99" not in asked, "all of them would take a minute and a half, and a list of everything comes before"
    assert [] == [event for event in node.events.all() if event.reason == "ContainerGCFailed"]
