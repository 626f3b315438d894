"""What happened to containers and sandboxes, told by two who do not know one another: containerd's event stream, and
the agent's PLEG in its log. Here both become one kind of record, and are compared.

The agent looks now and then, so it may tell less than happened, but only in one way: what lived for less than the time
between two looks may be told of by its death alone, or not at all. It may not leave out anything else, tell anything
twice, in another order, or that did not happen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from .events import Event


class Kind(Enum):
    """What happened, in the agent's words."""

    STARTED = "ContainerStarted"
    DIED = "ContainerDied"
    REMOVED = "ContainerRemoved"


@dataclass(frozen=True)
class Transition:
    """``container`` is an id, of a sandbox as well; ``when`` it was told, in seconds since the epoch."""

    kind: Kind
    container: str
    when: float


_TOPICS = {"/tasks/start": Kind.STARTED, "/tasks/exit": Kind.DIED, "/containers/delete": Kind.REMOVED}
_LINE = re.compile(r"^I(\S+ \S+) .* SyncLoop \(PLEG\): event for pod \S+: (\S+) (\w+)$")


def happened(events: Iterable[Event]) -> list[Transition]:
    """As containerd tells it. A process that was executed in a container, and ends, is nobody's death. A container that
    is removed without ever having run died of that, by PLEG's rules: whose end nobody saw must have had one."""
    found: list[Transition] = []
    ended: set[str] = set()
    for event in events:
        kind, id_ = _TOPICS.get(event.topic), event.container
        if kind is None or event.fields.get("id", id_) != id_:
            continue
        if kind is Kind.REMOVED and id_ not in ended:
            found.append(Transition(Kind.DIED, id_, event.when))
        if kind is Kind.DIED:
            ended.add(id_)
        found.append(Transition(kind, id_, event.when))
    return found


def published(log: Path) -> list[Transition]:
    """As the agent's log tells it, at verbosity 2 or more. A change that is neither start, death nor removal is left
    out: nobody may conclude anything from it."""
    year, words = datetime.now().year, {kind.value for kind in Kind}
    found = (_LINE.match(line) for line in log.read_text(errors="replace").splitlines())
    return [
        Transition(Kind(match[2]), match[3], datetime.strptime(f"{year}{match[1]}", "%Y%m%d %H:%M:%S.%f").timestamp())
        for match in found
        if match and match[2] in words
    ]


def missing(
    happened: Sequence[Transition], published: Sequence[Transition], blind_seconds: float
) -> list[tuple[Kind, str]]:
    """What was not told and had to be, given that no container that lived for ``blind_seconds`` can be overlooked."""
    real, told = _by_container(happened), _by_container(published)
    return [
        (kind, container)
        for container, transitions in real.items()
        for kind in transitions
        if kind not in told.get(container, {})
        and not _may_be_left_out(kind, transitions, container in told, blind_seconds)
    ]


def _may_be_left_out(kind: Kind, real: dict[Kind, float], is_told_of: bool, blind_seconds: float) -> bool:
    ended = real.get(Kind.DIED if kind is Kind.STARTED else Kind.REMOVED, float("inf"))
    return (kind is Kind.STARTED or not is_told_of) and ended - real.get(Kind.STARTED, ended) < blind_seconds


def invented(happened: Sequence[Transition], published: Sequence[Transition]) -> list[tuple[str, list[Kind]]]:
    """Containers of which was told what did not happen, or twice, or in another order than it happened in."""
    real = _by_container(happened)
    told: dict[str, list[Kind]] = {}
    for transition in published:
        told.setdefault(transition.container, []).append(transition.kind)
    return [
        (container, kinds)
        for container, kinds in told.items()
        if kinds != [kind for kind in real.get(container, {}) if kind in kinds]
    ]


def _by_container(transitions: Iterable[Transition]) -> dict[str, dict[Kind, float]]:
    """When what happened to each, in the order it happened in."""
    found: dict[str, dict[Kind, float]] = {}
    for transition in transitions:
        found.setdefault(transition.container, {}).setdefault(transition.kind, transition.when)
    return found
