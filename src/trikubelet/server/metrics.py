"""GET /metrics, /metrics/probes and /metrics/slis: what the node has measured, in the text format of Prometheus.

The names that upstream's kubelet has are upstream's, so that its dashboards and alerts work; what only this agent has
begins with ``trikubelet_``. Nothing is measured here: each scrape spells out the parts' own figures. What pods and
images took is in ``pod_metrics``, what goes to the API server in ``cluster_metrics``, the process in
``process_metrics``. Each family is made when it is put into the text, so that nothing waits for all of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.server.cluster_metrics import of_cluster
from trikubelet.server.exposition import Family, counter, gauge, histogram, labels, sample
from trikubelet.server.pod_metrics import of_pods
from trikubelet.server.process_metrics import of_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trikubelet.kit.call_figures import CallFigures
    from trikubelet.model.stats_snapshot import VolumeUsed
    from trikubelet.server.health import Verdicts
    from trikubelet.server.http_figures import HttpFigures
    from trikubelet.server.node_view import NodeView


def node_families(
    view: NodeView, now_ns: int, http: HttpFigures | None = None, claimed: Sequence[tuple[str, VolumeUsed]] = ()
) -> Iterator[Family]:
    """The metrics. ``now_ns``: since the Unix epoch; ``http``: how the server that is asked was asked; ``claimed``: the
    volumes behind claims, with the claims' namespaces."""
    figures = view.figures()
    yield gauge("kubelet_node_name", "The node's name; the value is always 1.", {view.node().name: 1}, "node")
    yield from _of_pleg(view, now_ns)
    yield from _of_runtime(view.calls())
    yield from of_pods(figures)
    yield counter("kubelet_admission_rejections_total", "Pods that the node rejected.", view.rejected(), "reason")
    help_ = "Pods ended to make room for critical ones."
    yield counter("kubelet_preemptions", help_, view.preempted(), "preemption_signal")
    evicted, ages = view.evicted()
    yield counter("kubelet_evictions", "Pods evicted.", evicted, "eviction_signal")
    help_ = "The age of the measurement that a pod was evicted for."
    yield histogram("kubelet_eviction_stats_age_seconds", help_, ages, "eviction_signal")
    yield from _of_shutdown(view)
    help_ = "Unused images removed."
    yield counter("kubelet_image_garbage_collected_total", help_, view.images_removed(), "reason")
    yield from of_cluster(figures, view.publishing(), now_ns)
    if http is not None:
        yield from _of_http(http)
    yield from _of_volumes(claimed)
    yield from of_process(figures.setup)


def _of_shutdown(view: NodeView) -> Iterator[Family]:
    times = view.shutdown_times()
    for name, text, help_ in (
        ("start", times.start_time, "When pods last began to be ended because the machine went down"),
        ("end", times.end_time, "When none of these was waited for any more"),
    ):
        seconds = parse_rfc3339(text) / SECOND_NS if text else 0.0
        yield gauge(f"kubelet_graceful_shutdown_{name}_time_seconds", f"{help_}, since the Unix epoch.", seconds)


def probe_families(view: NodeView) -> Iterator[Family]:
    """What the probes were answered: apart from the rest because it grows with the pods, as upstream has it."""
    named = ("probe_type", "container", "pod", "namespace")
    probes = [((one.kind, one.container, one.pod, one.namespace), one) for one in view.probes()]
    for who, one in probes:
        answers = {(*who, one.uid, result): count for result, count in one.results.items()}
        help_ = "Answers of probes by what they mean."
        yield counter("prober_probe_total", help_, answers, *named, "pod_uid", "result")
    for who, one in probes:
        help_ = "From a probe's question to its answer."
        yield histogram("prober_probe_duration_seconds", help_, {who: one.durations}, *named)


def health_families(verdicts: Verdicts) -> Iterator[Family]:
    """Whether each health check passes, and how often it did."""
    kind = "healthz"
    passed = {(name, kind): int(well) for name, well in verdicts.passed.items()}
    yield gauge("kubernetes_healthcheck", "1 where a check passed last, else 0.", passed, "name", "type")
    counts = {(name, status, kind): count for (name, status), count in verdicts.counts.items()}
    yield counter("kubernetes_healthchecks_total", "Checks by how they ended.", counts, "name", "status", "type")


