"""GetNewerThan, whatever happens meanwhile: a worker that waits for a newer observation gets one, and a true one.

Lives drawn from seeds, on virtual time. Workers change their pod and wait for an observation of after the change, with
and without asking for one; others change it behind their backs; lists and inspections are slow, fail and hang, and run
beside one another in every order. The runtime remembers which state each container was in at which time. So of every
observation it can be told whether it *may* have been made after the change: each container must be shown in a state
that it was in at some moment between the change and the worker's going on. A worker that is told an error is told that
of an inspection that began after its change. As in the CRI, a container's life goes one
way: created, running, exited, gone.
"""

from __future__ import annotations

import logging
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock

from shell.pleg.test_pleg import Shelf
from trikubelet.kit.backoff import Backoff
from trikubelet.kit.gather import Gather
from trikubelet.kit.instant import instant
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerEvent, ContainerState, ContainerStatus
from trikubelet.model.runtime_errors import RuntimeCallError, RuntimeFailure
from trikubelet.pleg.cache import PodCache
from trikubelet.pleg.pleg import Pleg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from trikubelet.core.pleg_pod import Job
    from trikubelet.model.runtime import PodObservation

UIDS = ("a", "b", "c")
LIFE = (ContainerState.CREATED, ContainerState.RUNNING, ContainerState.EXITED, None)
CONTAINERS_MAX = 3
BOUNDS = Bounds(
    runtime_call_seconds_max=3.0,
    inspections_max=2,
    inspection_hung_seconds=1.0,
    pod_relists_max=2,
    pod_relists_waiting_max=2,
    relist_quiet_after_seconds=1.0,
)
ROUNDS = 12
CALM_SECONDS_MAX = 2.5
"""Without problems: a period and a half, for a worker that does not ask, and the calls themselves."""


class Stage(Shelf):
    """A runtime that draws what its calls have to suffer, and remembers who was in which state when."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.is_calm = False
        self.has_events = chance.random() < 0.5
        self.history: dict[tuple[str, str], list[tuple[float, ContainerState | None]]] = {}
        self._watchers: list[trio.MemorySendChannel[ContainerEvent]] = []

    def step(self, uid: str) -> None:
        """One of the pod's containers goes on in its life, or a new one's begins."""
        states = self.containers.setdefault(uid, {})
        if not states or (len(states) < CONTAINERS_MAX and self.chance.random() < 0.4):
            id_, state = f"{uid}{len(self.history)}", LIFE[0]
        else:
            id_ = self.chance.choice(sorted(states))
            state = self.chance.choice(LIFE[LIFE.index(states[id_]) + 1 :])
        self.history.setdefault((uid, id_), [(0.0, None)]).append((instant(), state))
        if state is None:
            del states[id_]
        else:
            states[id_] = state
        if not states:
            del self.containers[uid]
        for watcher in self._watchers:
            if self.chance.random() < 0.7:  # others are lost
                watcher.send_nowait(ContainerEvent(uid, id_, 0, 0))

    def were(self, uid: str, id_: str, since: float) -> set[ContainerState | None]:
        """Every state the container was in from that instant on."""
        told = self.history.get((uid, id_), [(0.0, None)])
        before = [state for at, state in told if at <= since]
        return {before[-1], *(state for at, state in told if at > since)}

    async def suffer(self) -> None:
        """Apply the problems of a call before its work, or after."""
        if self.is_calm:
            await trio.sleep(0.001)
            return
        draw = self.chance.random()
        if draw < 0.02:
            await trio.sleep_forever()
        if draw < 0.12:
            raise RuntimeFailure("drawn")
        await trio.sleep(self.chance.choice((0.0, 0.01, 0.2, 0.9)))

    async def wait_connected(self) -> None:
        """There always is one."""
        await trio.lowlevel.checkpoint()

    async def list_sandboxes(self, uid: str | None = None) -> Sequence[bytes]:
        await self.suffer()
        return await super().list_sandboxes(uid)

    async def list_containers(self, uid: str | None = None) -> Sequence[bytes]:
        await self.suffer()
        listed = await super().list_containers(uid)
        await self.suffer()
        return listed

    async def container_status(self, id_: str) -> ContainerStatus:
        await self.suffer()
        seen = await super().container_status(id_)
        await self.suffer()
        return seen

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[ContainerEvent]]:
        if not self.has_events:
            async with super().events() as none:
                yield none
        send, receive = trio.open_memory_channel[ContainerEvent](1000)
        self._watchers.append(send)
        try:
            async with receive:
                yield receive
        finally:
            self._watchers.remove(send)


class Noting(Pleg):
    """Remembers of every failed inspection when it began."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._began: dict[Exception, float] = {}

    def _settle(self, job: Job, found: PodObservation | Exception) -> None:
        if isinstance(found, Exception):
            self._began[found] = job.began
        super()._settle(job, found)

    def check_error(self, error: Exception, acted: float) -> None:
        """True if it is that of an inspection begun since the instant ``acted``."""
        assert self._began[error] > acted


