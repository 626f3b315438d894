"""The pod's status as the API shows it, computed from the spec, the runtime's records and a few facts.

``generate`` computes it, ``terminate`` says the last word when nothing runs any more. ``normalize`` brings it into the
API server's form, ``merge`` lays it over what the server has, ``equal`` tells whether sending it is worth the call, and
``illegal_transitions`` finds what a status must never say. ``deadline_left`` tells when a pod's time is over.
"""

from __future__ import annotations

from trikubelet.core.pod_status.deadline import deadline_left
from trikubelet.core.pod_status.generate import StatusFacts, generate
from trikubelet.core.pod_status.merged import equal, merge
from trikubelet.core.pod_status.normal import normalize
from trikubelet.core.pod_status.terminal import terminate
from trikubelet.core.pod_status.transitions import illegal_transitions

__all__ = [
    "StatusFacts",
    "deadline_left",
    "equal",
    "generate",
    "illegal_transitions",
    "merge",
    "normalize",
    "terminate",
]
