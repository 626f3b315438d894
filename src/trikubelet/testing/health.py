"""How a simulated container answers probes: written in the probe, as its behaviour is in its command.

    ok          always healthy
    fail        never
    late N      healthy once it has run for N seconds
    dies N      healthy until then
    flips N     healthy for N seconds, unhealthy for N, and so on
    slow N      healthy, N seconds later
    hang        no answer
    odd         healthy or, at random, an error without a result; for commands

In a command, an HTTP path or a service's name: ``check flips 3``, ``/NAME/flips/3``. The answer depends only on how
long the container has run, so that an oracle can know it. The kind of the probe may stand before it: then the listener
(``Listener``) is notified of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Listener = Callable[[str, str, bool], None]
"""Called with a container's id, the kind of probe it answered, and whether it was healthy. Errors are no answers."""
KINDS = ("liveness", "readiness", "startup")


def split_kind(behaviour: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The kind of probe the behaviour begins with, "" for none, and the rest."""
    return (behaviour[0], behaviour[1:]) if behaviour[0] in KINDS else ("", behaviour)


def is_well(behaviour: Sequence[str], ran_seconds: float) -> bool:
    """Whether a container that has run for so long is healthy, by the behaviour of its probe."""
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
    """How long the answer takes, in seconds."""
    if behaviour[0] == "hang":
        return float("inf")
    return float(behaviour[1]) if behaviour[0] == "slow" else 0.0


def to_nobody(_container_id: str, _kind: str, _well: bool) -> None:
    """A listener that ignores the answer."""
