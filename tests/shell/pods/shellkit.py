"""What the shell's tests share: a bench with a world on it, and parts that only say what they were asked."""

from __future__ import annotations

import os
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from shell.csikit import NoThreads
from trikubelet.app.node import Node, Ports, Rules, build_node, run_node
from trikubelet.core.containers import NodeFacts
from trikubelet.core.containers.memory_rules import MemoryRules
from trikubelet.core.eviction import EvictionRules
from trikubelet.core.image_garbage import ImageRules
from trikubelet.core.lifecycle import Outcome
from trikubelet.core.restarts import BackoffLimits
from trikubelet.devices.none import NoDevices
from trikubelet.host.container_logs import DiskContainerLogs
from trikubelet.host.pod_files import DiskPodFiles
from trikubelet.images.puller import PullRules
from trikubelet.kit.threads import ThreadPool
from trikubelet.model import k8s
from trikubelet.model.bounds import Bounds
from trikubelet.model.runtime import ContainerState, PodObservation
from trikubelet.sources.snapshot import Snapshot
from trikubelet.testing.chance import Odds, Problems
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
from trikubelet.testing.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from trikubelet.core.lifecycle import Terminated, Terminating
    from trikubelet.core.node_shutdown import ShutdownGroup
    from trikubelet.core.relist import PodRecord
    from trikubelet.kit.spans import Spans
    from trikubelet.model.k8s import Pod
    from trikubelet.model.objects import ObjectRef
    from trikubelet.ports import ContainerLogs, Handlers, PodDevices, PodFiles, Runtime


class Bench:
    """A world and the disk beside it; agents come and go."""

    def __init__(
        self,
        bounds: Bounds | None = None,
        latency_seconds: float = 0.002,
        allocatable: Mapping[str, int] | None = None,
        rules: MemoryRules | None = None,
    ) -> None:
        self.bounds = bounds or Bounds()
        self.world = World()
        memory = MemoryPodFiles()
        self.files: PodFiles = memory
        self._logs: ContainerLogs = MemoryContainerLogs(memory)
        self._place = Path("/nowhere")
        self._facts = NodeFacts(
            "n", ("192.0.2.1",), 1 << 33, allocatable=allocatable or {}, memory=rules or MemoryRules()
        )
        self.volumes = MemoryVolumes()
        self.cgroups = MemoryPodCgroups()
        self.handlers: Handlers = MemoryHandlers(self.world)
        self.images = MemoryImages(["app:1", "app:2"], ["web:2"])
        self.records, self.logins = MemoryPullRecords(), MemoryLogins()
        self.problems = Problems(Odds(latency_seconds))
        self.eviction, self.image_rules = EvictionRules(), ImageRules()
        self.shutdown: Sequence[ShutdownGroup] = ()
        self.devices: PodDevices = NoDevices()
        self.ends_unknown_pods = True  # what the tests plant in the world and on the disk is this node's

    def move_to_disk(self, place: Path) -> None:
        """From now on pods' files are real ones: ``root``, ``logs`` and ``links`` at the place."""
        threads: ThreadPool = NoThreads()  # type: ignore[assignment]
        self.files = DiskPodFiles(place / "root", place / "logs", place / "links", threads)
        self._logs = DiskContainerLogs(place / "logs", threads, threads)
        self._place = place
        self._facts = replace(self._facts, pod_logs_dir=str(place / "logs"))

    def pods_on_disk(self) -> frozenset[str]:
        """UIDs that have a directory, at this moment."""
        if isinstance(self.files, MemoryPodFiles):
            return frozenset(self.files.pods)
        return frozenset(os.listdir(self._place / "root/pods"))

    def log_directories(self) -> frozenset[str]:
        """Names of the pods' log directories, at this moment."""
        if isinstance(self.files, MemoryPodFiles):
            return self.files.log_names
        return frozenset(os.listdir(self._place / "logs"))

    def build_node(
        self, sources: Sequence[str] = ("file",), runtime: Runtime | None = None, spans: Spans | None = None
    ) -> Node:
        """An agent that does not run yet, on the bench's world unless it has another ``runtime``."""
        runtime = runtime or MemoryRuntime(self.world, self.problems)
        ports = Ports(
            runtime,
            self.images,
            self.files,
            self._logs,
            self.volumes,
            self.cgroups,
            self.handlers,
            self.records,
            self.logins,
            VirtualClock(),
            devices=self.devices,
        )
        backoff, pulls = BackoffLimits(), PullRules(5)
        rules = Rules(
            self.bounds,
            backoff,
            pulls,
            eviction=self.eviction,
            images=self.image_rules,
            shutdown=self.shutdown,
            ends_unknown_pods=self.ends_unknown_pods,
        )
        return build_node(
            ports, replace(self._facts, booted_ns=self.world.booted_ns), rules, sources, random.Random(1), spans
        )

    @asynccontextmanager
    async def agent(self, *pods: Pod, sources: Sequence[str] = ("file",)) -> AsyncIterator[Node]:
        """An agent for the length of the block, whose first source speaks at once."""
        node = self.build_node(sources)
        async with trio.open_nursery() as nursery:
            await nursery.start(run_node, node)
            node.slots[sources[0]].put(Snapshot(pods))
            yield node
            nursery.cancel_scope.cancel()

    def running(self) -> list[str]:
        """Names of the containers that run."""
        return sorted(c.name for c in self.world.all_containers() if c.state is ContainerState.RUNNING)


async def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait, on virtual time, for something to become true. The world has no events to wait on: it is looked at."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.05)


