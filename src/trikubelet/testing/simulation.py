"""A whole node from a seed: an agent in a world in memory, on virtual time, with all kinds of failures.

    play     pods come, change and go; containers and sandboxes die; calls are slow, fail, lose their answers or hang;
             the agent is stopped, killed and started again, the machine reboots
    calm     no more failures
    settle   within a bounded time the world must be in the desired state, and stay so

``run_node(seed)`` runs one such simulation ("life"). The same seed gives the same one, to the last step, in any
process: the order in which Trio runs tasks, the problems and the scenario are all drawn from it. So a seed is a full
bug report; its trace has one line per decision and call.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import trio
import trio.testing

from trikubelet.app.node import Ports, Rules, build_node
from trikubelet.app.node import run_node as run_agent
from trikubelet.core.containers import NodeFacts
from trikubelet.core.lifecycle import Finished
from trikubelet.core.restarts import BackoffLimits
from trikubelet.images.puller import PullRules
from trikubelet.model.bounds import Bounds
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing import truth
from trikubelet.testing.bug_reports import errors_blamed
from trikubelet.testing.chance import NO_PROBLEM, ImageProblems, Odds, Problems, VolumeProblems
from trikubelet.testing.memory_handlers import MemoryHandlers
from trikubelet.testing.memory_host import (
    MemoryContainerLogs,
    MemoryPodCgroups,
    MemoryPodFiles,
    MemoryVolumes,
    VirtualClock,
)
from trikubelet.testing.memory_images import MemoryImages
from trikubelet.testing.memory_pulls import MemoryLogins, MemoryPullRecords
from trikubelet.testing.memory_runtime import MemoryRuntime
from trikubelet.testing.observer import Observer
from trikubelet.testing.scenario import SOURCES, Scenario, Wanted
from trikubelet.testing.settings import Settings
from trikubelet.testing.weather import weather_of_calls, weather_of_volumes
from trikubelet.testing.witness import Witness
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.app.node import Node
    from trikubelet.core.containers.volume_files import Files
    from trikubelet.model import k8s

BOUNDS = Bounds(
    runtime_call_seconds_max=6.0,
    settle_seconds_max=1.0,
    resync_seconds=20.0,
    retry_seconds=2.0,
    garbage_period_seconds=10.0,
    changes_waiting_max=2,
    inspections_max=2,
    events_kept_max=40,
)
"""Like in production, but smaller, so that a simulation is short and every bound is reached."""
AMOUNTS = {"cpu": 4000, "memory": 1 << 33, "pods": 110}
FACTS = NodeFacts("n", ("192.0.2.1",), 1 << 33, capacity=AMOUNTS, allocatable=AMOUNTS)
LIMITS = BackoffLimits(first_seconds=1.0, seconds_max=4.0)
CONVERGE_SECONDS_MAX = 90.0
"""From calm to the desired state: a hung call, an image backoff of 20 s, a grace period, a garbage collection,
retries."""
STAYS_SECONDS = 3.0
NOTICES_SECONDS_MAX = 12.0
STEPS_AT_ONCE_MAX = 20_000
"""Steps of all tasks before time passes. A whole simulation has a few thousand: more are a loop without a pause."""
KILLED_SHARE = 0.5
"""The share of ending agents that are killed: their calls end with them, where the others settle them."""
MAKING = ("RunPodSandbox", "CreateContainer", "StartContainer", "StartContainer")
KILLED_MAKING_SHARE = 0.1
"""The share of events after which the agent is killed when it next creates or starts something."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a simulation ended. ``violations`` is empty when every rule held; ``trace`` is filled when requested."""

    seed: int
    violations: tuple[str, ...]
    lived_seconds: float
    steps: int
    trace: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        """True if every rule held."""
        return not self.violations


def run_node(seed: int, *, trace: bool = False) -> Outcome:
    """Run the simulation of that seed; with ``trace``, keep one line per decision and call. Never raises the agent's
    errors: they are the outcome."""
    return run_life(Life(seed, trace=trace))


def run_life(life: Life) -> Outcome:
    """Run a simulation that has not started. Never raises the agent's errors: they are the outcome."""
    # Trio runs the ready tasks in a random order. Both settings are those of Trio's own pytest plugin for reproducible
    # runs; there is no public way.
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # Final for all but these
    trio._core._run._r.seed(life.seed)
    with errors_blamed(life.world, life.witness):
        return trio.run(life.live, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[life])


