"""Derives a container's crash back-off from the runtime's records of its earlier runs, after a restart of the agent.

A back-off lives in the agent's memory (``pods.crash_backoffs``), and upstream forgets it with each restart of the
kubelet: a container that crashes is then started at once, however often that happens. The runtime knows how often the
container was restarted, and how long the restart before its newest one waited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.restarts import BackoffEntry
from trikubelet.core.timestamps import SECOND_NS
from trikubelet.model.runtime import AGENT_STOPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trikubelet.core.restarts import BackoffLimits
    from trikubelet.model.runtime import ContainerStatus

CUT_REASONS: Final = frozenset({AGENT_STOPPED, "ContainerStatusUnknown"})
"""The embedded runtime's reasons for containers that ended because their agent did: they have not crashed."""


def derived_backoff(ends: Sequence[ContainerStatus], limits: BackoffLimits) -> BackoffEntry | None:
    """Return the back-off of a container with these ends, newest first; None if it may be started at once.

    Each restart doubles the delay. The newest restart gives the present step: the container was created at least that
    delay after the end before it. If that end is gone, only the number of restarts is known.
    """
    newest, *earlier = ends
    if newest.attempt == 0 or newest.reason in CUT_REASONS:
        return None
    steps = _steps(limits, newest.attempt)
    if earlier:
        before = earlier[0]
        waited = 0.0 if before.reason in CUT_REASONS else (newest.created_at - before.finished_at) / SECOND_NS
        # The step that was waited for is the longest that fits; the one after it comes next.
        steps = steps[: sum(step <= waited for step in steps) + 1]
    return BackoffEntry(steps[-1], newest.created_at)


def _steps(limits: BackoffLimits, count: int) -> list[float]:
    """Return the distinct delays of the first ``count`` restarts that wait; at least one."""
    steps = [min(limits.first_seconds, limits.seconds_max)]
    while len(steps) < count and 0 < steps[-1] < limits.seconds_max:
        steps.append(min(steps[-1] * 2, limits.seconds_max))
    return steps
