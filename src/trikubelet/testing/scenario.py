"""The events of a simulated node: pods are added, changed and removed, and things fail, all drawn from a seed.

The scenario is the world outside the agent: the sources with their manifests, the operator who kills containers, the
machine. It owns the *desired* state; the *observed* state is the ``World``'s. The simulation plays its actions one
after another with pauses, and the witness checks here whether the agent's actions were requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from trikubelet.core.names import API_SOURCE
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, SandboxState
from trikubelet.testing import builders
from trikubelet.testing.starting_over import starting_over

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from trikubelet.testing.settings import Settings
    from trikubelet.testing.world import World

SOURCES = ("file", "http", API_SOURCE)
PODS_MAX = 4
PROBES = {
    "liveness": ("ok", "fail", "slow 0.5", "dies 4", "flips 2", "hang", "odd"),
    "readiness": ("ok", "late 3", "slow 0.5", "flips 2", "fail", "hang", "odd"),
    "startup": ("ok", "late 2", "slow 0.5", "odd"),
}
"""The answers of containers to their probes, by kind (``testing.health``)."""
LOST_CODE = 137
STARTS_OVER = 2
"""The one of six pods with a container whose exit restarts all: counted, not drawn, or every seed would be another."""
NEVER_ALIVE = 4
"""The one of six with a container that its liveness probe kills as soon as it can, each time."""


class Wanted:
    """Owns the sources' desired pods, and since when they are desired."""

    def __init__(self) -> None:
        self.by_source: dict[str, dict[str, k8s.Pod]] = {source: {} for source in SOURCES}
        self.since: dict[str, float] = {}
        self.gone: list[tuple[str, k8s.Pod]] = []
        self.ambiguous: set[str] = set()
        """UIDs of pods that may end early: a container of them was removed behind the agent's back, or an edit may have
        killed a container that must not run twice."""
        self.edited: set[str] = set()
        """UIDs of pods that were edited."""

    def put(self, source: str, pod: k8s.Pod) -> None:
        """The source adds this pod; it replaces one of the same name."""
        uid = pod.metadata.uid
        old = self.by_source[source].get(pod.metadata.name)
        if old is not None and old.metadata.uid != uid:
            self.drop(source, old)
        if self.get(uid) is None:
            self.since[uid] = trio.current_time()
        if old is not None and old.metadata.uid == uid and old.spec != pod.spec:
            self.edited.add(uid)
        self.by_source[source][pod.metadata.name] = pod

    def drop(self, source: str, pod: k8s.Pod) -> None:
        """The source removes the pod."""
        self.by_source[source].pop(pod.metadata.name, None)
        self.since.pop(pod.metadata.uid, None)
        self.gone.append((source, pod))

    def get(self, uid: str) -> k8s.Pod | None:
        """The pod of that UID, if it is desired."""
        return next((pod for _, pod in self.all() if pod.metadata.uid == uid), None)

    def all(self) -> list[tuple[str, k8s.Pod]]:
        """Every desired pod with its source."""
        return [(source, pod) for source, pods in self.by_source.items() for pod in pods.values()]

    def snapshot(self, source: str) -> tuple[k8s.Pod, ...]:
        """The source's current pods."""
        return tuple(self.by_source[source].values())


