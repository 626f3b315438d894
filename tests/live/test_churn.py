"""Many pods at once, on real containerds: PLEG tells all that happened to their containers, once, and nothing else.

Two thirds of the pods have a container that ends by itself again and again and that the agent restarts; the rest are
guests, of which every second the oldest goes and a new one comes. In the end all go. The witness is containerd's event
stream (``kit/transitions.py``); how long it takes until something is told is measured in ``bench/deaths.py``.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from live.kit.agent import Agent
from live.kit.daemon import await_that
from live.kit.manifests import container, pod
from live.kit.transitions import Kind, Transition, happened, invented, missing, published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from live.kit.containerd import Containerd
    from live.kit.events import EventLog

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SECONDS = float(os.environ.get("TRIKUBELET_LIVE_CHURN_SECONDS", "300"))
"""How long pods come and go on containerd 2.x. The older one, which differs in that it sends no events, gets a fifth of
the time and a quarter of the pods."""
PODS = 200
SETTLE_SECONDS_MAX = 600.0
LOOK_SECONDS = 2.0
"""Between two looks at all pods, which cost the agent something."""
LIFE_MS = (4000, 9000)


class Churn:
    """Owns the pods that are there to end: which there are, and who goes next."""

    def __init__(self, agent: Agent, pods: int) -> None:
        self._agent = agent
        self._chance = random.Random(pods)
        self._guests: list[str] = []
        self._came = 0
        for number in range(pods * 2 // 3):
            life_ms = str(self._chance.randint(*LIFE_MS))
            agent.put(pod(f"again-{number}", container("c", "exit", str(number % 2), life_ms), hostNetwork=True))
        for _ in range(pods - pods * 2 // 3):
            self.come()

    def come(self) -> None:
        """A new guest."""
        name = f"guest-{self._came}"
        self._came += 1
        self._agent.put(pod(name, container("c", "trap", "100"), hostNetwork=True))
        self._guests.append(name)

    def turn(self) -> None:
        """The oldest guest goes, and another comes."""
        self._agent.take(self._guests.pop(0))
        self.come()

    def end(self) -> None:
        """Everybody goes."""
        for path in self._agent.manifests.iterdir():
            path.unlink()


def have_begun(found: dict[str, dict[str, Any]], pods: int) -> bool:
    """Whether so many pods are there and each has had a container."""
    phases = Counter(one.get("status", {}).get("phase") for one in found.values())
    return phases["Pending"] + phases[None] == 0 and phases.total() == pods


def blind_seconds(agent: Agent) -> float:
    """How long a container may have lived at most without being seen alive, as the agent has measured its own work:
    from one full list's beginning to the next one's, until that was there, and until its pods were inspected."""
    measured = agent.measured()
    return sum(
        _longest(measured, name)
        for name in (
            "kubelet_pleg_relist_interval_seconds",
            "kubelet_pleg_relist_duration_seconds",
            "trikubelet_pleg_inspection_duration_seconds",
        )
    )


def _longest(measured: dict[str, float], name: str) -> float:
    """The bound that the longest of a histogram's values did not pass."""
    buckets = {float(key.split('"')[1]): count for key, count in measured.items() if key.startswith(f"{name}_bucket")}
    return min(bound for bound, count in buckets.items() if count == max(buckets.values()))


def story(agent: Agent, events: EventLog) -> str:
    """What each says of the containers in which they differ."""
    real, told = happened(events.all), published(agent.log_path)
    differ = {id_ for _, id_ in missing(real, told, blind_seconds(agent))} | {id_ for id_, _ in invented(real, told)}
    lines = [f"{id_}\n  happened {_spelt(real, id_)}\n  told     {_spelt(told, id_)}" for id_ in sorted(differ)]
    return "\n".join([f"{len(differ)} containers are told of otherwise than it was:", *lines[:50]])


def _spelt(transitions: list[Transition], id_: str) -> str:
    return ", ".join(f"{one.kind.name} {one.when:.3f}" for one in transitions if one.container == id_)


def test_what_happens_to_churning_pods_is_told_once_and_nothing_else(containerd: Containerd) -> None:
    is_newer = containerd.major >= 2
    pods, seconds = (PODS, SECONDS) if is_newer else (PODS // 4, SECONDS / 5)
    with containerd.events() as events, Agent(containerd, maxPods=2 * pods) as agent:
        churn = Churn(agent, pods)
        agent.wait(lambda found: have_begun(found, pods), "all have begun", SETTLE_SECONDS_MAX, LOOK_SECONDS)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            churn.turn()
            time.sleep(1)
        churn.end()
        agent.wait(lambda found: not found and not containerd.tasks(), "all go", SETTLE_SECONDS_MAX, LOOK_SECONDS)

        compared: list[Sequence[Transition]] = []

        def is_told() -> bool:
            compared[:] = real, told = happened(events.all), published(agent.log_path)
            return not missing(real, told, blind_seconds(agent)) and not invented(real, told)

        await_that(is_told, 60, lambda: story(agent, events), LOOK_SECONDS)
        real, told = (Counter(one.kind for one in transitions) for transitions in compared)
        # Each sandbox and each container ended; those that end by themselves more than once.
        assert real[Kind.DIED] > 2 * pods
        print(f"\n{pods} pods, {seconds:g} s: {_counted(real)} happened, {_counted(told)} told;", end=" ")
        print(f"may be overlooked: less than {blind_seconds(agent):g} s")


def _counted(kinds: Counter[Kind]) -> str:
    return f"{kinds[Kind.STARTED]} starts, {kinds[Kind.DIED]} deaths, {kinds[Kind.REMOVED]} removals"