def _of_pleg(view: NodeView, now_ns: int) -> Iterator[Family]:
    figures = view.pleg()
    measured, counts = figures.measured, figures.counts
    for name, help_, spread in (
        ("relist_duration", "From the first call of a full list until its changes were known.", measured.relists),
        ("relist_interval", "Between the beginnings of two successful full lists.", measured.intervals),
        ("pod_relist_duration", "Lists of one pod, on demand.", measured.pod_relists),
    ):
        yield histogram(f"kubelet_pleg_{name}_seconds", help_, spread)
    if figures.listed_ago_seconds is not None:
        help_ = "When the last successful full list began, in seconds since the epoch."
        yield gauge("kubelet_pleg_last_seen_seconds", help_, now_ns / 1e9 - figures.listed_ago_seconds)
    help_ = "Requests to look at a pod that found no room to wait and were left to the next full list."
    yield counter("kubelet_pleg_discard_events", help_, figures.requests_dropped)
    help_ = "Streams of container events that brought some."
    yield counter("kubelet_evented_pleg_connection_success_count", help_, figures.event_streams)
    help_ = "Streams of container events that broke or were not to be had."
    yield counter("kubelet_evented_pleg_connection_error_count", help_, figures.event_stream_failures)
    yield gauge("kubelet_running_pods", "Pods that have a ready sandbox.", counts.running_pods)
    states = {name: getattr(counts, name) for name in ("created", "running", "exited", "unknown")}
    yield gauge("kubelet_running_containers", "Containers by the state they were listed in.", states, "container_state")
    yield histogram("trikubelet_pleg_inspection_duration_seconds", "Inspections of one pod.", figures.inspections)
    yield histogram("trikubelet_pleg_decode_duration_seconds", "Reading and comparing a full list.", measured.decodes)
    for name, help_, value in (
        ("list_bytes", "Size of the last full list.", measured.list_bytes),
        ("inspections_running", "Inspections under way.", figures.inspections_running),
        ("inspections_waiting", "Pods that wait for their inspection.", figures.inspections_waiting),
        ("oldest_inspection_age_seconds", "The age of the oldest one under way.", figures.oldest_inspection_seconds),
        ("hung_pods", "Pods whose inspection hangs or keeps failing.", figures.hung_pods),
        ("hints_waiting", "Requests to look at a pod that wait for their turn.", figures.requests_waiting),
        ("events_reliable", "Whether the runtime's events can be relied on.", int(figures.has_reliable_events)),
    ):
        yield gauge(f"trikubelet_pleg_{name}", help_, value)
    for name, help_, value in (
        (
            "hints_skipped_total",
            "Requests to look at a pod that a newer full list answered.",
            figures.requests_answered,
        ),
        ("events_received_total", "Container events that came from the runtime.", figures.events_received),
    ):
        yield counter(f"trikubelet_pleg_{name}", help_, value)


def _of_runtime(calls: Iterable[CallFigures]) -> Iterator[Family]:
    """How the runtime was asked, connection by connection."""
    calls = list(calls)
    spreads = {operation(path): spread for one in calls for path, spread in one.durations.items()}
    failures = {operation(path): count for one in calls for path, count in one.failures.items()}
    name, label = "kubelet_runtime_operations", "operation_type"
    counts = {word: spread.count for word, spread in spreads.items()}
    yield counter(f"{name}_total", "Calls to the runtime.", counts, label)
    yield counter(f"{name}_errors_total", "Those that failed.", failures, label)
    yield histogram(f"{name}_duration_seconds", "How long they took.", spreads, label)


def operation(path: str) -> str:
    """Upstream's label for a method of the CRI: ``/runtime.v1.RuntimeService/RunPodSandbox`` is run_podsandbox."""
    name = path.rpartition("/")[2].replace("PodSandbox", "Podsandbox")
    word = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return {"update_container_resources": "update_container"}.get(word, word)


def _of_http(http: HttpFigures) -> Iterator[Family]:
    """How the node's API was asked."""
    labels_ = ("method", "path", "server_type", "long_running")
    counts = {asked: spread.count for asked, spread in http.durations.items()}
    yield counter("kubelet_http_requests_total", "Requests.", counts, *labels_)
    help_ = "From a request until its answer began."
    yield histogram("kubelet_http_requests_duration_seconds", help_, http.durations, *labels_)
    yield gauge("kubelet_http_inflight_requests", "Requests under way.", http.under_way, *labels_)
    connected = {server: len(limit) for server, limit in http.connection_limits.items()}
    yield gauge("trikubelet_http_connections", "Connections there are.", connected, "server_type")
    help_ = "Connections closed because there were too many: unauthenticated ones, and those who found no room."
    closed = {(server, "unauthenticated"): limit.made_room for server, limit in http.connection_limits.items()}
    closed |= {(server, "no_room"): limit.turned_away for server, limit in http.connection_limits.items()}
    yield counter("trikubelet_http_connections_closed_total", help_, closed, "server_type", "reason")
    help_ = "WebSockets that were asked for, to talk to what runs."
    yield counter("kubelet_websocket_streaming_requests_total", help_, http.web_sockets, "subresource")


def _of_volumes(claimed: Sequence[tuple[str, VolumeUsed]]) -> Iterator[Family]:
    """How full the volumes behind claims are, and whether their drivers say that something is wrong with them."""
    for word, help_ in (
        ("available_bytes", "Bytes that are free."),
        ("capacity_bytes", "Bytes there are."),
        ("used_bytes", "Bytes that are used."),
        ("inodes", "Inodes there are."),
        ("inodes_free", "Inodes that are free."),
        ("inodes_used", "Inodes that are used."),
        ("health_status_abnormal", "1 for a volume with which something is wrong, else 0."),
    ):
        family = Family(f"kubelet_volume_stats_{word}", "gauge", help_, [])
        for namespace, volume in claimed:
            value = volume.is_abnormal if word == "health_status_abnormal" else getattr(volume.usage, word)
            if value is not None:
                named = labels(namespace=namespace, persistentvolumeclaim=volume.claim)
                family.samples.append(sample(family.name, named, int(value)))
        yield family
