"""The answers of a simulated container to probes: written in the probe, like its behaviour in its command.

    ok          always healthy
    fail        never
    late N      healthy once it has run for N seconds
    dies N      healthy until then
    flips N     healthy for N seconds, unhealthy for N, and so on
    slow N      healthy, N seconds later
    hang        no answer
    odd         healthy or, at random, an error without a result; for commands

They are in a command, an HTTP path or a service's name: ``check flips 3``, ``/NAME/flips/3``. The answer depends only
on how long the container has run, so that an oracle can know it. If the kind of the probe comes before it, the listener
(``Listener``) is notified of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Listener = Callable[[str, str, bool], None]
"""Called with a container's id, the kind of probe it answered, and whether it was healthy. Errors are not answers."""
KINDS = ("liveness", "readiness", "startup")


def split_kind(behaviour: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The kind of probe the behaviour begins with, "" for none, and the rest."""
    return (behaviour[0], behaviour[1:]) if behaviour[0] in KINDS else ("", behaviour)


def is_well(behaviour: Sequence[str], ran_seconds: float) -> bool:
    """True if a container that has run for that time is healthy, by the behaviour of its probe."""
    kind, *rest = behaviour
    seconds = float(rest[0]) if rest else 0.0
    match kind:
        case "ok" | "slow" | "odd":
            return True
        case "late":
            return ran_seconds >= seconds
        case "dies":
            return ran_seconds < seconds
        case "flips":
            return int(ran_seconds / seconds) % 2 == 0
        case _:
            return False


def answers_after(behaviour: Sequence[str]) -> float:
    """Return how long the answer takes, in seconds."""
    if behaviour[0] == "hang":
        return float("inf")
    return float(behaviour[1]) if behaviour[0] == "slow" else 0.0


def to_nobody(_container_id: str, _kind: str, _well: bool) -> None:
    """A listener that ignores the answer."""
