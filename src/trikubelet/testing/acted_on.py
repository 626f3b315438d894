"""Records the specs that a running sync may act on: the pods that each worker held during it, for the simulation.

A sync continues with the pod it started with, and an edit, and its reversal, may come meanwhile; edits may be notified
late, and several at once. So the witness reads here, and not in the scenario, which specs may justify stopping a
container. Whether the agent has the right pod in the end is checked once everything is calm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.model.k8s import Pod
    from trikubelet.pods.worker import PodWorker


@dataclass(slots=True)
class _Sync:
    """One sync of one worker, by its number, and the pods the worker has held since it began."""

    worker: PodWorker
    number: int
    pods: list[Pod] = field(default_factory=list)


class ActedOn:
    """Owns what workers held during their syncs, by pod UID."""

    def __init__(self) -> None:
        self._syncs: dict[str, _Sync] = {}

    def look(self, worker: PodWorker) -> None:
        """A task made a step: record what the worker holds now."""
        pods = self._of(worker).pods
        if not pods or pods[-1] is not worker.pod:
            pods.append(worker.pod)

    def pods(self, worker: PodWorker) -> Sequence[Pod]:
        """The pods that the running sync may act on, oldest first; the worker's current pod is the last."""
        self.look(worker)
        return self._of(worker).pods

    def _of(self, worker: PodWorker) -> _Sync:
        uid, number = worker.pod.metadata.uid, worker.statistics().syncs
        held = self._syncs.get(uid)
        if held is None or held.worker is not worker or held.number != number:
            held = self._syncs[uid] = _Sync(worker, number)
        return held
