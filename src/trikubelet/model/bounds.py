"""Every bound and period of the agent's own tasks in one place, with the reason for the number.

Frozen; built once by the composition root from the effective configuration and handed to the parts. Tests build their
own. Names carry their unit last. Rules that belong to a pod (grace, backoff) are in ``core``, not here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits and periods; the defaults are upstream's where upstream has one."""

    relist_period_seconds: float = 1.0
    """How often PLEG lists everything (upstream: 1 s)."""
    relist_stale_seconds_max: float = 180.0
    """Without a successful list for this long PLEG is unhealthy (upstream: 3 min)."""
    inspections_max: int = 16
    """Pods inspected at the same time: enough to hide a runtime's latency, few enough not to flood it."""
    runtime_call_seconds_max: float = 120.0
    """One CRI call (upstream: runtimeRequestTimeout, 2 min)."""
    settle_seconds_max: float = 10.0
    """How long a mutating call in flight may outlive its attempt's cancellation."""
    stops_per_pod_max: int = 32
    """Containers of one pod stopped at the same time: more than pods have, so that nobody's grace waits for another's,
    and still an end to what one pod asks of the runtime at once."""
    resync_seconds: float = 60.0
    """A healthy pod is looked at again after this (upstream: syncFrequency), lengthened by up to half by jitter."""
    retry_seconds: float = 10.0
    """A failed attempt is repeated after this, lengthened by up to half by jitter."""
    network_retry_seconds: float = 1.0
    """A pod that waits for the runtime's network looks again after this."""
    housekeeping_period_seconds: float = 2.0
    """How often the node is compared with what it should hold (upstream: 2 s)."""
    garbage_period_seconds: float = 60.0
    """How often dead containers, sandboxes and logs are collected (upstream: 1 min)."""
    runtime_check_seconds: float = 5.0
    """How often the runtime is asked how it is (upstream: 5 s)."""
    runtime_stale_seconds_max: float = 30.0
    """Without a good answer for this long the runtime counts as down (upstream: 30 s)."""
    kill_orphan_grace_seconds: int = 1
    """Grace of a running pod that nothing wants (upstream: 1 s)."""
    changes_waiting_max: int = 64
    """Pod changes between the mux and the sync loop. The one blocking edge; it is not on the task ring."""
    file_check_seconds: float = 20.0
    """The manifest directory is read again this often even when nothing was notified (upstream: 20 s)."""
    http_check_seconds: float = 20.0
    """The manifest URL is read this often (upstream: 20 s)."""
    manifest_bytes_max: int = 4 * 1024 * 1024
    """One manifest file or HTTP body; etcd would refuse a pod far smaller."""
    pulls_max: int = 5
    """Images pulled at the same time when pulls are not serialised."""
    events_kept_max: int = 1000
    """Events remembered for ``get events`` and ``describe``."""
    syncloop_stale_seconds_max: float = 300.0
    """Without a pass of the sync loop for this long it counts as stuck (upstream: 5 min or twice the resync)."""
    stop_seconds_max: float = 10.0
    """How long going down may take before the process ends anyway."""
