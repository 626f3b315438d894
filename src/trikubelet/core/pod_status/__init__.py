"""The pod's status as the API shows it, computed from the spec, the runtime's records and a few facts."""

from __future__ import annotations

from trikubelet.core.pod_status.generate import StatusFacts, generate

__all__ = ["StatusFacts", "generate"]
