"""GET /metrics, /metrics/probes and /metrics/slis: the node's metrics in the text format of Prometheus.

Metrics of upstream's kubelet keep its names, so that its dashboards and alerts work; the others begin with
``trikubelet_``. Nothing is measured here: each scrape formats the parts' own figures. Metrics of pods and images are in
``pod_metrics``, those of the API server in ``cluster_metrics``, those of the process in ``process_metrics``. Each
family is made when it is put into the text, which bounds the time between two checkpoints.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.server.cluster_metrics import of_cluster
from trikubelet.server.exposition import Family, counter, gauge, histogram, labels, sample
from trikubelet.server.pod_metrics import of_pods
from trikubelet.server.process_metrics import of_process, of_start

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
    """Yield the metrics. ``now_ns``: since the Unix epoch; ``http``: the requests to the server that is scraped;
    ``claimed``: the volumes behind claims, with the claims' namespaces."""
    figures = view.figures()
    yield gauge("kubelet_node_name", "The node's name; the value is always 1.", {view.node().name: 1}, "node")
    yield from _of_pleg(view, now_ns)
    yield from _of_runtime(view.calls())
    yield from of_pods(figures)
    yield counter("kubelet_admission_rejections_total", "Pods that the node rejected.", view.rejected(), "reason")
    help_ = "Pods preempted to make room for critical ones."
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
        ("start", times.start_time, "When pods were last terminated because the machine shut down"),
        ("end", times.end_time, "When the last of these had terminated or timed out"),
    ):
        seconds = parse_rfc3339(text) / SECOND_NS if text else 0.0
        yield gauge(f"kubelet_graceful_shutdown_{name}_time_seconds", f"{help_}, since the Unix epoch.", seconds)


def probe_families(view: NodeView) -> Iterator[Family]:
    """Yield the results of the probes: apart from the rest because they grow with the pods, like upstream."""
    yield of_start()
    named = ("probe_type", "container", "pod", "namespace")
    probes = [((one.kind, one.container, one.pod, one.namespace), one) for one in view.probes()]
    for who, one in probes:
        answers = {(*who, one.uid, result): count for result, count in one.results.items()}
        help_ = "Results of probes."
        yield counter("prober_probe_total", help_, answers, *named, "pod_uid", "result")
    for who, one in probes:
        help_ = "Duration of probes."
        yield histogram("prober_probe_duration_seconds", help_, {who: one.durations}, *named)


def health_families(verdicts: Verdicts) -> Iterator[Family]:
    """Yield the last result of each health check, and the counts of its results."""
    kind = "healthz"
    passed = {(name, kind): int(well) for name, well in verdicts.passed.items()}
    yield gauge("kubernetes_healthcheck", "1 where a check passed last, else 0.", passed, "name", "type")
    counts = {(name, status, kind): count for (name, status), count in verdicts.counts.items()}
    yield counter("kubernetes_healthchecks_total", "Checks by their result.", counts, "name", "status", "type")


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
    help_ = "Requests to list a pod that found the queue full and were left to the next full list."
    yield counter("kubelet_pleg_discard_events", help_, figures.requests_dropped)
    help_ = "Streams of container events that brought some."
    yield counter("kubelet_evented_pleg_connection_success_count", help_, figures.event_streams)
    help_ = "Streams of container events that broke or could not be opened."
    yield counter("kubelet_evented_pleg_connection_error_count", help_, figures.event_stream_failures)
    yield gauge("kubelet_running_pods", "Pods that have a ready sandbox.", counts.running_pods)
    states = {name: getattr(counts, name) for name in ("created", "running", "exited", "unknown")}
    yield gauge("kubelet_running_containers", "Containers by the state they were listed in.", states, "container_state")
    yield histogram("trikubelet_pleg_inspection_duration_seconds", "Inspections of one pod.", figures.inspections)
    yield histogram("trikubelet_pleg_decode_duration_seconds", "Reading and comparing a full list.", measured.decodes)
    for name, help_, value in (
        ("list_bytes", "Size of the last full list.", measured.list_bytes),
        ("inspections_running", "Inspections in progress.", figures.inspections_running),
        ("inspections_waiting", "Pods that wait for their inspection.", figures.inspections_waiting),
        ("oldest_inspection_age_seconds", "Age of the oldest inspection.", figures.oldest_inspection_seconds),
        ("hung_pods", "Pods whose inspection hangs or keeps failing.", figures.hung_pods),
        ("hints_waiting", "Requests to list a pod that are queued.", figures.requests_waiting),
        ("events_reliable", "Whether the runtime's events are reliable.", int(figures.has_reliable_events)),
    ):
        yield gauge(f"trikubelet_pleg_{name}", help_, value)
    for name, help_, value in (
        (
            "hints_skipped_total",
            "Requests to list a pod that a newer full list made unnecessary.",
            figures.requests_answered,
        ),
        ("events_received_total", "Container events that came from the runtime.", figures.events_received),
    ):
        yield counter(f"trikubelet_pleg_{name}", help_, value)


