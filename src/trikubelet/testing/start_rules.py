"""Rules of the simulation's observer for creating and starting containers.

created      its pod's volumes are ready
started      the init containers have succeeded in this sandbox · no variable that is in no manifest · not repeatedly
             without its backoff, whatever it exits of · an ephemeral container once
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from trikubelet.model.runtime import ContainerState
from trikubelet.testing.starting_over import cause_of
from trikubelet.testing.witness import ROUNDING_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Pod
    from trikubelet.testing.memory_host import MemoryVolumes
    from trikubelet.testing.scenario import Wanted
    from trikubelet.testing.settings import Settings
    from trikubelet.testing.witness import Witness
    from trikubelet.testing.world import World

BACKOFF_SECONDS = (0.0, 0.0, 0.0, 1.0, 2.0, 4.0)
"""The least wait of an agent before each start of a container, the first, second … and all after it, by
``simulation.LIMITS``; counted from the end before the last one, which counts for a container that a probe has killed.
"""
RAN_WELL_SECONDS = 8.0
"""A container that ran for that time resets its backoff: twice the longest backoff."""


class StartRules:
    """Checks the containers that one agent creates and starts. Owns when that agent started."""

    def __init__(
        self, witness: Witness, world: World, wanted: Wanted, volumes: MemoryVolumes, settings: Sequence[Settings]
    ) -> None:
        self._witness = witness
        self._world = world
        self._wanted = wanted
        self._volumes = volumes
        self._settings = settings
        self._began_at = trio.current_time()

    def on_create(self, uid: str, pod: Pod) -> None:
        """All volumes of a pod are ready before its first container is created."""
        missing = {one.name for one in pod.spec.volumes} - self._volumes.said.get(uid, set())
        if missing:
            names = ", ".join(sorted(missing))
            self._witness.blame(f"CreateContainer for pod {uid} before its volumes {names} are ready")

    def on_start(self, subject: str, pod: Pod) -> None:
        """A container of the pod is started."""
        self._on_start(subject, pod)
        self._on_ephemeral(subject, pod)

    def _on_start(self, subject: str, pod: Pod) -> None:
        """In each sandbox the init containers complete first. The variables must be in a source."""
        here = self._world.container(subject)
        variables = dict(self._world.containers[subject].config.envs)
        for one in pod.spec.containers:
            for wrong in (lent.wrong(one, variables) for lent in self._settings if one.name == here.name):
                if wrong:
                    self._witness.blame(f"container {pod.metadata.uid}/{one.name} {wrong}")
        siblings = [c for c in self._world.all_containers() if c.sandbox_id == here.sandbox_id and c.id != subject]
        self._on_restart(pod, here.name, is_alone=all(c.name != here.name for c in siblings))
        regular = {container.name for container in pod.spec.containers}
        if here.name not in regular or any(c.name in regular for c in siblings):
            return  # an existing one proves that those before it have ended; they may be gone
        done = {c.name for c in siblings if c.state is ContainerState.EXITED and c.exit_code == 0}
        first = [one.name for one in pod.spec.init_containers if one.restart_policy != "Always"]
        if missing := [name for name in first if name not in done]:
            uid = pod.metadata.uid
            self._witness.blame(f"StartContainer {here.name} of pod {uid} before {', '.join(missing)} has ended well")

    def _on_restart(self, pod: Pod, name: str, *, is_alone: bool) -> None:
        """Starts of one container are spaced by the backoff, whatever it exits of; an edit and a new agent reset it."""
        uid = pod.metadata.uid
        if uid in self._wanted.ambiguous or uid in self._wanted.edited:
            return
        cause = cause_of(pod)
        if cause is not None and (cause.name != name or not is_alone):
            # It is restarted as often as that one, in addition to its own crashes; and if a probe has killed that one,
            # the end before, which would count, was removed with everything.
            return
        since = max(self._began_at, self._wanted.since.get(uid, math.inf))
        runs = self._world.runs.get((uid, name), [])
        well = [place for place, run in enumerate(runs) if run.ended_at - run.began_at > RAN_WELL_SECONDS]
        runs = [run for run in runs[well[-1] + 1 if well else 0 :] if run.began_at >= since]
        wait = BACKOFF_SECONDS[min(len(runs), len(BACKOFF_SECONDS) - 1)]
        if wait and (left := runs[-2].ended_at + wait - trio.current_time()) > ROUNDING_SECONDS:
            self._witness.blame(f"container {uid}/{name} is started {left:.1f} s before its back-off is over")

    def _on_ephemeral(self, subject: str, pod: Pod) -> None:
        """An ephemeral container is started once per pod instance, unless its dead container was removed."""
        uid, name = pod.metadata.uid, self._world.container(subject).name
        if name not in {one.name for one in pod.spec.ephemeral_containers}:
            return
        has_run = bool(self._world.runs.get((uid, name)))  # and its start was not rolled back
        if (uid, name) in self._witness.attached and has_run and uid not in self._wanted.ambiguous:
            self._witness.blame(f"ephemeral container {uid}/{name} is started again")
        self._witness.attached.add((uid, name))
