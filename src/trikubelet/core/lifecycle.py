"""The pod worker's state machine: one fold per request, one per finished sync.

    a new pod       what an earlier      an orphan:      a pod that
        │           agent began          it runs,        the node
        │               │                unwanted        rejects
        ▼               ▼                    ▼               ▼
    Starting ──────► Syncing ──────► Terminating ────► Terminated ────► Finished
        │               │                 ▲  │grace only shrinks            ▲
        │               └─ kill, ─────────┘  └ a create for the same        │
        │                  removal,            UID is remembered, and       │
        │                  completion          acted on after the end       │
        └─ kill before anything was started ────────────────────────────────┘

A pod that ends because the agent stops goes from Terminating to Finished: the next agent runs it again, so its volumes
stay, as after a reboot of the machine.

Starting has not asked the runtime for anything. Syncing brings the pod to its desired state. Terminating stops
containers. Terminated has no running container and cleans up. Finished is forgotten by its owner. A worker begins in
any of the first four (``pods/workers.py`` chooses). No arrow leads back: a pod that began to stop never runs again
under the same worker, and a finished worker ignores all requests (upstream: pod_workers.go).

The shell (``pods/worker.py``) holds the state, calls these functions synchronously and carries out the returned step.
Nothing here depends on time or tasks.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final

from trikubelet.model.frozen import Frozen

GRACE_SECONDS_MIN = 1
GRACE_SECONDS_DEFAULT = 30


class StopReason(Enum):
    """Why a pod began to stop; the first reason stays."""

    REMOVED = "removed from its source"
    DELETED = "deletion was asked for"
    DISRUPTED = "preempted or evicted"
    SHUT_DOWN = "ended because the machine shuts down"
    COMPLETED = "its containers ended permanently"
    ORPHANED = "no source wants it any more"
    REJECTED = "rejected by the node"
    AGENT_STOPS = "the agent stops, and its containers with it"


NODE_REASONS: Final = frozenset({StopReason.DISRUPTED, StopReason.SHUT_DOWN})
"""The reasons for which the node ends a pod that is still wanted."""
_CONTINUED: Final = frozenset({StopReason.SHUT_DOWN, StopReason.AGENT_STOPS})
"""The reasons after which the next agent continues the pod: it reads how the containers ended from the runtime."""


class Restart(Enum):
    """The answer to whether a pod that its source had removed was brought again, for a new worker."""

    NO = "it was not brought again"
    COUNTS_ON = "it was brought again before all of it had ended: its restart counts go on"
    ANEW = "it was brought again after its end: its restart counts begin anew"


class Starting(Frozen):
    """Known; nothing was requested from the runtime yet."""


class Syncing(Frozen):
    """Parts of it may exist: a sync was begun, or an earlier agent may have created some."""


class Terminating(Frozen):
    """Its containers are being stopped. ``restart``: a pod of the same UID was added again meanwhile; ``deleted``: its
    source no longer has it, so its content may be removed."""

    grace_seconds: int
    reason: StopReason
    deleted: bool = False
    restart: Restart = Restart.NO


class Terminated(Frozen):
    """Nothing of it runs; its leftovers on the node are being cleaned up."""

    reason: StopReason
    deleted: bool = False
    restart: Restart = Restart.NO


class Finished(Frozen):
    """Nothing is left to do. ``reason`` and ``deleted`` as before; ``restart``: the same UID is wanted again, by a new
    worker."""

    reason: StopReason
    deleted: bool = False
    restart: Restart = Restart.NO


State = Starting | Syncing | Terminating | Terminated | Finished


class Sync(Frozen):
    """The pod must match its newest configuration. ``create``: its source just added it (again)."""

    create: bool = False


class Stop(Frozen):
    """The pod must end. ``grace_override`` in seconds, or None for the pod's own grace period."""

    reason: StopReason
    grace_override: int | None = None


Request = Sync | Stop


class Outcome(Enum):
    """The result of a sync in the shell."""

    AGAIN = "something was done whose result will be observed; the sync is repeated when it is"
    AT_ONCE = "something was done that wakes no worker; the sync is repeated at once"
    IDLE = "nothing needed to be done; the sync is repeated later"
    DONE = "this state's work is done"


class Step(Frozen):
    """The result of folding a request. ``interrupt``: cancel the sync under way; ``wake``: begin one."""

    state: State
    interrupt: bool = False
    wake: bool = False


class Graces(Frozen):
    """The pod's own grace periods in seconds: its spec's, and its deletion's if it is being deleted."""

    spec: int | None = None
    deletion: int | None = None


def spec_grace(seconds: int | None) -> int:
    """Return the grace of a pod whose spec has this ``terminationGracePeriodSeconds``; the default for None."""
    return GRACE_SECONDS_DEFAULT if seconds is None else seconds


def effective_grace(existing: int | None, graces: Graces, override: int | None) -> int:
    """Return the grace to stop with: the least of the one in force, the deletion's and the override; the spec's if none
    of these is set. Never below one second."""
    asked = [seconds for seconds in (existing, graces.deletion, override) if seconds is not None]
    if asked:
        return max(GRACE_SECONDS_MIN, min(asked))
    return max(GRACE_SECONDS_MIN, spec_grace(graces.spec))


