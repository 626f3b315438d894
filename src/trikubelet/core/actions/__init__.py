"""What to do to a pod now: ``plan`` compares a pod with what the runtime has of it and names the difference.

A plan is plain data; ``pods/carry_out.py`` performs it and has no opinions. The rules are upstream's computePodActions,
split by subject: ``sandbox`` (must it be recreated?), ``init`` (init containers and sidecars, in order), ``regular``,
``ephemeral`` and ``restart_all``. Of the containers whose amounts a resize changes (``core.resize``) those are made
again whose policy wants it; the others are changed as they run.
"""

from __future__ import annotations

from trikubelet.core.actions.plan import plan
from trikubelet.core.actions.records import Kill, KillReason, PodActions, Reset, Start, Verdict, Verdicts

__all__ = ["Kill", "KillReason", "PodActions", "Reset", "Start", "Verdict", "Verdicts", "plan"]