INVALID = "/manifests/broken.yaml"
"""A manifest that cannot be read."""


class LiveIt(Protocol):
    """A function that runs a seed's simulation."""

    def __call__(self, seed: int, *, trace: bool = False) -> Outcome: ...


class Life(trio.abc.Instrument):
    """Owns one simulation: its world, its disk, the desired pods, and the running agent. ``sources`` are those the
    scenario drives; ``converge_seconds_max``: from calm to the desired state; ``notices_seconds_max``: back to it, for
    containers exit by themselves even then."""

    sources: Sequence[str] = SOURCES
    converge_seconds_max = CONVERGE_SECONDS_MAX
    notices_seconds_max = NOTICES_SECONDS_MAX
    bounds = BOUNDS
    moves_share = 0.0
    """The share of events after which a UID moves; 0 draws nothing."""
    described: k8s.Node | None = None
    """The node's object as long as no cluster has one."""

    def __init__(self, seed: int, *, trace: bool) -> None:
        self.seed = seed
        self.world = World(keeps_trace=trace, sends_events=seed % 3 != 0)
        self.wanted = Wanted()
        self.witness = Witness(self.world, self.wanted)
        self.files = MemoryPodFiles()
        self.volume_problems = VolumeProblems(NO_PROBLEM, random.Random(f"volumes {seed}"))  # noqa: S311 - a seed
        self.volumes = MemoryVolumes(self.volume_problems, self.witness.volumes_gone)
        self.cgroups = MemoryPodCgroups()
        self.chance = random.Random(f"story {seed}")  # noqa: S311 - a simulation's seed
        self.settings = Settings(seed, self.world)
        self.lent: list[Settings] = [self.settings]
        self.scenario = Scenario(self.chance, self.wanted, self.world, self.settings, self.sources)
        problems = random.Random(f"troubles {seed}")  # noqa: S311 - the fixed seeds were found with this word
        self.runtime_problems = Problems(NO_PROBLEM, problems)
        self.image_problems = ImageProblems(NO_PROBLEM, problems, random.Random(f"pulls {seed}"))  # noqa: S311 - a seed
        self.images = MemoryImages(["app:1", "app:2"], ["web:2"], self.image_problems)
        self.records = MemoryPullRecords()
        self.node: Node | None = None
        self.observer: Observer | None = None
        self.agent_scope = trio.CancelScope()
        self.runtime: MemoryRuntime | None = None
        self.kills = random.Random(f"kills {seed}")  # noqa: S311 - a simulation's seed; drawn apart
        self.moves = random.Random(f"moves {seed}")  # noqa: S311 - a simulation's seed; drawn apart
        self.kill_downtime = 0.0
        self.calm_at = math.inf
        self._agents = 0
        self.steps = 0
        self._here = (0.0, 0)  # the instant, and how many steps had been made when it began

    # ---- instrument ----

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1
        now, (instant, before) = trio.current_time(), self._here
        if now != instant:
            self._here = (now, self.steps)
        elif self.steps - before == STEPS_AT_ONCE_MAX:
            self.witness.blame(f"{STEPS_AT_ONCE_MAX} steps are made and no time passes")
        if self.observer is not None:
            self.observer.look()

    # ---- the simulation ----

    async def live(self) -> Outcome:
        """Run the simulation, from its first agent to its final check."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_when_broken, nursery.cancel_scope)
                nursery.start_soon(self._keep_an_agent)
                await self._play()
                await self._calm()
                await self._settle()
                nursery.cancel_scope.cancel()
        except* Exception as group:
            for error in _leaves(group):
                self.witness.blame(f"{type(error).__name__}: {error}")
        return Outcome(
            self.seed,
            tuple(self.witness.violations),
            trio.current_time(),
            self.steps,
            tuple(self.world.trace),
        )

    async def _end_when_broken(self, scope: trio.CancelScope) -> None:
        await self.witness.broken.wait()
        scope.cancel()

    async def _keep_an_agent(self) -> None:
        """Restart an agent that ends, as systemd does."""
        tasks = _count_tasks()
        while True:
            await self._one_agent()
            if _count_tasks() != tasks:
                self.witness.blame(f"an agent left {_count_tasks() - tasks} tasks behind")
            await trio.sleep(self.kill_downtime)

    async def _one_agent(self) -> None:
        observer = Observer(self.witness, self.world, self.wanted, self.volumes, self.lent)
        heard = observer.answers.heard
        runtime = self.runtime = MemoryRuntime(self.world, self.runtime_problems, self.chance, observer.on_call, heard)
        handlers = MemoryHandlers(self.world, heard)
        ports = Ports(
            runtime,
            self.images,
            self.files,
            MemoryContainerLogs(self.files),
            self.volumes,
            self.cgroups,
            handlers,
            self.records,
            MemoryLogins(),
            VirtualClock(),
        )
        chance = random.Random(self.chance.random())  # noqa: S311 - a simulation's seed
        rules = Rules(self.bounds, LIMITS, PullRules(2))
        facts = replace(FACTS, booted_ns=self.world.booted_ns)
        node = build_node(ports, facts, rules, SOURCES, chance, described=self.described)
        observer.follow(node)
        self.world.note("== an agent starts")
        self.node, self.observer = node, observer
        self._agents += 1
        with trio.CancelScope() as self.agent_scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._speak_at_first, node)
                await self._run_agent(node, observer)
        self.world.note("== the agent has ended")

    async def _run_agent(self, node: Node, observer: Observer) -> None:
        """Run the agent until cancelled."""
        await run_agent(node)

    async def _speak_at_first(self, node: Node) -> None:
        """Send the sources' first snapshots when they are ready, in any order."""
        for source in self.chance.sample(self.sources, len(self.sources)):
            if self.chance.random() < 0.5:
                await trio.sleep(self.chance.uniform(0, 4))
            node.slots[source].put(self._snapshot(source))

    # ---- the events ----

    async def _play(self) -> None:
        for _ in range(self.chance.randint(5, 20)):
            await trio.sleep(self.chance.expovariate(1 / 1.5))
            if self.observer is not None:
                self.observer.check_bounds()
            self._happen()
            if self.moves_share and self.moves.random() < self.moves_share:
                for source in self.scenario.move_uid():
                    self._publish(source)
            self._publish(self.settings.happen())
            self._let_deleted_go()

    def _happen(self) -> None:
        """Cause one event."""
        if self.runtime is not None and self.kills.random() < KILLED_MAKING_SHARE:
            self.runtime.caller.at_effect[self.kills.choice(MAKING)] = self._kill_agent
        draw = self.chance.random()
        if draw < 0.12:
            self._end_agent()
        elif draw < 0.15:
            self._end_agent()
            self.world.reboot()
        elif draw < 0.35:
            self._new_weather()
        else:
            self._publish(self.scenario.happen())

    def _new_weather(self) -> None:
        """Draw new problems of calls for a while."""
        slow, weather = weather_of_calls(self.chance)
        # Slow to the point of hanging, and back when it is too late; drawn apart, so that the other problems stay the
        # same.
        self.volume_problems.odds = weather_of_volumes(self.volume_problems.chance, slow)
        self.world.note(f"** weather: {weather}, at the volumes: {self.volume_problems.odds}")
        self.runtime_problems.odds = weather
        self.image_problems.odds = Odds(slow, error=min(weather.error, 0.2))
        self.image_problems.hang = self.image_problems.hangs.choice((0.0, 0.5))

    def _end_agent(self) -> None:
        self.world.note("** the agent is asked to end")
        self._agent_goes(self.chance)
        if self.runtime is not None and self.kills.random() < KILLED_SHARE:
            self.world.note("** and is killed at once")
            self.runtime.caller.kill()

    def _kill_agent(self) -> None:
        if self.observer is not None and self.runtime is not None:
            self.world.note("** the agent is killed before it is answered")
            self._agent_goes(self.kills)
            self.runtime.caller.kill()

    def _agent_goes(self, chance: random.Random) -> None:
        """Mark the agent as ended: from now on it must do nothing. ``chance`` draws the downtime until the next
        agent."""
        if self.observer is not None:
            self.observer.end()
        self.kill_downtime = chance.choice((0.0, 0.5, 3.0))
        self.agent_scope.cancel()

    def _publish(self, source: str | None) -> None:
        if source is not None and self.node is not None:
            self.node.slots[source].put(self._snapshot(source))

    def _snapshot(self, source: str) -> Snapshot:
        # Every second agent has an invalid manifest as well: counted, because drawing it would make every seed another.
        # In the end it is fixed, or pods removed while no agent ran would stay.
        invalid = (INVALID,) if source == "file" and self._agents % 2 == 0 and math.isinf(self.calm_at) else ()
        return Snapshot(self.wanted.snapshot(source), invalid, objects=self.settings.snapshot(source))

    def _let_deleted_go(self) -> None:
        """Remove a pod whose deletion was requested once its node has finished with it, as the API server does."""
        for source, pod in self.wanted.all():
            worker = self.node.workers.worker(pod.metadata.uid) if self.node else None
            if pod.metadata.deletion_timestamp and worker and isinstance(worker.state, Finished):
                self.wanted.drop(source, pod)
                self._publish(source)

    async def _calm(self) -> None:
        self.world.note("** from now on nothing goes wrong")
        self.calm_at = trio.current_time()
        self.runtime_problems.odds = self.image_problems.odds = self.volume_problems.odds = Odds(0.001)
        self.image_problems.end_hangs()
        if self.runtime is not None:
            self.runtime.caller.at_effect.clear()  # planned kills that have not happened yet
        self._publish(self.settings.calm())
        if "file" in self.sources:
            self._publish("file")

    # ---- the end ----

    async def _settle(self) -> None:
        if not await self._becomes_right(self.converge_seconds_max):
            self.witness.blame(f"{self.converge_seconds_max:.0f} s after the last problem: {self._wrong()}")
            return
        await trio.sleep(STAYS_SECONDS)
        if not await self._becomes_right(self.notices_seconds_max):  # containers exit by themselves even now
            self.witness.blame(f"order was reached and lost: {self._wrong()}")

    async def _becomes_right(self, seconds_max: float) -> bool:
        with trio.move_on_after(seconds_max):
            while self._wrong():
                await trio.sleep(1.0)
                self._let_deleted_go()
        return self._wrong() is None

    def _wrong(self) -> str | None:
        """The first difference from the desired state."""
        assert self.node is not None
        wanted = [pod for _, pod in self.wanted.all()]
        uids = frozenset(pod.metadata.uid for pod in wanted)
        left = truth.unwanted_left(self.world, uids)
        if left:
            return left
        for pod in wanted:
            if pod.metadata.deletion_timestamp:
                return f"pod {pod.metadata.name} was to be deleted and is still there"
            unlike = truth.unlike(self.world, pod, self.calm_at, ambiguous=pod.metadata.uid in self.wanted.ambiguous)
            unlike = unlike or truth.ill_shown(self.world, pod, self.node.statuses.get(pod.metadata.uid))
            if unlike:
                return unlike
        for lent in self.lent:
            if outdated := lent.outdated(self._volumes_of(wanted)):
                return outdated
        for what, found in {
            "pod directories": frozenset(self.files.pods),
            "volumes": frozenset(self.volumes.mounted),
            "cgroups": frozenset(self.cgroups.leftovers()),
            "workers": frozenset(worker.pod.metadata.uid for worker in self.node.workers),
            "statuses": frozenset(pod.metadata.uid for pod, _ in self.node.statuses),
            "references": frozenset(self.node.objects.manifests.pods),
        }.items():
            if found - uids:
                return f"{what} of orphaned pods are left: {', '.join(sorted(found - uids))}"
        return None

    def _volumes_of(self, wanted: Sequence[k8s.Pod]) -> dict[str, Files]:
        """Return the files of the volumes, by path, without those that no desired pod of the UID has: a pod whose UID
        was moved left them on the disk, their owner is unknown, and they go with the UID's last pod."""
        named = {pod.metadata.uid: {volume.name for volume in pod.spec.volumes} for pod in wanted}
        found = {}
        for path, files in self.volumes.files.items():
            _, _, uid, _, name = path.split("/")
            if name in named.get(uid, {name}):
                found[path] = files
        return found


def _count_tasks() -> int:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, count = [root], 0
    while waiting:
        task = waiting.pop()
        count += 1
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)
    return count


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