def on_request(state: State, request: Request, graces: Graces) -> Step:
    """Fold one request into the state."""
    match request:
        case Sync(create=create):
            return _on_sync(state, create=create)
        case Stop():
            return _on_stop(state, request, graces)


def _on_sync(state: State, *, create: bool) -> Step:
    match state:
        case Starting() | Syncing():
            return Step(state, wake=True)
        case Terminating() | Terminated() | Finished():
            if create and state.deleted and state.restart is Restart.NO:
                # It came back under the same UID: this instance ends first, then its owner starts a new worker.
                restart = Restart.ANEW if isinstance(state, Finished) else Restart.COUNTS_ON
                return Step(replace(state, restart=restart))
            return Step(state)


_GONE_FROM_SOURCE = frozenset({StopReason.REMOVED, StopReason.ORPHANED})


def _on_stop(state: State, stop: Stop, graces: Graces) -> Step:
    gone = stop.reason in _GONE_FROM_SOURCE
    match state:
        case Starting():
            return Step(Finished(stop.reason, deleted=gone), wake=True)
        case Syncing():
            grace = effective_grace(None, graces, stop.grace_override)
            return Step(Terminating(grace, stop.reason, deleted=gone), interrupt=True, wake=True)
        case Terminating():
            grace = effective_grace(state.grace_seconds, graces, stop.grace_override)
            shrank = grace < state.grace_seconds
            deleted = state.deleted or gone
            # It was removed or deleted again after it had come back: the newest request counts.
            restart = Restart.NO if gone or stop.reason is StopReason.DELETED else state.restart
            stopping = replace(state, grace_seconds=grace, deleted=deleted, restart=restart)
            return Step(stopping, interrupt=shrank, wake=shrank)
        case Terminated() | Finished():
            restart = Restart.NO if gone or stop.reason is StopReason.DELETED else state.restart
            ended = replace(state, deleted=state.deleted or gone, restart=restart)
            return Step(ended, wake=isinstance(ended, Terminated) and ended != state)


def on_begin(state: State) -> State:
    """Record that a sync begins. Its work counts as begun even if it is interrupted at once."""
    return Syncing() if isinstance(state, Starting) else state


def on_outcome(state: State, outcome: Outcome, graces: Graces) -> State:
    """Record that a sync ended. Only the state that it was made for may advance: the shell passes the present state,
    and skips the call when a request interrupted the sync."""
    if outcome in (Outcome.AGAIN, Outcome.AT_ONCE, Outcome.IDLE):
        return state
    match state:
        case Syncing():
            return Terminating(effective_grace(None, graces, None), StopReason.COMPLETED)
        case Terminating(reason=StopReason.AGENT_STOPS):
            return Finished(state.reason, deleted=state.deleted, restart=state.restart)
        case Terminating():
            return Terminated(state.reason, deleted=state.deleted, restart=state.restart)
        case Terminated():
            return Finished(state.reason, deleted=state.deleted, restart=state.restart)
        case Starting() | Finished():
            return state


PATIENCE_SECONDS_MIN = 10.0


def patience_seconds(state: State) -> float:
    """Return how long to wait for a pod in this state to end: 1.5 times its grace, and ten seconds at least (upstream:
    killPodNow). 0 for one whose containers have stopped, or that is not ending."""
    return max(1.5 * state.grace_seconds, PATIENCE_SECONDS_MIN) if isinstance(state, Terminating) else 0.0


# The predicates of other loops. ``state`` is None for a UID without a worker; ``synced`` is true once the workers were
# compared with the full set of desired pods. Until then nothing unknown may be touched.


def could_have_running_containers(state: State | None, *, synced: bool) -> bool:
    """True if a container of this pod may run now."""
    if state is None:
        return not synced
    return not isinstance(state, Terminated | Finished)


def is_termination_requested(state: State | None) -> bool:
    """True if the pod began to stop."""
    return state is not None and not isinstance(state, Starting | Syncing)


def has_ended(state: State | None, *, synced: bool) -> bool:
    """True if no container of the pod will be started again, so that its dead containers are useless (upstream:
    ShouldPodRuntimeBeRemoved). After a shutdown of the machine, or a stop of the agent with its containers, the next
    agent counts their restarts and reads their exit codes, so they are kept until the pod is removed from its
    source."""
    if isinstance(state, Terminated | Finished):
        return state.deleted or state.reason not in _CONTINUED
    return state is None and synced


def should_content_be_removed(state: State | None, *, synced: bool) -> bool:
    """True if the pod's containers, logs and directories may be removed. Those of an evicted or preempted pod go at
    once, because the node is short of resources. Those of a pod that was shut down stay for the next boot."""
    match state:
        case None:
            return synced
        case Terminated(reason=reason, deleted=deleted) | Finished(reason=reason, deleted=deleted):
            return deleted or reason is StopReason.DISRUPTED
        case _:
            return False
