"""Ends the node's pods if the agent's stop ends its runtime too: each with its preStop hooks and its grace.

    the agent must stop ─► all pods that may run are requested to end ─► none is left, or the time is over

Only for a runtime inside the agent: containers of other runtimes live on. The pods have not failed, and the next agent
continues them (``StopReason.AGENT_STOPS``). Pods that still run when the time is over end with the runtime.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import trio

from trikubelet.core.lifecycle import StopReason, Terminating, could_have_running_containers, spec_grace
from trikubelet.core.names import object_ref
from trikubelet.kit.every import Every

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.pods.worker import PodWorker
    from trikubelet.pods.workers import PodWorkers

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.1
REPORT_SECONDS: Final = 10.0
"""How often the log names the pods that have not ended yet."""
KILL_SECONDS_MAX: Final = 3.0
"""The time after the pods' grace in which the runtime kills the rest, and the agent observes that."""
NAMED_MAX: Final = 5
"""How many pods one log line names."""


async def end_pods(workers: PodWorkers, grace_seconds_max: int, stopping: trio.Event) -> None:
    """Set ``stopping``, for the runtime, and request the end of every pod. Returns when none has a running container,
    or ``KILL_SECONDS_MAX`` after ``grace_seconds_max``, which bounds the grace of each pod."""
    stopping.set()
    left = _ask_to_end(workers, grace_seconds_max)
    if not left:
        return
    log.info("Waiting for %s; a second signal ends the agent and its pods at once", _described(left))
    reported_at = trio.current_time()
    with trio.move_on_after(grace_seconds_max + KILL_SECONDS_MAX):
        async for now in Every(LOOK_SECONDS):
            # Requested again at each check: a pod may have been admitted, or have come back, meanwhile.
            left = _ask_to_end(workers, grace_seconds_max)
            if not left:
                log.info("All pods have ended")
                return
            if now - reported_at >= REPORT_SECONDS:
                reported_at = now
                log.info("Still waiting for %s", _described(left))
    log.warning("Not ended in time, and killed now: %s", _described(left))


def _ask_to_end(workers: PodWorkers, grace_seconds_max: int) -> list[PodWorker]:
    """Request the end of the pods that may have a running container, each within its own grace or the bound; return
    them."""
    for worker in workers:
        if could_have_running_containers(worker.state, synced=True):
            grace = min(spec_grace(worker.pod.spec.termination_grace_period_seconds), grace_seconds_max)
            workers.stop(worker.pod.metadata.uid, StopReason.AGENT_STOPS, grace)
    return [worker for worker in workers if could_have_running_containers(worker.state, synced=True)]


def _described(left: Sequence[PodWorker]) -> str:
    named = [_with_grace(worker) for worker in left[:NAMED_MAX]]
    more = [f"{len(left) - NAMED_MAX} more"] if len(left) > NAMED_MAX else []
    return f"{len(left)} {'pod' if len(left) == 1 else 'pods'} to end: {', '.join([*named, *more])}"


def _with_grace(worker: PodWorker) -> str:
    grace = f" (grace {worker.state.grace_seconds} s)" if isinstance(worker.state, Terminating) else ""
    return f"{object_ref(worker.pod)}{grace}"
