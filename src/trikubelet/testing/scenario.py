"""What a simulated node goes through: pods that come, change and go, and misfortunes, all drawn from a seed.

The scenario is the world outside the agent: the sources with their manifests, the operator who kills things, the
machine. It owns what is *wanted*; what is *there* is the ``World``'s. The simulation plays its actions one after
another with pauses, and the witness asks it whether something the agent did was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.core.names import API_SOURCE
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.testing import builders

if TYPE_CHECKING:
    import random

    from trikubelet.testing.world import World

SOURCES = ("file", "http", API_SOURCE)
PODS_MAX = 4
LOST_CODE = 137


class Wanted:
    """Owns what the sources want, and since when."""

    def __init__(self) -> None:
        self.by_source: dict[str, dict[str, k8s.Pod]] = {source: {} for source in SOURCES}
        self.since: dict[str, float] = {}
        self.gone: list[tuple[str, k8s.Pod]] = []
        self.ambiguous: set[str] = set()
        """UIDs of pods that may rightly end early: something of them was removed behind the agent's back, or an edit
        may have killed what must not run twice."""

    def put(self, source: str, pod: k8s.Pod) -> None:
        """The source wants this pod; a pod of the same name gives way to it."""
        uid = pod.metadata.uid
        old = self.by_source[source].get(pod.metadata.name)
        if old is not None and old.metadata.uid != uid:
            self.drop(source, old)
        if self.get(uid) is None:
            self.since[uid] = trio.current_time()
        self.by_source[source][pod.metadata.name] = pod

    def drop(self, source: str, pod: k8s.Pod) -> None:
        """The source does not want the pod any more."""
        self.by_source[source].pop(pod.metadata.name, None)
        self.since.pop(pod.metadata.uid, None)
        self.gone.append((source, pod))

    def get(self, uid: str) -> k8s.Pod | None:
        """The pod of that UID, if it is wanted."""
        return next((pod for _, pod in self.all() if pod.metadata.uid == uid), None)

    def all(self) -> list[tuple[str, k8s.Pod]]:
        """Every wanted pod with its source."""
        return [(source, pod) for source, pods in self.by_source.items() for pod in pods.values()]

    def snapshot(self, source: str) -> tuple[k8s.Pod, ...]:
        """What the source says now."""
        return tuple(self.by_source[source].values())


class Scenario:
    """Draws what happens next. Owns the seeded source of it."""

    def __init__(self, chance: random.Random, wanted: Wanted, world: World) -> None:
        self._chance = chance
        self._wanted = wanted
        self._world = world
        self._made = 0
        self._regrets = False

    def happen(self) -> str | None:
        """Let one thing happen to pods or containers; the source whose snapshot changed, or None."""
        if self._regrets and self._chance.random() < 0.5:
            return self.bring_back()
        action = self._chance.choice(
            (self.add, self.add, self.remove, self.edit, self.replace, self.bring_back, self.delete, self.misfortune)
        )
        return action()

    # ---- what sources do ----

    def add(self) -> str | None:
        """A new pod."""
        if len(self._wanted.all()) >= PODS_MAX:
            return self.remove()
        source = self._chance.choice(SOURCES)
        self._made += 1
        pod = self._pod(f"p{self._made}", f"p{self._made}-1", source)
        self._wanted.put(source, pod)
        return self._said(source, "adds", pod)

    def remove(self) -> str | None:
        """A pod's manifest is gone."""
        found = self._one_of(self._wanted.all())
        if found is None:
            return None
        self._wanted.drop(*found)
        self._regrets = True
        return self._said(found[0], "removes", found[1])

    def edit(self) -> str | None:
        """A pod's manifest changes and its UID does not."""
        found = self._one_of(self._wanted.all())
        if found is None:
            return None
        source, pod = found
        first, *others = pod.spec.containers
        other = "app:1" if first.image == "app:2" else "app:2"
        changed = (msgspec.structs.replace(first, image=other), *others)
        grace = self._chance.choice((1, 2, 4))
        spec = msgspec.structs.replace(pod.spec, containers=changed, termination_grace_period_seconds=grace)
        pod = msgspec.structs.replace(pod, spec=spec)
        if pod.spec.restart_policy != "Always":
            self._wanted.ambiguous.add(pod.metadata.uid)
        self._wanted.put(source, pod)
        return self._said(source, "edits", pod)

    def replace(self) -> str | None:
        """A static pod's manifest changes, and its UID with it; its name does not."""
        found = self._one_of([(source, pod) for source, pod in self._wanted.all() if source != API_SOURCE])
        if found is None:
            return None
        source, old = found
        self._made += 1
        pod = self._pod(old.metadata.name, f"{old.metadata.name}-{self._made}", source)
        self._wanted.put(source, pod)
        return self._said(source, "replaces", pod)

    def bring_back(self) -> str | None:
        """A pod that was removed is wanted again under its old UID."""
        self._regrets = False
        names = {pod.metadata.name for _, pod in self._wanted.all()}
        found = self._one_of([(s, pod) for s, pod in self._wanted.gone[-2:] if pod.metadata.name not in names])
        if found is None or len(names) >= PODS_MAX or found[1].metadata.deletion_timestamp:
            return None
        self._wanted.put(*found)
        return self._said(found[0], "brings back", found[1])

    def delete(self) -> str | None:
        """The API server asks for a graceful deletion, or once more with less grace."""
        found = self._one_of([(source, pod) for source, pod in self._wanted.all() if source == API_SOURCE])
        if found is None:
            return None
        source, pod = found
        before = pod.metadata.deletion_grace_period_seconds
        grace = self._chance.choice((0, 1, 3)) if before is None else 0
        meta = msgspec.structs.replace(
            pod.metadata, deletion_timestamp="2027-01-15T08:00:00Z", deletion_grace_period_seconds=grace
        )
        pod = msgspec.structs.replace(pod, metadata=meta)
        self._wanted.put(source, pod)
        return self._said(source, f"deletes (grace {grace} s)", pod)

    def _said(self, source: str, verb: str, pod: k8s.Pod) -> str:
        self._world.note(f"** {source} {verb} {pod.metadata.name} ({pod.metadata.uid})")
        return source

    # ---- what nobody wants ----

    def misfortune(self) -> None:
        """Something dies or is taken away behind the agent's back."""
        running = [c for c in self._world.all_containers() if c.state is ContainerState.RUNNING]
        ready = [s for s in self._world.sandboxes.values() if s.state is SandboxState.READY]
        draw = self._chance.random()
        if running and draw < 0.5:
            self._world.end(self._chance.choice(running).id, LOST_CODE)
        elif running and draw < 0.65:
            self._world.lose_track(self._chance.choice(running).id)
        elif ready and draw < 0.85:
            self._world.stop_sandbox(self._chance.choice(ready).id)
        elif ready and draw < 0.95:
            victim = self._chance.choice(ready)
            self._wanted.ambiguous.add(victim.uid)
            self._world.remove_sandbox(victim.id)

    # ---- pods ----

    def _one_of(self, found: list[tuple[str, k8s.Pod]]) -> tuple[str, k8s.Pod] | None:
        return self._chance.choice(found) if found else None

    def _pod(self, name: str, uid: str, source: str) -> k8s.Pod:
        chance = self._chance
        init: list[k8s.Container] = []
        if chance.random() < 0.3:
            init.append(builders.container("sidecar", self._command(ends=0.1), restart_policy="Always"))
        if chance.random() < 0.3:
            code = "1" if chance.random() < 0.2 else "0"
            init.append(builders.container("init", ("exit", code, "0.5")))
        regular = [builders.container("a", self._command(ends=0.4), image=self._image())]
        if chance.random() < 0.4:
            regular.append(builders.container("b", self._command(ends=0.4)))
        chance.shuffle(init)
        policy = chance.choice(("Always", "Always", "OnFailure", "Never"))
        pod = builders.pod(
            name, *regular, uid=uid, init=init, policy=policy, grace=chance.choice((1, 2, 4)), source=source
        )
        if chance.random() < 0.3:
            scratch = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=(scratch,)))
        return pod

    def _command(self, *, ends: float) -> tuple[str, ...]:
        if self._chance.random() < ends:
            return ("exit", self._chance.choice(("0", "0", "1")), f"{self._chance.uniform(0.1, 3):.1f}")
        return ("stubborn",) if self._chance.random() < 0.15 else ("run",)

    def _image(self) -> str:
        return self._chance.choice(("app:1", "app:1", "web:2"))