def phase(node: Node, uid: str) -> str:
    """The phase last published, or empty."""
    status = node.statuses.get(uid)
    return status.phase if status else ""


def does(*command: str) -> k8s.LifecycleHandler:
    """A hook that runs a command."""
    return k8s.LifecycleHandler(exec=k8s.ExecAction(command=command))


class Said:
    """An event recorder that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(
        self,
        about: ObjectRef,
        type_: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Keep it."""
        self.events.append((type_, reason, message))

    @property
    def reasons(self) -> list[str]:
        """Only the reasons."""
        return [reason for _, reason, _ in self.events]


@dataclass(frozen=True)
class FixedHealth:
    """A runtime that is as a test says (``ports.RuntimeHealth``): ``problem`` with its network, and the handlers whose
    pods may have users of their own, and mounts that are read-only all the way down."""

    name: str = "memory"
    problem: str | None = None
    maps_users_of: Sequence[str] = ()
    reads_only_below_of: Sequence[str] = ()

    def network_problem(self) -> str | None:
        """The problem."""
        return self.problem

    def supports_user_namespaces(self, handler: str) -> bool:
        """True if a test set it."""
        return handler in self.maps_users_of

    def supports_recursive_read_only(self, handler: str) -> bool:
        """True if a test set it."""
        return handler in self.reads_only_below_of

    def supports_strict_groups(self) -> bool | None:
        """It can."""
        return True


class Down:
    """Probes that keep which containers they were told had been stopped, in order."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def stopped(self, _uid: str, container_id: str) -> None:
        """Keep it."""
        self.ids.append(container_id)


@dataclass
class Script:
    """Syncs that do what a test tells them. Every call is kept with the time it began."""

    outcomes: list[Outcome | Exception] = field(default_factory=list)
    calls: list[tuple[float, str, str]] = field(default_factory=list)
    sinces: list[float] = field(default_factory=list)
    soons: list[bool] = field(default_factory=list)
    takes_seconds: float = 0.0
    forgotten: list[str] = field(default_factory=list)
    despite_leftovers: list[str] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    went_on_from: list[Mapping[str, int]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    interrupted: int = 0
    left_seconds: float | None = None

    async def run_with_probes(self, pod: Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Nothing lives beside it."""
        await live()

    async def observe(self, uid: str, since: float, *, soon: bool = False) -> PodObservation:
        """There is nothing of the pod."""
        self.sinces.append(since)
        self.soons.append(soon)
        await trio.lowlevel.checkpoint()
        return PodObservation(uid)

    async def sync(self, pod: Pod, observed: PodObservation) -> Outcome:
        """The next outcome; AGAIN when there is none."""
        return await self._try("sync", pod)

    async def terminate(self, pod: Pod, state: Terminating, observed: PodObservation) -> Outcome:
        """DONE unless told otherwise."""
        return await self._try(f"terminate {state.grace_seconds}", pod, Outcome.DONE)

    async def clean_up(self, pod: Pod, state: Terminated) -> Outcome:
        """DONE unless told otherwise."""
        return await self._try("clean up", pod, Outcome.DONE)

    def publish_readiness(self, pod: Pod) -> None:
        """Keep that it was asked."""
        self.shown.append(pod.metadata.uid)

    def seconds_left(self, pod: Pod) -> float | None:
        """Return what a test set."""
        return self.left_seconds

    def begin_despite_leftovers(self, uid: str) -> None:
        """Keep that it was asked."""
        self.despite_leftovers.append(uid)

    def last_attempts(self, _pod: Pod) -> Mapping[str, int]:
        """Return the numbers that a test gave."""
        return dict(self.attempts)

    def go_on_from(self, _uid: str, attempts: Mapping[str, int]) -> None:
        """Keep that it was asked."""
        self.went_on_from.append(attempts)

    def forget(self, uid: str) -> None:
        """Keep that it was asked."""
        self.forgotten.append(uid)

    async def _try(self, what: str, pod: Pod, usual: Outcome = Outcome.AGAIN) -> Outcome:
        self.calls.append((trio.current_time(), what, pod.metadata.uid))
        try:
            await trio.sleep(self.takes_seconds)
        except trio.Cancelled:
            self.interrupted += 1
            raise
        outcome = self.outcomes.pop(0) if self.outcomes else usual
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def told(self) -> list[str]:
        """Return the attempts, in order."""
        return [what for _, what, _ in self.calls]

    @property
    def times(self) -> list[float]:
        """When each sync began."""
        return [at for at, _, _ in self.calls]


class NothingThere:
    """A runtime that was listed and has nothing, or what a test says; ``records`` of pods that run."""

    def __init__(self, *uids: str) -> None:
        self.having = set(uids)
        self.records: list[PodRecord] = []
        self.has_listed = True
        self.failing_since = None

    def pod(self, uid: str) -> PodRecord | None:
        """Return what a test set."""
        return next((one for one in self.records if one.uid == uid), None)

    def uids(self) -> list[str]:
        """Nothing to see."""
        return []

    def uids_with_dead(self) -> list[str]:
        """Nothing to see."""
        return []

    def container_ids(self) -> list[str]:
        """Nothing to see."""
        return []

    def is_running(self, uid: str) -> bool:
        """True if a test set it."""
        return any(one.uid == uid for one in self.records)

    def running(self, beside: Collection[str]) -> list[PodRecord]:
        """Return what a test set."""
        return [one for one in self.records if one.uid not in beside]

    def may_have(self, uid: str) -> bool:
        """True if a test set it."""
        return uid in self.having