async def live(seed: int, cache_type: Callable[[], PodCache] = PodCache) -> None:
    """One life; raises AssertionError when a worker was told what cannot have been, or nothing at all."""
    chance = random.Random(seed)
    stage, cache = Stage(chance), cache_type()
    wake: Gather[str] = Gather()
    died: Gather[str] = Gather()
    pleg = Noting(stage, cache, wake, died, BOUNDS)

    async def worker(uid: str) -> None:
        for _ in range(ROUNDS):
            await trio.sleep(chance.choice((0.0, 0.01, 0.3, 2.0)))
            stage.step(uid)
            acted = instant()
            if chance.random() < 0.7:
                pleg.request_relist(uid)
            with trio.move_on_after(chance.choice((0.1, 5.0, 60.0))):
                try:
                    check(stage, await cache.newer_than(uid, acted), acted)
                except (RuntimeCallError, trio.TooSlowError) as error:
                    assert not stage.is_calm
                    pleg.check_error(error, acted)

    async def fate() -> None:
        for _ in range(ROUNDS * 2):
            await trio.sleep(chance.expovariate(2))
            stage.step(chance.choice(UIDS))

    async with trio.open_nursery() as nursery:
        await nursery.start(pleg.run)
        nursery.start_soon(pleg.follow_events, Backoff(0.1, 1.0, chance=chance))
        async with trio.open_nursery() as story:
            for uid in (*UIDS, *UIDS):
                story.start_soon(worker, uid)
            story.start_soon(fate)
        stage.is_calm = True
        await trio.sleep(2 * BOUNDS.runtime_call_seconds_max + CALM_SECONDS_MAX)  # what hangs is given up
        for uid in UIDS:
            acted = instant()
            with trio.fail_after(CALM_SECONDS_MAX):
                check(stage, await cache.newer_than(uid, acted), acted)
            assert stage.containers.get(uid, {}) == {c.id: c.state for c in cache.get(uid).containers}
        assert [] == pleg.uninspected_pods()
        nursery.cancel_scope.cancel()


def check(stage: Stage, seen: PodObservation, acted: float) -> None:
    """True if every container is shown as it was at some moment since the instant ``acted``."""
    shown = {container.id: container.state for container in seen.containers}
    for uid, id_ in stage.history:
        if uid == seen.uid:
            may_be = stage.were(uid, id_, acted)
            assert shown.get(id_) in may_be, f"{id_} is shown {shown.get(id_)} and was one of {may_be}"


def run_all(seeds: range, cache_type: Callable[[], PodCache] = PodCache) -> None:
    """Those lives, each the same every time."""
    # Trio draws the order of ready tasks itself; this is how its own pytest plugin makes that reproducible.
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    for seed in seeds:
        trio._core._run._r.seed(seed)
        trio.run(live, seed, cache_type, clock=MockClock(autojump_threshold=0))


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("trikubelet.pleg.pleg"), "disabled", True)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.nightly) for first in (30, 60, 90))])
def test_waiter_for_something_newer_gets_a_true_observation(first: int) -> None:
    run_all(range(first, first + 30))


# ---- would it be found? ----


class Hasty(PodCache):
    """Lets a list speak for pods that are under inspection."""

    def listed(self, at: float, pending: object) -> None:
        super().listed(at, ())


class Rash(PodCache):
    """Lets a newer list speak for a pod whose inspection has failed."""

    def put_error(self, uid: str, at: float, error: Exception) -> None:
        self._pending.discard(uid)
        super().put_error(uid, at, error)


class Lenient(PodCache):
    """Takes an observation begun just before for a newer one."""

    def is_newer(self, uid: str, time: float) -> bool:
        return super().is_newer(uid, time - 0.3)


class Silent(PodCache):
    """Wakes nobody when a pod was inspected."""

    def _wake(self, uid: str) -> None:
        if uid != "a":
            super()._wake(uid)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [Hasty, Rash, Lenient, Silent])
def test_a_cache_that_is_broken_on_purpose_is_found(broken: Callable[[], PodCache]) -> None:
    with pytest.raises(BaseExceptionGroup) as found:
        run_all(range(60), broken)
    assert found.value.subgroup((AssertionError, trio.TooSlowError)) is not None