class Scenario:
    """Draws what happens next to the pods of some sources, and to containers. Owns the seeded random source."""

    def __init__(
        self,
        chance: random.Random,
        wanted: Wanted,
        world: World,
        settings: Settings,
        sources: Sequence[str] = SOURCES,
    ) -> None:
        self._settings = settings
        self._sources = sources
        self._chance = chance
        self._wanted = wanted
        self._world = world
        self._made = 0
        self._regrets = False

    def happen(self) -> str | None:
        """Make one change to pods or containers. Return the source whose snapshot changed, or None."""
        if self._regrets and self._chance.random() < 0.5:
            return self.bring_back()
        action = self._chance.choice(
            (self.add, self.add, self.remove, self.edit, self.replace, self.bring_back, self.delete, self.misfortune)
        )
        return action()

    # ---- changes by sources ----

    def add(self) -> str | None:
        """A new pod."""
        if len(self._wanted.all()) >= PODS_MAX:
            return self.remove()
        source = self._chance.choice(self._sources)
        self._made += 1
        pod = self.draw_pod(f"p{self._made}", f"p{self._made}-1", source)
        self._wanted.put(source, pod)
        return self._said(source, "adds", pod)

    def remove(self) -> str | None:
        """A pod's manifest is removed."""
        found = self._one_of(self._spoken_for())
        if found is None:
            return None
        self._wanted.drop(*found)
        self._regrets = True
        return self._said(found[0], "removes", found[1])

    def edit(self) -> str | None:
        """A pod's manifest changes and its UID does not."""
        found = self._one_of(self._spoken_for())
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
        found = self._one_of([(source, pod) for source, pod in self._spoken_for() if source != API_SOURCE])
        if found is None:
            return None
        source, old = found
        self._made += 1
        pod = self.draw_pod(old.metadata.name, f"{old.metadata.name}-{self._made}", source)
        self._wanted.put(source, pod)
        return self._said(source, "replaces", pod)

    def move_uid(self) -> Sequence[str]:
        """Give a static pod's UID to a pod of another name, of the same source or another, and half of the time keep
        the name, with another UID. Return the sources whose snapshots changed."""
        static = [source for source in self._sources if source != API_SOURCE]
        found = self._one_of([(source, pod) for source, pod in self._spoken_for() if source in static])
        if found is None:
            return ()
        source, old = found
        self._made += 1
        other = self._chance.choice(static)
        self._wanted.drop(source, old)
        if self._chance.random() < 0.5:
            again = self.draw_pod(old.metadata.name, f"{old.metadata.name}-{self._made}", source)
            self._wanted.put(source, again)
        moved = self.draw_pod(f"p{self._made}", old.metadata.uid, other)
        self._wanted.put(other, moved)
        self._said(other, f"has the UID of {old.metadata.name} for", moved)
        return self._chance.sample(sorted({source, other}), len({source, other}))

    def bring_back(self) -> str | None:
        """A pod that was removed is added again under its old UID."""
        self._regrets = False
        names = {pod.metadata.name for _, pod in self._wanted.all()}
        gone = [(source, pod) for source, pod in self._wanted.gone if source in self._sources]
        gone = [(source, pod) for source, pod in gone[-2:] if self._wanted.get(pod.metadata.uid) is None]
        found = self._one_of([(source, pod) for source, pod in gone if pod.metadata.name not in names])
        if found is None or len(names) >= PODS_MAX or found[1].metadata.deletion_timestamp:
            return None
        self._wanted.put(*found)
        return self._said(found[0], "brings back", found[1])

    def delete(self) -> str | None:
        """The API server requests a graceful deletion, or once more with a shorter grace period."""
        found = self._one_of([(source, pod) for source, pod in self._spoken_for() if source == API_SOURCE])
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

    # ---- failures ----

    def misfortune(self) -> None:
        """Something dies or is removed behind the agent's back."""
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

    def _spoken_for(self) -> list[tuple[str, k8s.Pod]]:
        return [(source, pod) for source, pod in self._wanted.all() if source in self._sources]

    def _one_of(self, found: list[tuple[str, k8s.Pod]]) -> tuple[str, k8s.Pod] | None:
        return self._chance.choice(found) if found else None

    def draw_pod(self, name: str, uid: str, source: str) -> k8s.Pod:
        """Some pod of that name."""
        chance = self._chance
        init: list[k8s.Container] = []
        if chance.random() < 0.3:
            command = self._command(ends=0.1)
            # One that exits before its startup probe succeeds would block its pod forever.
            probed = chance.random() < 0.3 and command[0] != "exit"
            startup = self._probe("sidecar", "startup", ("ok", "late 2")) if probed else None
            fields = {"restart_policy": "Always", "startup_probe": startup, "lifecycle": self._hooks(patient=False)}
            init.append(builders.container("sidecar", command, **fields))
        for name_ in ("init", "second")[: chance.choice((0, 0, 0, 1, 2))]:
            code = "1" if chance.random() < 0.2 else "0"
            init.append(builders.container(name_, ("exit", code, "0.5")))
        regular = [
            builders.container(
                name, self._command(ends=0.4), image=image, lifecycle=self._hooks(), **self._probes(name)
            )
            for name, image in (("a", self._image()), ("b", "app:1"))[: 1 + (chance.random() < 0.4)]
        ]
        chance.shuffle(init)
        policy = chance.choice(("Always", "Always", "OnFailure", "Never"))
        pod = builders.pod(
            name, *regular, uid=uid, init=init, policy=policy, grace=chance.choice((1, 2, 4)), source=source
        )
        if chance.random() < 0.3:
            pod = msgspec.structs.replace(pod, spec=_with_scratch(pod.spec))
        if self._made % 2:
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, host_users=False))
        if self._made % 6 == STARTS_OVER:
            pod = starting_over(pod)
        if self._made % 6 == NEVER_ALIVE:
            pod = _never_alive(pod)
        return pod if source == API_SOURCE else self._settings.lend(pod)

    def _probes(self, container: str) -> dict[str, k8s.Probe]:
        """Some probes, or none."""
        return {
            f"{kind}_probe": self._probe(container, kind, behaviour)
            for kind, behaviour in PROBES.items()
            if self._chance.random() < 0.25
        }

    def _probe(self, container: str, kind: str, choice: Sequence[str]) -> k8s.Probe:
        chance = self._chance
        behaviour = chance.choice(choice).split()
        asks: dict[str, object] = {"exec": k8s.ExecAction(command=("check", kind, *behaviour))}
        handler = "exec" if behaviour[0] == "odd" else chance.choice(("exec", "http_get", "grpc"))
        if handler == "http_get":
            path = "/".join(("", container, kind, *behaviour))
            asks = {"http_get": k8s.HTTPGetAction(port=80, scheme="HTTP", path=path)}
        elif handler == "grpc":
            asks = {"grpc": k8s.GRPCAction(port=80, service="/".join((container, kind, *behaviour)))}
        return k8s.Probe(
            period_seconds=chance.choice((1, 2)),
            failure_threshold=8 if kind == "startup" else chance.choice((1, 3)),
            success_threshold=chance.choice((1, 2)) if kind == "readiness" else 1,
            **asks,  # type: ignore[arg-type] # one handler, chosen above
        )

    def _command(self, *, ends: float) -> tuple[str, ...]:
        if self._chance.random() < ends:
            return ("exit", self._chance.choice(("0", "0", "1")), f"{self._chance.uniform(0.1, 3):.1f}")
        return ("stubborn",) if self._chance.random() < 0.15 else ("run",)

    def _hooks(self, *, patient: bool = True) -> k8s.Lifecycle | None:
        """Hooks that succeed, fail or are slow; a preStop hook may hang. A container that is not ``patient`` has no
        postStart hook that fails forever, even by the container ending before it."""
        if self._chance.random() < 0.6:
            return None
        code = "1" if patient and self._chance.random() < 0.2 else "0"
        after = ("exit", code, self._chance.choice(("0", "0.1", "2.5")) if patient else "0")
        before = self._chance.choice((("echo", "bye"), ("exit", "1", "0.5"), ("exit", "0", "1.5"), ("hang",)))
        return k8s.Lifecycle(
            post_start=_hook(after) if self._chance.random() < 0.4 else None,
            pre_stop=_hook(before) if self._chance.random() < 0.8 else None,
        )

    def _image(self) -> str:
        return self._chance.choice(("app:1", "app:1", "web:2"))


