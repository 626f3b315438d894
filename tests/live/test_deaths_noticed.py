"""PLEG on real containerds: a container's death is noticed by an event alone, by the first full list that follows it
where none is sent, and by a look at its pod when that was asked for. What is claimed here is by which; how soon that is
depends on the machine, and ``bench/deaths.py`` measures it.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from trikubelet.core.names import POD_NAMESPACE, POD_UID
from trikubelet.cri.channel import open_channel
from trikubelet.cri.runtime import CriImages, CriRuntime
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.gather import Gather
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerState
from trikubelet.model.runtime_config import ContainerConfig, SandboxConfig
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from live.kit.containerd import Containerd
    from trikubelet.cri.channel import Channel

pytestmark = pytest.mark.slow

UID = "uid-mortal"
DEATHS = 5
NOTICED_SECONDS_MAX = 60.0
HERALDED_SECONDS_MAX = 60.0
ONE_LIST = Bounds(relist_period_seconds=3600)


class Witness(CriRuntime):
    """A client of the runtime that remembers when full lists were asked for."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.listed: list[float] = []

    async def list_sandboxes(self, uid: str | None = None) -> Sequence[bytes]:
        """The first call of every list."""
        if uid is None:
            self.listed.append(trio.current_time())
        return await super().list_sandboxes(uid)


class Mortal:
    """A pod on a runtime that PLEG watches. Owns what was started in it."""

    def __init__(self, runtime: Witness, cache: PodCache, image: str, config: SandboxConfig, sandbox_id: str) -> None:
        self._runtime = runtime
        self._cache = cache
        self._image = image
        self._config = config
        self._sandbox_id = sandbox_id

    async def start(self, number: int) -> str:
        """A container that runs, and is known to; its id."""
        id_ = await self.make(number)
        await self._until(id_, ContainerState.RUNNING)
        return id_

    async def make(self, number: int) -> str:
        """A container that runs; its id."""
        asleep = ContainerConfig(f"c{number}", 0, self._image, command=("sleep", "600"), labels=self._config.labels)
        id_ = await self._runtime.create_container(self._sandbox_id, asleep, self._config)
        await self._runtime.start_container(id_)
        return id_

    async def seen(self, id_: str, since: float) -> ContainerState:
        """How a container is, as a worker sees it that waits for something newer than ``since``."""
        with trio.fail_after(NOTICED_SECONDS_MAX):
            found = await self._cache.newer_than(UID, since)
        return next(c.state for c in found.containers if c.id == id_)

    async def lists_before_noticed(self, id_: str) -> int:
        """Kill it and wait until that is known; how many full lists had begun after the runtime knew and before the
        list that showed it."""
        await self._runtime.stop_container(id_, 0)
        dead = trio.current_time()
        await self._until(id_, ContainerState.EXITED)
        noticed_by = self._cache.get(UID).observed_at
        return sum(dead < began < noticed_by for began in self._runtime.listed)

    async def die(self, id_: str) -> float:
        """Kill it; how many seconds after its end it was known to have ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._runtime.stop_container, id_, 0)
            await self._until(id_, ContainerState.EXITED)
            noticed = time.time()
        ended = next(c.finished_at for c in self._cache.get(UID).containers if c.id == id_)
        return noticed - ended / 1e9

    async def _until(self, id_: str, state: ContainerState) -> None:
        with trio.fail_after(NOTICED_SECONDS_MAX):
            # A cache wakes who waits for a newer observation, which is not who waits for a state.
            while (id_, state) not in [(c.id, c.state) for c in self._cache.get(UID).containers]:  # noqa: ASYNC110
                await trio.sleep(0.001)


@asynccontextmanager
async def watched(
    containerd: Containerd, bounds: Bounds, *, hints: bool = True, has_events: bool = False
) -> AsyncIterator[tuple[Mortal, Pleg, Witness]]:
    """A pod, PLEG with its hints or without, and who knows of its lists. ``has_events``: events are known to arrive."""
    cache = PodCache()
    wake: Gather[str] = Gather()
    died: Gather[str] = Gather()
    async with open_channel(containerd.endpoint) as channel:
        runtime = Witness(channel)
        image = await CriImages(channel).image_status("docker.io/library/busybox:1.36")
        assert image is not None
        labels = {POD_UID: UID, POD_NAMESPACE: "mortal"}
        config = SandboxConfig(
            UID, "mortal", "mortal", 0, labels=labels, cgroup_parent=f"{containerd.cgroup_parent}/{UID}"
        )
        pleg = Pleg(runtime, cache, wake, died, bounds)
        async with trio.open_nursery() as nursery:
            if hints:
                nursery.start_soon(pleg.follow_events, Backoff(0.1, 1.0))
            await nursery.start(pleg.run)
            if has_events:
                await _until_events_arrive(pleg, runtime, containerd.cgroup_parent)
            with pleg.changing(UID):  # as its worker says: of a stranger's pod events wait for a list of all
                sandbox_id = await runtime.run_sandbox(config)
            yield Mortal(runtime, cache, image.id, config, sandbox_id), pleg, runtime
            nursery.cancel_scope.cancel()


async def _until_events_arrive(pleg: Pleg, runtime: CriRuntime, cgroup_parent: str) -> None:
    """The stream is open once its request has arrived, which nothing tells but the first event that comes over it: run
    sandboxes of another pod until one does."""
    with trio.fail_after(HERALDED_SECONDS_MAX):
        while not pleg.figures().events_received:
            parent = f"{cgroup_parent}/uid-herald"
            labels = {POD_UID: "uid-herald", POD_NAMESPACE: "mortal"}
            herald = SandboxConfig("uid-herald", "herald", "mortal", 0, labels=labels, cgroup_parent=parent)
            id_ = await runtime.run_sandbox(herald)
            await runtime.stop_sandbox(id_)
            await runtime.remove_sandbox(id_)


async def test_starts_and_deaths_are_noticed_by_events_alone(containerd2: Containerd) -> None:
    async with watched(containerd2, ONE_LIST, has_events=True) as (mortal, pleg, runtime):
        lags = [await mortal.die(await mortal.start(number)) for number in range(DEATHS)]
        assert pleg.figures().has_reliable_events
        assert [] == pleg.uninspected_pods()
        assert 1 == len(runtime.listed)
    print(f"deaths noticed by events after {', '.join(f'{lag * 1e3:.0f}' for lag in lags)} ms")


async def test_deaths_are_noticed_by_the_first_list_that_follows_where_no_events_are_sent(
    containerd1: Containerd,
) -> None:
    async with watched(containerd1, Bounds()) as (mortal, pleg, _):
        before = [await mortal.lists_before_noticed(await mortal.start(number)) for number in range(DEATHS)]
        assert [0] * DEATHS == before
        assert 0 == pleg.figures().events_received


async def test_a_worker_that_acted_sees_what_became_of_it_without_another_full_list(containerd: Containerd) -> None:
    async with watched(containerd, ONE_LIST, hints=False) as (mortal, pleg, runtime):
        for number in range(DEATHS):
            id_, acted = await mortal.make(number), trio.current_time()
            pleg.request_relist(UID)
            assert ContainerState.RUNNING is await mortal.seen(id_, acted)
            await runtime.stop_container(id_, 0)
            acted = trio.current_time()
            pleg.request_relist(UID)
            assert ContainerState.EXITED is await mortal.seen(id_, acted)
        assert 1 == len(runtime.listed)
