"""How a simulated container answers when it is probed: written in the probe, as what it does is in its command.

    ok          always well
    fail        never
    late N      well once it has run for N seconds
    dies N      well until then
    flips N     well for N seconds, ill for N, and so on
    slow N      well, N seconds later
    hang        no answer
    odd         well the one time, the other an error that says nothing; for commands

In a command, an HTTP path or a service's name: ``check flips 3``, ``/NAME/flips/3``. What a container answers depends
on how long it has run and on nothing else, so that an oracle can know it. The kind of the probe may stand before it:
then whoever listens (``Listener``) is told of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Listener = Callable[[str, str, bool], None]
"""Is told of a container's id, the kind of probe it answered, and whether it was well. Errors are no answers."""
KINDS = ("liveness", "readiness", "startup")


def split_kind(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The kind of probe the words begin with, "" for none, and the rest."""
    return (words[0], words[1:]) if words[0] in KINDS else ("", words)


def is_well(words: Sequence[str], ran_seconds: float) -> bool:
    """Whether a container that has run for so long is well, by what its probe says of it."""
    kind, *rest = words
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


def answers_after(words: Sequence[str]) -> float:
    """How long the answer takes, in seconds."""
    if words[0] == "hang":
        return float("inf")
    return float(words[1]) if words[0] == "slow" else 0.0


def to_nobody(_container_id: str, _kind: str, _well: bool) -> None:
    """The listener who does not listen."""
