"""When a container is probed first, and what counts until then.

An agent that was restarted finds containers that it had probed before. It must not probe all of them at once,
so the first probes of what it found running are spread over their period. And it must not take a container that
serves for one that does not because it knows nothing yet: what the pod's status said of it counts until its probe has
said something else (upstream since 1.35: ChangeContainerStatusOnKubeletRestart is off; KEP-4781).

A new container is asked as soon as it runs whether it has started and whether it is ready, for it may be; upstream asks
with its next tick. But it must not be killed for not being up in its first moments, which that tick prevents: whether
it is alive is first asked after a period, and before that no failure counts against its start. So it has
failureThreshold periods to start, as the API's documentation says. An initial delay replaces these periods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trikubelet.core.actions import Verdict
from trikubelet.core.manifest.container_defaults import PROBE_PERIOD_SECONDS
from trikubelet.core.probes.kind import ProbeKind

if TYPE_CHECKING:
    from trikubelet.model.k8s import ContainerStatus, Probe

KEPT_SECONDS_MIN = 10.0
"""For how long a container must have run when this agent found it for its status to be believed (upstream)."""


def period_seconds(probe: Probe) -> float:
    """How often the probe is run."""
    return float(probe.period_seconds or PROBE_PERIOD_SECONDS)


def failures_count_after(kind: ProbeKind, probe: Probe) -> float:
    """For how many seconds after its container's start a probe that fails says nothing."""
    if probe.initial_delay_seconds:
        return float(probe.initial_delay_seconds)
    return 0.0 if kind is ProbeKind.READINESS else period_seconds(probe)


def first_delay(kind: ProbeKind, probe: Probe, ran_seconds: float, known_seconds: float, share: float) -> float:
    """Seconds until the first probe of a container that has run for so long, in a pod that this agent has known for so
    long. ``share``, in [0, 1), is the probe's place in the period over which the first probes of what was found running
    are spread."""
    # A success of a startup probe counts at any time.
    asks_early = kind is ProbeKind.STARTUP and not probe.initial_delay_seconds
    delay = (0.0 if asks_early else failures_count_after(kind, probe)) - ran_seconds
    if ran_seconds > known_seconds:
        delay = max(delay, share * period_seconds(probe) - known_seconds)
    return max(0.0, delay)


class SavedProbeResults(msgspec.Struct, frozen=True, rename="camel"):
    """What probes concluded about the container of that id, as it is saved: what its status would say, where nobody has
    one."""

    container_id: str
    ready: bool = False
    started: bool = False


def kept(
    kind: ProbeKind,
    shown: ContainerStatus | SavedProbeResults | None,
    container_id: str,
    ran_seconds: float,
    known_seconds: float,
) -> Verdict | None:
    """What goes on to count of a container by the status last shown of its name, if that was about this very one. None
    for nothing."""
    if ran_seconds <= known_seconds + KEPT_SECONDS_MIN:
        return None
    if shown is None or shown.container_id.rpartition("://")[2] != container_id:
        return None
    believed = {ProbeKind.READINESS: shown.ready, ProbeKind.STARTUP: bool(shown.started)}.get(kind, False)
    return Verdict.SUCCESS if believed else None
