"""Lists in parts while containers live on between the parts: nobody is lost, nobody counts twice.

A runtime moves containers after every part it has listed. What the relist makes of the parts is held against what was
really so from the first part to the last.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from shell.cri.crowdkit import CREATED, EXITED, READY, RUNNING, UNKNOWN, Crowd, all_of, containers_of, talking
from trikubelet.core.relist import EventKind, Relist

if TYPE_CHECKING:
    from trikubelet.cri.runtime import CriRuntime

NEXT = {CREATED: [RUNNING, EXITED], RUNNING: [UNKNOWN, EXITED], UNKNOWN: [EXITED], EXITED: []}


class Restless:
    """Owns what becomes of a crowd while it is listed. ``had``: every state a container was in since ``watch``."""

    def __init__(self, crowd: Crowd, seed: int) -> None:
        self.chance = random.Random(seed)
        self.crowd = crowd
        self.made = 0
        self.removed: set[str] = set()
        self.had: dict[str, set[int]] = {}
        self.watch()
        crowd.then = self.live_on

    def watch(self) -> None:
        """Begin again to remember."""
        self.removed = set()
        self.had = {id_: {state} for id_, state in all_of(self.crowd).items()}

    def live_on(self, _: str) -> None:
        """Some containers move on, one may go, a pod may come."""
        for id_ in self.chance.sample(sorted(self.crowd.containers), min(2, len(self.crowd.containers))):
            container = self.crowd.containers[id_]
            if NEXT[container.state]:
                container.state = self.chance.choice(NEXT[container.state])
                self.had[id_].add(container.state)
            elif self.chance.random() < 0.2:
                del self.crowd.containers[id_]
                self.removed.add(id_)
        if self.made < 20 and self.chance.random() < 0.4:
            self.made += 1
            uid, states = f"new-{self.made}", self.chance.sample([CREATED, RUNNING, EXITED], 2)
            self.crowd.add_pod(uid, *states, namespace=self.chance.choice(["one", "two"]))
            self.had |= {f"{uid}/{number}": {state} for number, state in enumerate(states)}


@pytest.mark.parametrize("seed", range(10))
async def test_a_list_in_parts_loses_no_container_and_tells_none_twice(autojump_clock: object, seed: int) -> None:
    crowd = Crowd(6_000 + 1_000 * (seed % 12))
    chance = random.Random(seed)
    for number in range(20):
        states = chance.choices([CREATED, RUNNING, EXITED, UNKNOWN], [1, 2, 6, 1], k=3)
        crowd.add_pod(f"p{number}", *states, namespace=chance.choice(["one", "two", "three"]))
    restless = Restless(crowd, seed)
    async with talking(crowd) as (runtime, _):
        for _ in range(5):
            restless.watch()
            before = set(crowd.containers)
            listed = await containers_of(runtime)

            assert set() == before - restless.removed - set(listed), "these exist and were not listed"
            assert all(state in restless.had[id_] for id_, state in listed.items()), "a state nobody was in"


async def listed_by(relist: Relist, runtime: CriRuntime) -> set[tuple[str, EventKind]]:
    """One relist: what it says happened to containers, by id."""
    changes = relist.observe(await runtime.list_sandboxes(), await runtime.list_containers())
    found = {(event.id, event.kind) for change in changes for event in change.events if not event.is_sandbox}
    for change in changes:
        relist.advance(change.uid)
    return found


@pytest.mark.parametrize("seed", range(10))
async def test_what_moved_between_two_parts_has_not_died_before_it_did_and_is_not_gone(
    autojump_clock: object, seed: int
) -> None:
    crowd = Crowd(6_000)
    for number in range(10):
        crowd.add_pod(f"p{number}", CREATED, RUNNING)
    relist = Relist()
    async with talking(crowd) as (runtime, _):
        await listed_by(relist, runtime)
        restless = Restless(crowd, seed)
        for _ in range(5):
            for id_, kind in await listed_by(relist, runtime):
                match kind:
                    case EventKind.REMOVED:
                        assert id_ in restless.removed
                    case EventKind.DIED:
                        assert EXITED in restless.had[id_] or id_ in restless.removed
                    case EventKind.STARTED:
                        assert RUNNING in restless.had[id_]

        crowd.then = lambda _: None
        await listed_by(relist, runtime)
        told = {container.id: container.state for pod in relist.pods() for container in pod.containers}
        assert all_of(crowd) == told


# One container moves at the worst moment there is. The rest of the crowd makes the list too long for one message.
MOVES = {
    "starts after the created were listed": (CREATED, CREATED, RUNNING, RUNNING),
    "starts after the running were listed": (CREATED, RUNNING, RUNNING, CREATED),
    "ends after the running were listed": (RUNNING, RUNNING, EXITED, EXITED),
    "ends before the running are listed": (RUNNING, CREATED, EXITED, EXITED),
    "ends after the exited were listed": (RUNNING, EXITED, EXITED, RUNNING),
}


@pytest.mark.parametrize(("first", "after", "then", "expected"), MOVES.values(), ids=MOVES)
async def test_the_latest_part_that_has_a_container_has_the_word(
    autojump_clock: object, first: int, after: int, then: int, expected: int
) -> None:
    crowd = Crowd(9_000)
    for number in range(10):
        crowd.add_pod(f"p{number}", EXITED)
    crowd.add_pod("moving", first)

    def move(told: str) -> None:
        if told in (f"ListContainers {after}", f"ListContainers {after} default moving"):
            crowd.containers["moving/0"].state = then

    crowd.then = move
    async with talking(crowd) as (runtime, _):
        listed = await containers_of(runtime)

    assert expected == listed["moving/0"]
    assert 11 == len(listed)


async def test_a_sandbox_that_stops_between_the_parts_is_listed_once_and_as_stopped(autojump_clock: object) -> None:
    crowd = Crowd(sandboxes_max=1_000)
    for number in range(16):
        crowd.add_pod(f"p{number}", state=number % 2)
    ready = next(one for one in crowd.sandboxes.values() if one.state == READY)

    def stop(told: str) -> None:
        if told == f"ListPodSandbox {READY}":
            ready.state = 1

    crowd.then = stop
    relist = Relist()
    async with talking(crowd) as (runtime, _):
        relist.observe(await runtime.list_sandboxes(), [])

    assert 16 == len(relist.pods())
    (pod,) = [pod for pod in relist.pods() if pod.uid == ready.metadata.uid]
    assert [1] == [sandbox.state for sandbox in pod.sandboxes]
