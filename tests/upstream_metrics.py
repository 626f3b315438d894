"""Upstream's metrics, name by name: what ``/metrics`` has of each, or why not. (upstream-behaviour.md §1.22)

``HERE`` are those that a node of a cluster shows, each with its type, its labels and, of a histogram, its bounds.
``ABSENT`` are the others, by what of upstream's kubelet this agent does not have (yet). What is here and in neither is
found by ``test_upstream_metrics.py``, and what a real node does not show by ``live/test_cluster_node_api.py``.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STARTUP = (
    *(0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0),
    *(480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0),
)
RUNTIME = tuple(0.005 * 2.5**power for power in range(14))
PULL = (
    *(1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0),
    *(2700.0, 3600.0),
)
STATUS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0)
REST = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
BYTES = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)
STORAGE = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
RESIZE = (
    *(10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 30000.0, 60000.0, 120000.0, 300000.0),
    600000.0,
)
DEFERRAL = (
    *(5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 150.0, 180.0, 300.0, 600.0, 1200.0, 1800.0),
    3600.0,
)
LIVED = (
    *(60.0, 3600.0, 14400.0, 21600.0, 43200.0, 86400.0, 345600.0, 604800.0, 2592000.0, 7776000.0, 15552000.0),
    *(31104000.0, 124416000.0),
)


class Row(NamedTuple):
    """One metric. ``often``: whether every node of a cluster shows it, where something ran; the others need something
    to happen first (a failure, a certificate that comes to its end) or somebody to ask for it."""

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    often: bool = True


def _histogram(name: str, labels: str = "", bounds: tuple[float, ...] = DEFAULT, *, often: bool = True) -> Row:
    return Row(name, "histogram", tuple(labels.split()), bounds, often)


def _counter(name: str, labels: str = "", *, often: bool = True) -> Row:
    return Row(name, "counter", tuple(labels.split()), (), often)


def _gauge(name: str, labels: str = "", *, often: bool = True) -> Row:
    return Row(name, "gauge", tuple(labels.split()), (), often)


HERE = (
    _histogram("kubelet_pleg_relist_duration_seconds"),
    _histogram("kubelet_pleg_relist_interval_seconds"),
    _histogram("kubelet_pleg_pod_relist_duration_seconds"),
    _gauge("kubelet_pleg_last_seen_seconds"),
    _counter("kubelet_pleg_discard_events"),
    _counter("kubelet_evented_pleg_connection_success_count"),
    _counter("kubelet_evented_pleg_connection_error_count"),
    _histogram("kubelet_pod_worker_duration_seconds", "operation_type"),
    _histogram("kubelet_pod_worker_start_duration_seconds"),
    _histogram("kubelet_pod_start_duration_seconds", bounds=STARTUP),
    _histogram("kubelet_pod_start_sli_duration_seconds", bounds=STARTUP),
    _histogram("kubelet_pod_start_total_duration_seconds", bounds=STARTUP),
    _gauge("kubelet_first_network_pod_start_sli_duration_seconds"),
    _histogram("kubelet_pod_status_sync_duration_seconds", bounds=STATUS),
    _counter("kubelet_runtime_operations_total", "operation_type"),
    _histogram("kubelet_runtime_operations_duration_seconds", "operation_type", RUNTIME),
    _counter("kubelet_runtime_operations_errors_total", "operation_type", often=False),
    _histogram("kubelet_run_podsandbox_duration_seconds", "runtime_handler"),
    _counter("kubelet_run_podsandbox_errors_total", "runtime_handler", often=False),
    _counter("kubelet_started_pods_total"),
    _counter("kubelet_started_pods_errors_total"),
    _counter("kubelet_started_user_namespaced_pods_total"),
    _counter("kubelet_started_user_namespaced_pods_errors_total"),
    _counter("kubelet_started_containers_total", "container_type"),
    _counter("kubelet_started_containers_errors_total", "container_type code", often=False),
    _counter("kubelet_terminated_containers_total", "container_type exit_code reason", often=False),
    _gauge("kubelet_running_pods"),
    _gauge("kubelet_running_containers", "container_state"),
    _gauge("kubelet_desired_pods", "static"),
    _gauge("kubelet_active_pods", "static"),
    _gauge("kubelet_mirror_pods"),
    _gauge("kubelet_working_pods", "lifecycle config static"),
    _counter("kubelet_orphaned_runtime_pods_total"),
    _counter("kubelet_restarted_pods_total", "static"),
    _histogram("kubelet_containers_per_pod_count", bounds=(1.0, 2.0, 4.0, 8.0, 16.0)),
    _gauge("kubelet_managed_ephemeral_containers"),
    _histogram("kubelet_image_pull_duration_seconds", "image_size_in_bytes", PULL, often=False),
    _counter("kubelet_image_manager_ensure_image_requests_total", "present_locally pull_policy pull_required"),
    _counter("kubelet_image_volume_requested_total"),
    _counter("kubelet_image_volume_mounted_succeed_total"),
    _counter("kubelet_image_volume_mounted_errors_total"),
    _counter("kubelet_preemptions", "preemption_signal", often=False),
    _counter("kubelet_evictions", "eviction_signal", often=False),
    _histogram("kubelet_eviction_stats_age_seconds", "eviction_signal", often=False),
    _gauge("kubelet_graceful_shutdown_start_time_seconds"),
    _gauge("kubelet_graceful_shutdown_end_time_seconds"),
    _counter("kubelet_image_garbage_collected_total", "reason", often=False),
    _counter("kubelet_admission_rejections_total", "reason", often=False),
    _histogram("kubelet_cgroup_manager_duration_seconds", "operation_type"),
    _gauge("kubelet_cgroup_version"),
    *(
        _gauge(f"kubelet_volume_stats_{word}", "namespace persistentvolumeclaim", often=False)
        for word in (
            *("available_bytes", "capacity_bytes", "used_bytes", "inodes", "inodes_free", "inodes_used"),
            "health_status_abnormal",
        )
    ),
    _gauge("kubelet_orphan_pod_cleaned_volumes"),
    _gauge("kubelet_orphan_pod_cleaned_volumes_errors"),
    _gauge("kubelet_certificate_manager_client_ttl_seconds", often=False),
    _counter("kubelet_certificate_manager_client_expiration_renew_errors", often=False),
    _gauge("kubelet_certificate_manager_server_ttl_seconds", often=False),
    _counter("kubelet_server_expiration_renew_errors", often=False),
    _histogram("kubelet_certificate_manager_server_rotation_seconds", bounds=LIVED, often=False),
    _counter("kubelet_http_requests_total", "method path server_type long_running"),
    _histogram("kubelet_http_requests_duration_seconds", "method path server_type long_running"),
    _gauge("kubelet_http_inflight_requests", "method path server_type long_running"),
    _counter("kubelet_websocket_streaming_requests_total", "subresource", often=False),
    _gauge("kubelet_node_name", "node"),
    *(
        _gauge(f"kubelet_node_startup_{part}duration_seconds", often=False)
        for part in ("pre_kubelet_", "pre_registration_", "registration_", "post_registration_", "")
    ),
    _counter("kubelet_lifecycle_handler_http_fallbacks_total"),
    _counter("kubelet_sleep_action_terminated_early_total"),
    _histogram("storage_operation_duration_seconds", "volume_plugin operation_name status migrated", STORAGE),
    _gauge("volume_manager_total_volumes", "plugin_name state"),
    _counter("rest_client_requests_total", "code method host"),
    _histogram("rest_client_request_duration_seconds", "verb host", REST),
    _histogram("rest_client_request_size_bytes", "verb host", BYTES),
    _histogram("rest_client_response_size_bytes", "verb host", BYTES),
    _counter("rest_client_request_retries_total", "code verb host", often=False),
    _gauge("kubernetes_feature_enabled", "name stage"),
    _gauge(
        "kubernetes_build_info",
        "major minor git_version platform build_date compiler git_commit git_tree_state go_version",
    ),
    _counter("process_cpu_seconds_total"),
    _gauge("process_resident_memory_bytes"),
    _gauge("process_virtual_memory_bytes"),
    _gauge("process_virtual_memory_max_bytes"),
    _gauge("process_start_time_seconds"),
    _gauge("process_open_fds"),
    _gauge("process_max_fds"),
    _counter("kubelet_container_requested_resizes_total", "resource requirement operation", often=False),
    _histogram("kubelet_pod_resize_duration_milliseconds", "success", RESIZE, often=False),
    _gauge("kubelet_pod_pending_resizes", "reason priority_bucket"),
    _gauge("kubelet_pod_in_progress_resizes"),
    _counter("kubelet_pod_infeasible_resizes_total", "reason_detail", often=False),
    _counter("kubelet_pod_deferred_accepted_resizes_total", "retry_trigger", often=False),
    _histogram("kubelet_pod_deferred_resize_duration_seconds", "resolution priority_bucket", DEFERRAL, often=False),
    _counter("kubelet_pod_level_resources_admission_total", "config_mode qos_class"),
    _counter("kubelet_device_plugin_registration_total", "resource_name", often=False),
    _histogram("kubelet_device_plugin_alloc_duration_seconds", "resource_name", often=False),
    _counter("kubelet_pod_resources_endpoint_requests_total", "server_api_version", often=False),
    _counter("kubelet_pod_resources_endpoint_requests_list", "server_api_version", often=False),
    _counter("kubelet_pod_resources_endpoint_requests_get", "server_api_version", often=False),
    _counter("kubelet_pod_resources_endpoint_requests_get_allocatable", "server_api_version", often=False),
    _counter("kubelet_pod_resources_endpoint_errors_list", "server_api_version", often=False),
    _counter("kubelet_pod_resources_endpoint_errors_get", "server_api_version", often=False),
    _counter("kubelet_pod_resources_endpoint_errors_get_allocatable", "server_api_version", often=False),
)

PROBES = (
    _gauge("process_start_time_seconds"),
    _counter("prober_probe_total", "probe_type container pod namespace pod_uid result"),
    _histogram("prober_probe_duration_seconds", "probe_type container pod namespace"),
)
"""Those of ``/metrics/probes``."""

ABSENT = {
    "records of pulls are files that nobody keeps in memory, and to count them is to list a directory": (
        "kubelet_imagemanager_ondisk_pulledrecords kubelet_imagemanager_ondisk_pullintents "
        "kubelet_imagemanager_inmemory_pulledrecords_usage_percent "
        "kubelet_imagemanager_inmemory_pullintents_usage_percent kubelet_imagemanager_image_mustpull_checks_total"
    ),
    "there are no managers of CPUs, memory and topology yet": (
        "kubelet_cpu_manager_pinning_requests_total kubelet_memory_manager_pinning_requests_total "
        "kubelet_topology_manager_admission_requests_total kubelet_container_aligned_compute_resources_count "
        "kubelet_resource_manager_container_assignments_total "
        "kubelet_container_aligned_compute_resources_failure_count "
        "kubelet_cpu_manager_allocation_per_numa kubelet_cpu_manager_exclusive_cpu_allocation_count "
        "kubelet_cpu_manager_pinning_errors_total kubelet_cpu_manager_shared_pool_size_millicores "
        "kubelet_memory_manager_pinning_errors_total kubelet_topology_manager_admission_duration_ms "
        "kubelet_topology_manager_admission_errors_total"
    ),
    "the cgroup of all pods has these sums in its files memory.min and memory.low": (
        "kubelet_memory_qos_node_memory_low_bytes kubelet_memory_qos_node_memory_min_bytes"
    ),
    "there is no gRPC API that pods are watched by": (
        "kubelet_pod_watch_events_dropped_total kubelet_pod_requests_total kubelet_pod_requests_list_total "
        "kubelet_pod_requests_get_total kubelet_pod_requests_watch_total"
    ),
    "there are no host-process containers, which are Windows'": (
        "kubelet_started_host_process_containers_total kubelet_started_host_process_containers_errors_total"
    ),
    "what became of a pod's certificate is told to its pod and not counted yet": "kubelet_podcertificate_states",
    "there is no dynamic allocation of resources yet": (
        "kubelet_dra_operations_duration_seconds kubelet_dra_grpc_operations_duration_seconds "
        "dra_operations_duration_seconds dra_grpc_operations_duration_seconds dra_resource_claims_in_use "
        "dra_node_prepare_skips_total dra_node_unprepare_skips_total"
    ),
    "an event only says where to look, so its age means nothing": "kubelet_evented_pleg_connection_latency_seconds",
    "containerd and CRI-O of today have all that upstream is about to ask for": "kubelet_cri_losing_support",
    "volumes are measured when somebody asks, in the scrape of /stats/summary": (
        "kubelet_volume_metric_collection_duration_seconds kubelet_container_log_filesystem_used_bytes"
    ),
    "requests are not held back: each purpose has few connections": "rest_client_rate_limiter_duration_seconds",
    "there are no such queues: who waits is in trikubelet_status_waiting and trikubelet_pleg_hints_waiting": (
        "workqueue_depth workqueue_adds_total workqueue_queue_duration_seconds workqueue_work_duration_seconds"
    ),
    "volumes are neither made nor attached by a node": "volume_operation_total_seconds",
    "operations on volumes are measured as storage_operation_duration_seconds, those of drivers too": (
        "csi_operations_seconds"
    ),
    "the agent keeps no record of mounted volumes that a restart would have to build anew": (
        "reconstruct_volume_operations_total reconstruct_volume_operations_errors_total "
        "force_cleaned_failed_volume_operations_total force_cleaned_failed_volume_operation_errors_total"
    ),
    "they count the machine's bytes, which the node's own metrics have": (
        "process_network_receive_bytes_total process_network_transmit_bytes_total"
    ),
    "client connections are kept for each purpose, and there is no cache of them": (
        "rest_client_transport_cache_entries rest_client_transport_create_calls_total "
        "rest_client_transport_cert_rotation_gc_calls_total rest_client_transport_cache_gc_calls_total "
        "rest_client_transport_ca_reload_total rest_client_dns_resolution_duration_seconds"
    ),
    "there is no Go": "go_goroutines go_memstats_alloc_bytes",
}
"""Why → names."""
