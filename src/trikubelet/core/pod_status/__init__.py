"""The pod's status in the API, computed from the spec, the runtime's records and a few facts.

``generate`` computes it, ``terminate`` computes the final one. ``normalize`` brings it into the API server's form,
``merge`` combines it with the server's, ``equal`` decides if sending it is worth the call, ``illegal_transitions``
finds impossible changes, and ``comes_back`` finds changes that a server may reject. ``due`` decides about the next
write to the server. ``deadline_left`` returns a pod's remaining time, ``readiness_gates_differ`` detects an outdated
readiness, ``last_attempts`` reads how often containers ran, and ``with_verdicts`` updates a status from probes and
readiness gates without a sync.
"""

from __future__ import annotations

from trikubelet.core.pod_status.attempts import last_attempts
from trikubelet.core.pod_status.between import comes_back, illegal_transitions
from trikubelet.core.pod_status.conditions import readiness_gates_differ
from trikubelet.core.pod_status.deadline import deadline_left
from trikubelet.core.pod_status.generate import StatusFacts, every_status, generate
from trikubelet.core.pod_status.merged import equal, merge
from trikubelet.core.pod_status.normal import normalize
from trikubelet.core.pod_status.patch import Patch, PodProgress, Remove, due, is_to_go, is_urgent
from trikubelet.core.pod_status.serving import with_verdicts
from trikubelet.core.pod_status.terminal import terminate

__all__ = [
    "Patch",
    "PodProgress",
    "Remove",
    "StatusFacts",
    "comes_back",
    "deadline_left",
    "due",
    "equal",
    "every_status",
    "readiness_gates_differ",
    "generate",
    "illegal_transitions",
    "is_to_go",
    "is_urgent",
    "last_attempts",
    "merge",
    "normalize",
    "terminate",
    "with_verdicts",
]
