"""The state with which the static CPU policy starts: the one of the file, or a new one made of what is valid in it.

Upstream refuses to start where the file does not fit the machine or the configuration, and has the operator drain the
node and delete the file. The texts of these faults are kept as the reasons of a migration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trikubelet.core.cpus.checkpoint import NONE, STATIC
from trikubelet.core.cpus.options import CpuOption
from trikubelet.core.cpus.state import CpuState
from trikubelet.core.topology.cpu_list import list_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.core.cpus.checkpoint import CpuCheckpoint
    from trikubelet.core.cpus.state import CpuRules


@dataclass(frozen=True, slots=True)
class Kept:
    """The file fits, or there is none yet."""

    state: CpuState


@dataclass(frozen=True, slots=True)
class Migrated:
    """The file does not fit: ``state`` has what is valid in it. ``reasons``: upstream's texts. ``drained``: the UIDs of
    the pods that lost CPUs; their containers run on them until the pods are drained."""

    state: CpuState
    reasons: tuple[str, ...]
    drained: tuple[str, ...]


def start_static(rules: CpuRules, file: CpuCheckpoint | None) -> Kept | Migrated:
    """Return the state for the static policy. ``file``: None if there is none."""
    if file is None or (file.policy == STATIC and file.state == CpuState()):
        return Kept(_anew(rules, CpuState()))
    reasons = (*_policy_problems(file, STATIC), *_problems(rules, file.state))
    if not reasons:
        return Kept(file.state)
    kept = _valid(rules, file.state)
    lost = {uid for uid in file.state.assigned if kept.of_pod(uid) != file.state.of_pod(uid)}
    lost |= file.state.pods.keys() - kept.pods.keys()
    return Migrated(_anew(rules, kept), reasons, tuple(sorted(lost)))


def start_none(file: CpuCheckpoint | None) -> Kept | Migrated:
    """Return the state without a policy: no CPUs are assigned. Pods that had some keep them until they are drained."""
    if file is None or file.policy == NONE:
        return Kept(CpuState())
    drained = tuple(sorted(file.state.assigned.keys() | file.state.pods.keys()))
    return Migrated(CpuState(), tuple(_policy_problems(file, NONE)), drained)


def _anew(rules: CpuRules, kept: CpuState) -> CpuState:
    """Return the state in which all CPUs are shared that are not assigned."""
    shared = rules.layout.cpus - kept.exclusive
    if CpuOption.STRICT_RESERVATION in rules.options:
        shared -= rules.reserved
    return CpuState(shared, kept.assigned, kept.pods)


def _policy_problems(file: CpuCheckpoint, configured: str) -> Iterator[str]:
    if file.policy != configured:
        yield f'configured policy "{configured}" differs from state checkpoint policy "{file.policy}"'


def _problems(rules: CpuRules, state: CpuState) -> Iterator[str]:
    """Yield what keeps the state from being used as it is, in upstream's order."""
    is_strict = CpuOption.STRICT_RESERVATION in rules.options
    if not state.shared and state.assigned and not is_strict:
        yield "default cpuset cannot be empty"
    reserved, shared = list_text(rules.reserved), list_text(state.shared)
    if is_strict and rules.reserved & state.shared:
        yield f'some of strictly reserved cpus: "{reserved}" are present in defaultCpuSet: "{shared}"'
    if not is_strict and not rules.reserved <= state.shared:
        yield f'not all reserved cpus: "{reserved}" are present in defaultCpuSet: "{shared}"'
    held = {f"pod: {uid}": cpus for uid, cpus in state.pods.items()}
    for uid, containers in state.assigned.items():
        held |= {f"pod: {uid}, container: {name}": cpus for name, cpus in containers.items()}
    for holder, cpus in sorted(held.items()):
        if cpus & state.shared:
            yield f'{holder} cpuset: "{list_text(cpus)}" overlaps with default cpuset "{shared}"'
    known = state.shared | state.exclusive | (rules.reserved if is_strict else frozenset())
    if known != rules.layout.cpus:
        yield (
            f'current set of available CPUs "{list_text(rules.layout.cpus)}" doesn\'t match with CPUs in state '
            f'"{list_text(known)}"'
        )
    if (valid := _valid(rules, state)) != CpuState(frozenset(), state.assigned, state.pods):
        gone = list_text(state.exclusive - valid.exclusive)
        yield f'assigned CPUs "{gone}" are reserved, are not online or have two owners'


def _valid(rules: CpuRules, state: CpuState) -> CpuState:
    """Return the assignments to CPUs that are there, are not reserved, and belong to no earlier pod."""
    free = rules.layout.cpus - rules.reserved
    assigned, pods = {}, {}
    for uid in sorted(state.assigned.keys() | state.pods.keys()):
        if (bubble := state.pods.get(uid, frozenset())) and bubble <= free:
            pods[uid] = bubble
        if containers := {name: cpus for name, cpus in state.of_pod(uid).items() if cpus <= free}:
            assigned[uid] = containers
        free -= frozenset().union(pods.get(uid, frozenset()), *containers.values())
    return CpuState(frozenset(), assigned, pods)
