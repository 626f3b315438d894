"""Schedules a container's first probes, and defines its verdicts until then.

A restarted agent finds containers that it had probed before. It must not probe all of them at once, so the first probes
of running containers are spread over their period. And it must not treat a ready container as unready only because it
knows nothing yet: the pod's status counts until a probe has another result (upstream since 1.35:
ChangeContainerStatusOnKubeletRestart is off; KEP-4781).

A new container's startup and readiness probes run as soon as it runs, because it may be ready; upstream waits for its
next tick. But it must not be killed for its first moments, which that tick prevents: its liveness is first probed after
a period, and before that failures of its startup do not count. So it has failureThreshold periods to start, as the
API's documentation promises. An initial delay replaces these periods.
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
"""A container must have run this long before this agent found it for its status to count (upstream)."""


def period_seconds(probe: Probe) -> float:
    """Return the period of the probe in seconds."""
    return float(probe.period_seconds or PROBE_PERIOD_SECONDS)


def failures_count_after(kind: ProbeKind, probe: Probe) -> float:
    """Return the seconds after its container's start during which failures of a probe do not count."""
    if probe.initial_delay_seconds:
        return float(probe.initial_delay_seconds)
    return 0.0 if kind is ProbeKind.READINESS else period_seconds(probe)


def first_delay(kind: ProbeKind, probe: Probe, ran_seconds: float, known_seconds: float, share: float) -> float:
    """Return the seconds until the first probe of a container that has run that long, in a pod that this agent has
    known that long. ``share``, in [0, 1): the probe's place in the period over which the first probes of running
    containers are spread."""
    # A success of a startup probe counts at any time.
    asks_early = kind is ProbeKind.STARTUP and not probe.initial_delay_seconds
    delay = (0.0 if asks_early else failures_count_after(kind, probe)) - ran_seconds
    if ran_seconds > known_seconds:
        delay = max(delay, share * period_seconds(probe) - known_seconds)
    return max(0.0, delay)


class SavedProbeResults(msgspec.Struct, frozen=True, rename="camel"):
    """The saved verdicts about the container of that id; they replace its status where there is none."""

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
    """Return the verdict that stays in force for a container, from the last status of its name, if that was about this
    very container. None if there is none."""
    if ran_seconds <= known_seconds + KEPT_SECONDS_MIN:
        return None
    if shown is None or shown.container_id.rpartition("://")[2] != container_id:
        return None
    believed = {ProbeKind.READINESS: shown.ready, ProbeKind.STARTUP: bool(shown.started)}.get(kind, False)
    return Verdict.SUCCESS if believed else None
