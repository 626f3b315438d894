"""What does not last is made again ever more rarely, whatever wakes its pod, and what died once at once."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
import trio

from shell.pods.shellkit import Bench, phase, until
from trikubelet.app.node import run_node
from trikubelet.model.errors import RetryAt
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.pods.making_paces import MakingPaces
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.builders import container, pod
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.replies import container_reply, sandbox_reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trio.testing import MockClock

    from trikubelet.app.node import Node
    from trikubelet.model.runtime import ContainerStatus, SandboxStatus, Undecoded
    from trikubelet.model.runtime_config import SandboxConfig


class Failing(MemoryRuntime):
    """A runtime that ends the first ``dying`` sandboxes ``lives_seconds`` after it has made them; shows all of them in
    a state that is none; or shows containers differently, for which it has ``shows``."""

    def __init__(
        self,
        bench: Bench,
        *,
        dying: int = 0,
        lives_seconds: float = 0.0,
        has_odd_state: bool = False,
        shows: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        super().__init__(bench.world, bench.problems, watcher=self._note)
        self.asked: dict[str, list[float]] = {"RunPodSandbox": [], "CreateContainer": []}
        self.nursery: trio.Nursery | None = None
        self._dying, self._lives_seconds = dying, lives_seconds
        self._has_odd_state, self._shows = has_odd_state, shows

    def _note(self, call: str, _: str) -> None:
        if call in self.asked:
            self.asked[call].append(trio.current_time())

    async def run_sandbox(self, config: SandboxConfig) -> str:
        made = await super().run_sandbox(config)
        if len(self.asked["RunPodSandbox"]) <= self._dying:
            if self._lives_seconds:
                assert self.nursery is not None
                self.nursery.start_soon(self._end, made)
            else:
                self._world.stop_sandbox(made)
        return made

    async def _end(self, sandbox_id: str) -> None:
        await trio.sleep(self._lives_seconds)
        if sandbox_id in self._world.sandboxes:
            self._world.stop_sandbox(sandbox_id)

    async def sandbox_status(self, sandbox_id: str) -> Undecoded[SandboxStatus]:
        reply = await super().sandbox_status(sandbox_id)
        if not self._has_odd_state:
            return reply
        return sandbox_reply(replace(reply.decode(), state=SandboxState.NOTREADY), self._chance)

    async def container_status(self, container_id: str) -> Undecoded[ContainerStatus]:
        reply = await super().container_status(container_id)
        return container_reply(replace(reply.decode(), **self._shows), self._chance) if self._shows else reply


@asynccontextmanager
async def agent(bench: Bench, runtime: Failing, command: str = "run") -> AsyncIterator[Node]:
    """An agent that is to run one pod."""
    node = bench.build_node(runtime=runtime)
    async with trio.open_nursery() as runtime.nursery:
        await runtime.nursery.start(run_node, node)
        node.slots["file"].put(Snapshot((pod("web", container("main", command.split())),)))
        yield node
        runtime.nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param({"dying": 1000}, id="they die at once"),
        pytest.param({"dying": 1000, "lives_seconds": 0.05}, id="they die a moment later"),
        pytest.param({"dying": 1000, "lives_seconds": 2.0}, id="they die after their containers have started"),
        pytest.param({"has_odd_state": True}, id="they are in no state that is known"),
    ],
)
async def test_sandboxes_that_do_not_last_are_made_ever_more_rarely(
    failing: dict[str, float], autojump_clock: MockClock
) -> None:
    bench = Bench()
    runtime = Failing(bench, **failing)  # type: ignore[arg-type]
    async with agent(bench, runtime):
        await trio.sleep(120)

    assert 10 <= len(runtime.asked["RunPodSandbox"]) <= 20
    assert len(runtime.asked["CreateContainer"]) <= 20


@pytest.mark.parametrize(
    "shows",
    [
        pytest.param({"name": "stranger"}, id="it has another name"),
        pytest.param({"state": ContainerState.UNKNOWN}, id="it is in no state that is known"),
    ],
)
async def test_a_container_that_is_never_seen_to_run_is_made_ever_more_rarely(
    shows: dict[str, object], autojump_clock: MockClock
) -> None:
    bench = Bench()
    runtime = Failing(bench, shows=shows)
    async with agent(bench, runtime, "exit 0 0"):
        await trio.sleep(120)

    assert 10 <= len(runtime.asked["CreateContainer"]) <= 20
    assert 1 == len(runtime.asked["RunPodSandbox"])


async def test_a_container_that_cannot_be_made_says_why_while_it_waits_for_the_next_time(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    runtime = Failing(bench)
    async with agent(bench, runtime, "unmakeable") as node:
        await until(lambda: bool(runtime.asked["CreateContainer"]))
        for _ in range(5):
            await trio.sleep(0.1)
            node.workers.wake(["uid-web"])
        await trio.sleep(0.1)
        (status,) = node.statuses.get("uid-web").container_statuses

    assert 2 == len(runtime.asked["CreateContainer"])
    assert ("CreateContainerError", "this container cannot be made") == (
        status.state.waiting.reason,
        status.state.waiting.message,
    )


@pytest.mark.parametrize("lives_seconds", [0.0, 0.05])
async def test_pod_gets_another_sandbox_at_once_after_one_death(
    lives_seconds: float, autojump_clock: MockClock
) -> None:
    bench = Bench()
    runtime = Failing(bench, dying=1, lives_seconds=lives_seconds)
    async with agent(bench, runtime) as node:
        await until(lambda: ["main"] == bench.running() and 2 == len(runtime.asked["RunPodSandbox"]))
        first, second = runtime.asked["RunPodSandbox"]
        await until(lambda: phase(node, "uid-web") == "Running")

    assert second - first < 0.5


async def test_a_pod_that_waits_for_its_next_sandbox_ends_at_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    runtime = Failing(bench, dying=1000)
    async with agent(bench, runtime) as node:
        await until(lambda: len(runtime.asked["RunPodSandbox"]) == 6)
        await trio.sleep(1)  # of the 10 that it waits
        node.slots["file"].put(Snapshot())
        await until(lambda: "uid-web" not in node.workers, 5)

    assert 6 == len(runtime.asked["RunPodSandbox"])


def waits(paces: MakingPaces, name: str) -> bool:
    """True if another sandbox of that pod has to wait; it is made if not."""
    try:
        paces.confirm_sandbox(pod(name))
    except RetryAt:
        return True
    paces.sandbox_made(pod(name))
    return False


async def test_each_pod_has_its_own_pace_until_it_is_forgotten(autojump_clock: MockClock) -> None:
    paces = MakingPaces()
    assert [False, False, True] == [waits(paces, "web") for _ in range(3)]
    assert not waits(paces, "other")
    paces.forget("uid-web")

    assert [False, False, True] == [waits(paces, "web") for _ in range(3)]


async def test_each_container_has_its_own_pace_in_each_sandbox(autojump_clock: MockClock) -> None:
    paces, web = MakingPaces(), pod("web")
    for _ in range(2):
        paces.confirm_container(web, container("main"), "s1")
        paces.container_made(web, container("main"), "s1")
    paces.confirm_container(web, container("main"), "s2")
    paces.confirm_container(web, container("other"), "s1")
    paces.confirm_container(web, container("main", image="app:2"), "s1")

    with pytest.raises(RetryAt) as raised:
        paces.confirm_container(web, container("main"), "s1")
    assert ("main", trio.current_time() + 1) == (raised.value.container, raised.value.at)


async def test_when_its_pod_starts_over_a_container_waits_for_nothing_and_a_sandbox_does(
    autojump_clock: MockClock,
) -> None:
    paces, web = MakingPaces(), pod("web")
    for _ in range(2):
        paces.sandbox_made(web)
        paces.container_made(web, container("main"), "s1")
    paces.start_over(web)

    paces.confirm_container(web, container("main"), "s1")
    assert waits(paces, "web")


async def test_what_is_too_old_to_count_is_not_kept(autojump_clock: MockClock) -> None:
    paces = MakingPaces()
    for number in range(100):
        paces.sandbox_made(pod(f"p{number}"))
        await trio.sleep(5)

    assert 5 == len(paces)


async def test_a_static_pod_that_comes_back_does_not_wait_for_what_its_predecessor_has_made(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    runtime = Failing(bench, dying=6)
    async with agent(bench, runtime) as node:
        await until(lambda: len(runtime.asked["RunPodSandbox"]) == 6)
        node.slots["file"].put(Snapshot())
        await until(lambda: "uid-web" not in node.workers, 5)
        node.slots["file"].put(Snapshot((pod("web", container("main")),)))
        await until(lambda: ["main"] == bench.running(), 5)

    assert 7 == len(runtime.asked["RunPodSandbox"])
