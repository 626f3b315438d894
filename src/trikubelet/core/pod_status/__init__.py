"""The pod's status as the API shows it, computed from the spec, the runtime's records and a few facts.

``generate`` computes it, ``terminate`` says the last word when nothing runs any more. ``normalize`` brings it into the
API server's form, ``merge`` lays it over what the server has, ``equal`` says whether sending it is worth the call, and
``illegal_transitions`` finds what a status must never say, ``comes_back`` what a server may not take. ``due`` decides
what is written to the server.
``deadline_left`` says when a pod's time is over, ``readiness_gates_differ`` that its readiness is out of date,
``last_attempts`` reads from it how often containers ran, and ``with_verdicts`` puts what probes and readiness gates say
into a status without a sync.
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
