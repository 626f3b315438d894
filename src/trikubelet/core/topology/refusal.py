"""The refusal of an allocation, with the reason and the text that upstream puts into the status of the pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOPOLOGY_AFFINITY: Final = "TopologyAffinityError"
SMT_ALIGNMENT: Final = "SMTAlignmentError"
EMPTY_SHARED_POOL: Final = "EmptyPodSharedPoolError"
UNEXPECTED: Final = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True)
class Refused:
    """Resources cannot be allocated. ``reason`` and ``message`` are for the pod's status."""

    reason: str
    message: str


def unexpected(problem: str) -> Refused:
    """Return the refusal that upstream raises for any problem without a reason of its own."""
    return Refused(UNEXPECTED, f"Allocate failed due to {problem}, which is unexpected")
