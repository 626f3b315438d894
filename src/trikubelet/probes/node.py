"""The probes of a node's pods (``ports.Probes``): each pod's live beside its worker and end with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.actions import Verdicts
from trikubelet.core.probes import probes_of
from trikubelet.kit.listeners import Listeners
from trikubelet.kit.shared_timer import SharedTimer
from trikubelet.probes.notes import ProbeNotes
from trikubelet.probes.pod import PodProbes
from trikubelet.probes.probe import ProbeTask
from trikubelet.probes.prober import Prober

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from trikubelet.model import k8s
    from trikubelet.model.bounds import Bounds
    from trikubelet.model.runtime import PodObservation
    from trikubelet.ports import Clock, Events, Handlers, HostIps, PodNotes, Runtime
    from trikubelet.probes.figures import ProbeFigures

NOTHING_CONCLUDED = Verdicts()
TICK_SECONDS: Final = 0.025
"""Short beside any period, and long enough for a node's thousand probes a second to be asked 25 at a time."""


class NodeProbes:
    """Owns which pods are probed. ``concluded``: something new, about the pod of that UID."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        handlers: Handlers,
        events: Events,
        clock: Clock,
        host_ips: HostIps,
        bounds: Bounds,
        chance: random.Random,
        notes: PodNotes,
    ) -> None:
        self._prober = Prober(runtime, handlers, bounds)
        self._timer = SharedTimer(TICK_SECONDS)
        self._events = events
        self._clock = clock
        self._host_ips = host_ips
        self._chance = chance
        self._notes = ProbeNotes(notes)
        self._pods: dict[str, tuple[PodProbes, tuple[ProbeTask, ...]]] = {}
        self.concluded: Final[Listeners[str]] = Listeners("what a pod's probes concluded")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wake the probes at their times until cancelled."""
        await self._timer.run(task_status=task_status)

    async def run_with_probes(self, pod: k8s.Pod, live: Callable[[], Awaitable[None]]) -> None:
        """Run ``live`` with the pod's probes beside it. Which probes a pod has is settled for its life: the API server
        forbids changing that, and a manifest that was changed is another pod."""
        keys = [(kind, container.name) for kind, container in probes_of(pod)]
        if not keys:
            await live()
            return
        uid = pod.metadata.uid
        shares = {key: self._chance.random() for key in keys}
        probes = PodProbes(pod, shares, lambda: self._concluded(uid), self._notes.of(pod))
        mine = (probes, tuple(ProbeTask(key, probes, self._prober, self._events, self._timer) for key in keys))
        self._pods[uid] = mine
        try:
            async with trio.open_nursery() as nursery:
                for task in mine[1]:
                    nursery.start_soon(task.run)
                await live()
                nursery.cancel_scope.cancel()
        finally:
            if self._pods.get(uid) is mine:  # the pod may live again already
                del self._pods[uid]

    def look(self, pod: k8s.Pod, observed: PodObservation, shown: k8s.PodStatus | None) -> Verdicts:
        """The pod was observed; what is concluded about its containers. Never blocks."""
        found = self._pods.get(pod.metadata.uid)
        if found is None:
            return NOTHING_CONCLUDED
        probes, _ = found
        statuses = () if shown is None else (*shown.init_container_statuses, *shown.container_statuses)
        ips = self._host_ips() if pod.spec.host_network else observed.ips
        probes.address = ips[0] if ips else ""
        probes.look(pod, observed, {status.name: status for status in statuses}, self._clock.now_ns())
        return probes.verdicts

    def verdicts(self, uid: str) -> Verdicts:
        """Return the conclusions about the pod's containers."""
        found = self._pods.get(uid)
        return NOTHING_CONCLUDED if found is None else found[0].verdicts

    def ending(self, uid: str) -> None:
        """The pod is being stopped. Idempotent."""
        found = self._pods.get(uid)
        if found is not None:
            found[0].end()

    def stopped(self, uid: str, container_id: str) -> None:
        """A container of the pod was stopped."""
        found = self._pods.get(uid)
        if found is not None:
            found[0].stopped(container_id)

    def figures(self) -> list[ProbeFigures]:
        """Each probe's results so far."""
        return [task.figures() for _, tasks in self._pods.values() for task in tasks]

    def __len__(self) -> int:
        return sum(len(tasks) for _, tasks in self._pods.values())

    def _concluded(self, uid: str) -> None:
        if uid not in self._pods:
            return  # the result of a probe that ran when the pod ended
        probes, _ = self._pods[uid]
        self._notes.keep(probes.pod, probes.results_to_save())
        self.concluded.notify(uid)

    def __repr__(self) -> str:
        return f"<NodeProbes: {len(self)} probes of {len(self._pods)} pods>"
