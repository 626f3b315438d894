"""The bounds and periods that come from the configuration, that several parts share, or that tests set.

Frozen; built once by the composition root from the effective configuration and passed to the parts. Tests build their
own. Names carry their unit last, and each number has its reason. Not here: a number that one module alone needs and
that is never set is a constant of that module; rules that belong to a pod (grace, backoff) are in ``core``.
"""

from __future__ import annotations

from trikubelet.model.frozen import Frozen


class Bounds(Frozen):
    """Limits and periods; the defaults are upstream's where upstream has one."""

    relist_period_seconds: float = 1.0
    """How often PLEG lists everything (upstream: 1 s)."""
    relist_stale_seconds_max: float = 180.0
    """Without a successful list for this long PLEG is unhealthy (upstream: 3 min)."""
    relist_pause_seconds_max: float = 30.0
    """The longest pause after a slow list, else as long as the list was. With a call's 2 minutes it is less than the
    3 after which PLEG is unhealthy, so one list that hung is no reason."""
    first_list_seconds_max: float = 1.0
    """How long the start of the agent waits for its first list. It is reported as started without one that takes
    longer."""
    relist_quiet_period_seconds: float = 5.0
    """How often it does on a quiet node whose runtime has shown that it sends events: so late is a lost event found."""
    relist_quiet_after_seconds: float = 10.0
    """A node is quiet when nothing was asked, changed or failed for this long."""
    pod_relists_waiting_max: int = 200
    """Pods asked for and not yet listed (upstream: 200); the next full list answers who found no room."""
    pod_relists_max: int = 16
    """Pods listed one by one at the same time: enough to hide a runtime's latency, few enough not to flood it."""
    inspections_max: int = 32
    """Pods inspected at the same time. 100 pods that changed at once are seen after four times the latency of one
    status call; a hundred calls under way do not harm a runtime."""
    inspection_hung_seconds: float = 10.0
    """An inspection that takes longer holds no place any more, and its pod is named to operators."""
    runtime_call_seconds_max: float = 120.0
    """One CRI call (upstream: runtimeRequestTimeout, 2 min)."""
    settle_seconds_max: float = 10.0
    """How long a mutating call in flight may outlive its sync's cancellation."""
    start_turn_seconds_max: float = 1.0
    """How long a pod that starts waits for those before it, one to each processor. A second is six pods on a small
    machine, and not much to lose behind two that wait for their network."""
    stops_per_pod_max: int = 32
    """Containers of one pod stopped at the same time: more than pods have, so that no grace period waits for another,
    and still an end to what one pod asks of the runtime at once."""
    exec_probes_side_by_side: int = 32
    """So many commands of probes begin without waiting for one another. Each is a process for the runtime to start; a
    node that probes so and comes up would ask for hundreds at once. How many run at most is the number of probes."""
    exec_probe_turn_seconds_max: float = 1.0
    """How long a command waits for those before it, no longer than a probe waits for an answer where nothing else is
    said. One that takes longer is no rush, so it keeps no other from beginning."""
    exec_probe_extra_seconds_max: float = 10.0
    """How much longer than the command may run the runtime may take to say what came of it."""
    resync_seconds: float = 60.0
    """A healthy pod is looked at again after this (upstream: syncFrequency), lengthened by up to half by jitter."""
    retry_seconds: float = 10.0
    """A failed sync is repeated after this, lengthened by up to half by jitter."""
    bug_retry_seconds_max: float = 300.0
    """One that met a bug of ours is repeated after twice as long each time, up to this."""
    volume_retry_seconds: float = 0.5
    """So soon is a volume that failed tried again, and then half as often each time, down to the pace above (upstream:
    500 ms, doubled). Right after a pod was bound the API server may not let its node have what the pod needs yet."""
    resize_first_retry_seconds: float = 30.0
    resize_retry_seconds: float = 180.0
    """A resize that waits is decided about again after this, at the latest (upstream: 30 s after the start of the
    agent, then 3 min)."""
    network_retry_seconds: float = 1.0
    """A pod that waits for the runtime's network looks again after this."""
    housekeeping_period_seconds: float = 2.0
    """How often the node is compared with what it should hold (upstream: 2 s)."""
    late_source_seconds_max: float = 60.0
    """From the start of the agent on a static pod waits so long for another source that may want what runs under its
    name: the manifest URL is asked twice, and each time has ``FETCH_SECONDS_MAX``."""
    garbage_period_seconds: float = 60.0
    """How often dead containers, sandboxes and logs are collected (upstream: 1 min)."""
    removals_max: int = 4
    """Pods of which something is removed at the same time, by the collection of garbage and by housekeeping each: what
    they left is no hurry, and what runs uses the runtime and the disk meanwhile."""
    removal_hung_seconds: float = 10.0
    """A pod's removal that takes longer holds no place any more: what makes one hang, a broken network plugin or a
    dead file server, is rarely alone. For so long a pod that came back under its UID waits for what is left of it."""
    runtime_check_seconds: float = 5.0
    """How often the runtime is asked how it is (upstream: 5 s)."""
    runtime_not_ready_check_seconds: float = 0.5
    """How often while it, or its network, is not ready: a node is ready as soon as its runtime is."""
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
    image_garbage_period_seconds: float = 300.0
    """How often unused images are looked for (upstream: 5 min)."""
    eviction_period_seconds: float = 10.0
    """How often it is measured what the node is short of (upstream: 10 s)."""
    evicted_gone_seconds_max: float = 30.0
    """So long the next measurement waits for evicted pods to be gone (upstream: 30 s)."""
    eviction_pause_seconds: float = 1.0
    """After an eviction nothing is measured for so long: what a pod had is given back some time after its end
    (upstream: 1 s)."""
    eviction_reclaim_seconds_max: float = 30.0
    """So long dead containers and unused images may take to be removed before a pod is evicted for disk."""
    eviction_measure_seconds_max: float = 10.0
    """The time for which no pod is evicted for want of disk because the usage of others is being measured: the one
    measured last need not be the smallest."""
    eviction_silence_seconds: float = 600.0
    """Seconds without another log line about obstacles of eviction."""
    pull_records_seconds: float = 300.0
    """How often the records of pulled images are compared with the images there are (upstream: with their garbage, 5
    min)."""
    events_kept_max: int = 1000
    """Events remembered for ``get events`` and ``describe``."""
    syncloop_stale_seconds_max: float = 300.0
    """Without a pass of the sync loop for this long it counts as stuck (upstream: 5 min or twice the resync)."""
    status_writes_max: int = 8
    """Statuses written to the API server at the same time: enough to hide its latency, few for one node of many."""
    mirror_writes_max: int = 4
    """Mirror pods made or removed at the same time; a node has few, and nothing waits for them."""
    event_writes_max: int = 4
    """Events written to the API server at the same time."""
    events_waiting_max: int = 1000
    """Events that wait to be written to the API server (upstream: 1000); what comes after that is lost and counted."""
    status_reconcile_seconds: float = 10.0
    """How often what the API server has is compared with what we computed even if nothing happened (upstream: 10 s)."""
    api_call_seconds_max: float = 30.0
    """One request to the API server; without an answer it counts as lost."""
    api_pause_seconds_max: float = 5.0
    """The longest pause, without its jitter, between two tries at an API server that does not answer, or at one object
    that it has problems with: so late does a node notice that it is back."""
    api_retry_seconds_max: float = 60.0
    """The longest pause between two tries of what the API server said no to."""
    farewell_seconds_max: float = 19.0
    """How long the services may take to end once the work has ended. The runtime inside the agent takes 18 s at most: 2
    for the calls that its clients still make, 4 for its containers and their records, 7 for a keeper that hangs, 5 for
    the volumes of what it ran; the last traces take 3."""
    stop_seconds_max: float = 30.0
    """How long going down may take before the process ends anyway (systemd kills after 90 s)."""

    def __post_init__(self) -> None:
        # The clock of going down starts first: a call that is never answered is waited for, then come the farewells.
        # Were there no time for both, every stop while a runtime hangs would be reported as a failure.
        if self.settle_seconds_max + self.farewell_seconds_max >= self.stop_seconds_max:
            raise ValueError(
                f"settle_seconds_max={self.settle_seconds_max:g} and farewell_seconds_max="
                f"{self.farewell_seconds_max:g} leave nothing of stop_seconds_max={self.stop_seconds_max:g}"
            )