def _hook(command: tuple[str, ...]) -> k8s.LifecycleHandler:
    return k8s.LifecycleHandler(exec=k8s.ExecAction(command=command))


def _never_alive(pod: k8s.Pod) -> k8s.Pod:
    """Return the pod with a last container that is killed for its liveness probe soon after each start, and started
    again."""
    *others, last = pod.spec.containers
    asks = k8s.ExecAction(command=("check", "liveness", "fail"))
    probe = k8s.Probe(period_seconds=1, failure_threshold=1, success_threshold=1, exec=asks)
    killed = msgspec.structs.replace(last, command=("run",), liveness_probe=probe, restart_policy="Always")
    spec = msgspec.structs.replace(pod.spec, containers=(*others, killed))
    return msgspec.structs.replace(pod, spec=spec)


def _with_scratch(spec: k8s.PodSpec) -> k8s.PodSpec:
    """Return the spec with a volume, of which each regular container mounts a sub-path."""
    scratch = k8s.Volume(name="scratch", empty_dir=k8s.EmptyDirVolumeSource())
    containers = tuple(
        msgspec.structs.replace(
            one, volume_mounts=(k8s.VolumeMount(name="scratch", mount_path="/scratch", sub_path=one.name),)
        )
        for one in spec.containers
    )
    return msgspec.structs.replace(spec, volumes=(scratch,), containers=containers)