def _of_runtime(calls: Iterable[CallFigures]) -> Iterator[Family]:
    """Yield the calls to the runtime, by connection."""
    calls = list(calls)
    spreads = {operation(path): spread for one in calls for path, spread in one.durations.items()}
    failures = {operation(path): count for one in calls for path, count in one.failures.items()}
    name, label = "kubelet_runtime_operations", "operation_type"
    counts = {word: spread.count for word, spread in spreads.items()}
    yield counter(f"{name}_total", "Calls to the runtime.", counts, label)
    yield counter(f"{name}_errors_total", "Those that failed.", failures, label)
    yield histogram(f"{name}_duration_seconds", "How long they took.", spreads, label)


def operation(path: str) -> str:
    """Return upstream's label for a method of the CRI: ``/runtime.v1.RuntimeService/RunPodSandbox`` is
    run_podsandbox."""
    name = path.rpartition("/")[2].replace("PodSandbox", "Podsandbox")
    word = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return {"update_container_resources": "update_container"}.get(word, word)


def _of_http(http: HttpFigures) -> Iterator[Family]:
    """Yield the requests to the node's API."""
    labels_ = ("method", "path", "server_type", "long_running")
    counts = {asked: spread.count for asked, spread in http.durations.items()}
    yield counter("kubelet_http_requests_total", "Requests.", counts, *labels_)
    help_ = "From a request until its answer began."
    yield histogram("kubelet_http_requests_duration_seconds", help_, http.durations, *labels_)
    yield gauge("kubelet_http_inflight_requests", "Requests in progress.", http.under_way, *labels_)
    connected = {server: len(limit) for server, limit in http.connection_limits.items()}
    yield gauge("trikubelet_http_connections", "Open connections.", connected, "server_type")
    help_ = "Connections closed because there were too many: unauthenticated ones, and new ones beyond the limit."
    closed = {(server, "unauthenticated"): limit.made_room for server, limit in http.connection_limits.items()}
    closed |= {(server, "no_room"): limit.turned_away for server, limit in http.connection_limits.items()}
    yield counter("trikubelet_http_connections_closed_total", help_, closed, "server_type", "reason")
    help_ = "Requests for WebSockets to containers and pods."
    yield counter("kubelet_websocket_streaming_requests_total", help_, http.web_sockets, "subresource")


def _of_volumes(claimed: Sequence[tuple[str, VolumeUsed]]) -> Iterator[Family]:
    """Yield how full the volumes behind claims are, and whether their drivers report them abnormal."""
    for word, help_ in (
        ("available_bytes", "Free bytes."),
        ("capacity_bytes", "Capacity in bytes."),
        ("used_bytes", "Used bytes."),
        ("inodes", "Number of inodes."),
        ("inodes_free", "Free inodes."),
        ("inodes_used", "Used inodes."),
        ("health_status_abnormal", "1 for an abnormal volume, else 0."),
    ):
        family = Family(f"kubelet_volume_stats_{word}", "gauge", help_, [])
        for namespace, volume in claimed:
            value = volume.is_abnormal if word == "health_status_abnormal" else getattr(volume.usage, word)
            if value is not None:
                named = labels(namespace=namespace, persistentvolumeclaim=volume.claim)
                family.samples.append(sample(family.name, named, int(value)))
        yield family
