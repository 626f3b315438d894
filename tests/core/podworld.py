"""One pod and the runtime under it, as plain data: carries plans out at once and lets containers end as told.

It does what ``pods/carry_out.py`` does with a plan and nothing else, so that properties of planning can be held against
whole lives of pods without a task, a clock or a socket.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from core.podkit import BOX, STARTED_AT
from trikubelet.core.actions import PodActions, Verdict, Verdicts
from trikubelet.core.container_hash import container_hash
from trikubelet.core.termination import kill_stages
from trikubelet.model import k8s
from trikubelet.model.runtime import ContainerState, ContainerStatus, PodObservation, SandboxState, SandboxStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

KILLED = 137


@dataclass
class PodWorld:
    """What the runtime has of the pod, newest last; ``started`` counts the starts of each container."""

    pod: k8s.Pod
    sandboxes: list[SandboxStatus] = field(default_factory=list)
    containers: list[ContainerStatus] = field(default_factory=list)
    made: int = 0
    attempts: dict[str, int] = field(default_factory=dict)

    def observe(self) -> PodObservation:
        """Everything, newest first, as the pod cache has it."""
        newest = self.sandboxes[-1] if self.sandboxes else None
        ips = newest.ips if newest is not None else ()
        sandboxes, containers = tuple(self.sandboxes[::-1]), tuple(self.containers[::-1])
        return PodObservation(self.pod.metadata.uid, ips=ips, sandboxes=sandboxes, containers=containers)

    def verdicts(self) -> Verdicts:
        """Every startup probe has succeeded."""
        return Verdicts(startup={c.id: Verdict.SUCCESS for c in self.containers})

    def end(self, name: str, code: int) -> None:
        """The newest container of that name ends, if it runs."""
        newest = next((c for c in reversed(self.containers) if c.name == name), None)
        if newest is not None and newest.state is ContainerState.RUNNING:
            self._end([newest], code)

    def lose(self, name: str) -> None:
        """Somebody removes every container of that name behind our back."""
        self.containers = [c for c in self.containers if c.name != name]

    def reboot(self) -> None:
        """The machine goes down and comes up: nothing runs any more, everything is remembered."""
        self._end([c for c in self.containers if c.state is ContainerState.RUNNING], KILLED)
        self.sandboxes = [replace(s, state=SandboxState.NOTREADY) for s in self.sandboxes]

    def perform(self, actions: PodActions) -> None:
        """Carry a plan out, in the order the shell does."""
        if actions.to_reset:
            gone = {reset.status.id for reset in actions.to_reset}
            self.containers = [c for c in self.containers if c.id not in gone]
            return
        if actions.kill_pod:
            for stage in kill_stages(self.pod, self.observe()):
                self._end(stage, KILLED)
            self.sandboxes = [replace(s, state=SandboxState.NOTREADY) for s in self.sandboxes]
            if not actions.create_sandbox:
                return
        self._end([kill.status for kill in actions.to_kill], KILLED)
        if actions.create_sandbox:
            self.sandboxes.append(replace(BOX, id=f"box-{actions.attempt}", attempt=actions.attempt))
        spec = self.pod.spec
        for index in actions.ephemeral_to_start:
            self._start(spec.ephemeral_containers[index])
        for index in actions.init_to_start:
            self._start(spec.init_containers[index])
        for index in actions.to_start:
            self._start(spec.containers[index])

    def _start(self, container: k8s.Container | k8s.EphemeralContainer) -> None:
        attempt = self.attempts.get(container.name, -1) + 1
        self.attempts[container.name] = attempt
        self.made += 1
        self.containers.append(
            ContainerStatus(
                id=f"{container.name}-{attempt}", name=container.name, attempt=attempt, state=ContainerState.RUNNING,
                created_at=self.made, started_at=STARTED_AT, image=container.image, hash=container_hash(container),
                sandbox_id=self.sandboxes[-1].id,
            )
        )  # fmt: skip

    def _end(self, which: Iterable[ContainerStatus], code: int) -> None:
        ids = {c.id for c in which}
        self.containers = [
            replace(c, state=ContainerState.EXITED, exit_code=code, finished_at=STARTED_AT + 1) if c.id in ids else c
            for c in self.containers
        ]
