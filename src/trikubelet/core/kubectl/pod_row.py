"""A pod in one row: READY, STATUS, RESTARTS and AGE, by kubectl's rules.

STATUS is one word for a whole pod. During initialisation it describes the first init container that is not done; then
the containers, of which the first one with a problem wins; a pod with a deletion timestamp is Terminating until it
ended. Pure: the commands pass API objects and the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.kubectl.words import NONE, since

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.model.k8s import ContainerStateTerminated, ContainerStatus, Pod, PodStatus

COLUMNS = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
WIDE_COLUMNS = ("IP", "NODE", "NOMINATED NODE", "READINESS GATES")


class PodRow(msgspec.Struct, frozen=True):
    """A table's texts for one pod. ``ready`` is ``1/2``; ``restarts`` may contain the age of the last one."""

    namespace: str
    name: str
    ready: str
    status: str
    restarts: str
    age: str
    ip: str
    node: str
    nominated_node: str
    readiness_gates: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells below ``COLUMNS`` and then ``WIDE_COLUMNS``."""
        usual = (self.name, self.ready, self.status, self.restarts, self.age)
        return (*usual, self.ip, self.node, self.nominated_node, self.readiness_gates)


def pod_row(pod: Pod, now_ns: int) -> PodRow:
    """Return the row of a pod at ``now_ns`` (nanoseconds since the epoch)."""
    tally = _tally(pod)
    status = pod.status
    return PodRow(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        ready=f"{tally.ready}/{tally.total}",
        status=tally.word,
        restarts=_restarts(tally, now_ns),
        age=since(pod.metadata.creation_timestamp, now_ns),
        ip=(status.pod_ip if status else "") or NONE,
        node=pod.spec.node_name or NONE,
        nominated_node=(status.nominated_node_name if status else "") or NONE,
        readiness_gates=_gates(pod),
    )


class _Tally(msgspec.Struct):
    """The sums over the containers."""

    total: int
    word: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def restarted(self, status: ContainerStatus) -> None:
        self.restarts += status.restart_count
        ended = status.last_state.terminated if status.last_state else None
        if ended is not None:
            self.last_restart = max(self.last_restart, ended.finished_at)


def _tally(pod: Pod) -> _Tally:
    status = pod.status
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    total = len(pod.spec.containers) + len(sidecars)
    if status is None:
        tally = _Tally(total, "Pending")
    else:
        tally = _Tally(total, _phase_word(status))
        initializing = _count_init(pod, status, sidecars, tally)
        if not initializing or _is_true(status, "Initialized"):
            _count_regular(status, sidecars, tally)
    tally.word = _going_word(pod, tally.word)
    return tally


def _phase_word(status: PodStatus) -> str:
    gated = any(c.type == "PodScheduled" and c.reason == "SchedulingGated" for c in status.conditions)
    return "SchedulingGated" if gated else status.reason or status.phase or "Pending"


def _count_init(pod: Pod, status: PodStatus, sidecars: set[str], tally: _Tally) -> bool:
    """Count the init containers. True if one of them is not done yet, which then determines the word."""
    for number, one in enumerate(status.init_container_statuses):
        tally.restarted(one)
        ended = one.state.terminated if one.state else None
        waiting = one.state.waiting if one.state else None
        if ended is not None and ended.exit_code == 0:
            continue
        if one.name in sidecars and one.started:
            tally.ready += one.ready
            continue
        if ended is not None:
            tally.word = f"Init:{ended_word(ended)}"
        elif waiting is not None and waiting.reason not in ("", "PodInitializing"):
            tally.word = f"Init:{waiting.reason}"
        else:
            tally.word = f"Init:{number}/{len(pod.spec.init_containers)}"
        return True
    return False


def _count_regular(status: PodStatus, sidecars: set[str], tally: _Tally) -> None:
    """Count the regular containers. From here on, only restarts of them and of sidecars count."""
    tally.restarts, tally.last_restart = 0, ""
    for one in status.init_container_statuses:
        if one.name in sidecars:
            tally.restarted(one)
    running = False
    for one in reversed(status.container_statuses):
        tally.restarted(one)
        state = one.state
        if state is None:
            continue
        if state.waiting is not None and state.waiting.reason:
            tally.word = state.waiting.reason
        elif state.terminated is not None:
            tally.word = ended_word(state.terminated)
        elif state.running is not None and one.ready:
            running = True
            tally.ready += 1
    if running and tally.word == "Completed":
        tally.word = "Running" if _is_true(status, "Ready") else "NotReady"


def ended_word(ended: ContainerStateTerminated) -> str:
    """Return why a container ended, in one word: its reason, else its signal or exit code."""
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"


def _going_word(pod: Pod, word: str) -> str:
    status = pod.status
    if not pod.metadata.deletion_timestamp:
        return word
    if status is not None and status.reason == "NodeLost":
        return "Unknown"
    return word if status is not None and status.phase in ("Succeeded", "Failed") else "Terminating"


def _restarts(tally: _Tally, now_ns: int) -> str:
    if tally.restarts and tally.last_restart:
        return f"{tally.restarts} ({since(tally.last_restart, now_ns)} ago)"
    return str(tally.restarts)


def _gates(pod: Pod) -> str:
    wanted = [gate.condition_type for gate in pod.spec.readiness_gates]
    passed = sum(pod.status is not None and _is_true(pod.status, kind) for kind in wanted)
    return f"{passed}/{len(wanted)}" if wanted else NONE


def _is_true(status: PodStatus, kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in status.conditions)


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods by namespace and name, as a table lists them; of two pods of one name the older first."""
    return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name, pod.metadata.creation_timestamp))
