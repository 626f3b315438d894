"""Computes the actions for a pod: ``plan`` compares the pod with its state on the runtime.

A plan is plain data; ``pods/carry_out.py`` performs it and decides nothing. The rules are upstream's computePodActions,
split by subject: ``sandbox`` (must it be recreated?), ``init`` (init containers and sidecars, in order), ``regular``,
``ephemeral`` and ``restart_all``. If a resize changes a container's amounts (``core.resize``), the container is
recreated if its policy requires that, and otherwise changed while it runs.
"""

from __future__ import annotations

from trikubelet.core.actions.plan import plan
from trikubelet.core.actions.records import Kill, KillReason, PodActions, Reset, Start, Verdict, Verdicts

__all__ = ["Kill", "KillReason", "PodActions", "Reset", "Start", "Verdict", "Verdicts", "plan"]
