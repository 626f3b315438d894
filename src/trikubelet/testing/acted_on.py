"""Which specs an attempt under way may act on: the simulation's memory of what each worker held while it went on.

An attempt goes on with the pod it began with, and an edit, and one that takes it back, may come meanwhile; news of
edits may come late, and several at once. So the witness asks here, and not the scenario, what a container may rightly
have been stopped for. Whether the agent holds the right pod in the end is judged once everything is calm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Pod
    from trikubelet.pods.worker import PodWorker


@dataclass(slots=True)
class _Attempt:
    """One attempt of one worker, by its number, and the pods the worker has held since it began."""

    worker: PodWorker
    number: int
    pods: list[Pod] = field(default_factory=list)


class ActedOn:
    """Owns what workers held during their attempts, by pod UID."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}

    def look(self, worker: PodWorker) -> None:
        """A task made a step: see what the worker holds now."""
        pods = self._of(worker).pods
        if not pods or pods[-1] is not worker.pod:
            pods.append(worker.pod)

    def pods(self, worker: PodWorker) -> Sequence[Pod]:
        """What the attempt under way may act on, oldest first; the worker's pod as it is now is the last."""
        self.look(worker)
        return self._of(worker).pods

    def _of(self, worker: PodWorker) -> _Attempt:
        uid, number = worker.pod.metadata.uid, worker.statistics().attempts
        held = self._attempts.get(uid)
        if held is None or held.worker is not worker or held.number != number:
            held = self._attempts[uid] = _Attempt(worker, number)
        return held
