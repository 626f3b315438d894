"""The part of ``/metrics`` about pods: their numbers, the durations of their starts, their failures.

(upstream-behaviour.md §1.22)
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Final

from trikubelet.core.resize.priority import NORMAL
from trikubelet.server.exposition import counter, gauge, histogram
from trikubelet.server.node_figures import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.images.figures import PullFigures
    from trikubelet.model.device_figures import DeviceFigures
    from trikubelet.model.volume_figures import VolumeFigures
    from trikubelet.pods.figures import PodFigures
    from trikubelet.pods.startups import Startups
    from trikubelet.server.exposition import Family
    from trikubelet.server.node_figures import NodeFigures, Tally

_WORKS: Final = [
    Work(lifecycle, *kind)
    for lifecycle, kind in product(
        ("sync", "terminating", "terminated"),
        (("desired", ""), ("desired", "true"), ("orphan", ""), ("orphan", "true"), ("runtime_only", "unknown")),
    )
]


def of_pods(figures: NodeFigures) -> Iterator[Family]:
    """Yield the metrics of the node's pods, their images and volumes."""
    yield from _of_tally(figures.tally)
    yield from _of_workers(figures.pods)
    yield from _of_starts(figures.startups)
    yield from _of_containers(figures.pods, figures.ended)
    yield from _of_resizes(figures.pods, figures.tally)
    yield from _of_images(figures.pulls, figures.pods)
    yield from _of_volumes(figures.volumes, figures.tally, figures.swept)
    yield from _of_devices(figures.devices)


def _of_tally(tally: Tally) -> Iterator[Family]:
    help_ = "Desired pods, static ones apart."
    yield gauge("kubelet_desired_pods", help_, _static(tally.desired), "static")
    help_ = "Desired pods that count against the node's limits."
    yield gauge("kubelet_active_pods", help_, _static(tally.active), "static")
    yield gauge("kubelet_mirror_pods", "Static pods that have or need a mirror pod.", tally.mirrors)
    works = {work: tally.working[work] for work in _WORKS}
    yield gauge("kubelet_working_pods", "Pods with a worker, by its state.", works, *Work._fields)
    help_ = "Ephemeral containers of desired pods."
    yield gauge("kubelet_managed_ephemeral_containers", help_, tally.ephemeral_containers)


def _of_workers(pods: PodFigures) -> Iterator[Family]:
    help_ = "Syncs of pod workers."
    yield histogram("kubelet_pod_worker_duration_seconds", help_, pods.syncs, "operation_type")
    help_ = "From the creation of a pod's worker to its first sync."
    yield histogram("kubelet_pod_worker_start_duration_seconds", help_, pods.worker_starts)
    yield histogram("kubelet_containers_per_pod_count", "Containers of pods when they start.", pods.containers)
    help_ = "Running pods without a worker."
    yield counter("kubelet_orphaned_runtime_pods_total", help_, pods.orphans)
    help_ = "Admitted pods, by where they state their resources."
    yield counter("kubelet_pod_level_resources_admission_total", help_, pods.admitted, "config_mode", "qos_class")
    help_ = "Pods that were started again under the same UID."
    yield counter("kubelet_restarted_pods_total", help_, _static(pods.restarted), "static")
    help_ = "Operations on pods' cgroups; an update creates a missing one."
    yield histogram("kubelet_cgroup_manager_duration_seconds", help_, pods.cgroups, "operation_type")


def _of_starts(startups: Startups) -> Iterator[Family]:
    help_ = "From the first observation of a pod until it ran."
    yield histogram("kubelet_pod_start_duration_seconds", help_, startups.seconds)
    help_ = "From a pod's creation until the API server knew that it ran."
    yield histogram("kubelet_pod_start_total_duration_seconds", help_, startups.total_seconds)
    help_ = "The same without pulling images and init containers, of pods without volumes to attach or mount."
    yield histogram("kubelet_pod_start_sli_duration_seconds", help_, startups.sli_seconds)
    if startups.first_network_seconds is not None:
        name = "kubelet_first_network_pod_start_sli_duration_seconds"
        yield gauge(name, "The start of the first pod with a network of its own.", startups.first_network_seconds)


def _of_resizes(pods: PodFigures, tally: Tally) -> Iterator[Family]:
    help_ = "Resources of containers that resizes change."
    labels = ("resource", "requirement", "operation")
    yield counter("kubelet_container_requested_resizes_total", help_, pods.resizes_asked, *labels)
    help_ = "Applying a resize, in milliseconds."
    yield histogram("kubelet_pod_resize_duration_milliseconds", help_, pods.resizes, "success")
    help_ = "Resizes that the node has not granted."
    pending = {(reason, NORMAL): 0 for reason in ("Deferred", "Infeasible")} | tally.resizes_pending
    yield gauge("kubelet_pod_pending_resizes", help_, pending, "reason", "priority_bucket")
    help_ = "Resizes that are granted but not yet applied."
    yield gauge("kubelet_pod_in_progress_resizes", help_, tally.resizes_under_way)
    help_ = "Resizes that can never be granted."
    yield counter("kubelet_pod_infeasible_resizes_total", help_, pods.resizes_infeasible, "reason_detail")
    help_ = "Resizes that were granted after waiting."
    yield counter("kubelet_pod_deferred_accepted_resizes_total", help_, pods.resizes_accepted, "retry_trigger")
    name, help_ = "kubelet_pod_deferred_resize_duration_seconds", "How long resizes were deferred, by how that ended."
    yield histogram(name, help_, pods.resizes_deferred, "resolution", "priority_bucket")


def _of_containers(pods: PodFigures, ended: Mapping[tuple[str, int, str], int]) -> Iterator[Family]:
    sandboxes = sum(spread.count for spread in pods.sandboxes.values())
    yield counter("kubelet_started_pods_total", "Attempts to create a sandbox.", sandboxes)
    yield counter("kubelet_started_pods_errors_total", "Failures to create a sandbox.", pods.sandbox_failures.total())
    name = "kubelet_started_user_namespaced_pods"
    yield counter(f"{name}_total", "Attempts to create a sandbox with a user namespace.", pods.mapped)
    yield counter(f"{name}_errors_total", "Failures to create a sandbox with a user namespace.", pods.mapped_failures)
    name, label = "kubelet_run_podsandbox", "runtime_handler"
    yield histogram(f"{name}_duration_seconds", "Duration of creating a sandbox.", pods.sandboxes, label)
    yield counter(f"{name}_errors_total", "Sandboxes that could not be created.", pods.sandbox_failures, label)
    name, label = "kubelet_started_containers", "container_type"
    yield counter(f"{name}_total", "Attempts to start a container.", pods.started, label)
    yield counter(
        f"{name}_errors_total", "Failures to start a container, by reason.", pods.start_failures, label, "code"
    )
    help_ = "Ended containers."
    yield counter("kubelet_terminated_containers_total", help_, ended, label, "exit_code", "reason")
    help_ = "HTTPS hooks that were answered over HTTP."
    yield counter("kubelet_lifecycle_handler_http_fallbacks_total", help_, pods.hook_fallbacks)
    help_ = "Sleep hooks that ended early."
    yield counter("kubelet_sleep_action_terminated_early_total", help_, pods.sleeps_cut)


def _of_images(pulls: PullFigures, pods: PodFigures) -> Iterator[Family]:
    help_ = "Duration of image pulls, waiting included, by size."
    yield histogram("kubelet_image_pull_duration_seconds", help_, pulls.durations, "image_size_in_bytes")
    name, help_ = "kubelet_image_manager_ensure_image_requests_total", "Requests to make an image present."
    yield counter(name, help_, pulls.ensured, "present_locally", "pull_policy", "pull_required")
    for word, help_, count in (
        ("requested", "Image volumes requested.", pods.image_volumes),
        ("mounted_succeed", "Image volumes mounted.", pods.image_volumes_mounted),
        ("mounted_errors", "Image volumes that could not be mounted.", pods.image_volume_failures),
    ):
        yield counter(f"kubelet_image_volume_{word}_total", help_, count)


def _of_volumes(volumes: VolumeFigures, tally: Tally, swept: tuple[int, int]) -> Iterator[Family]:
    help_ = "Duration of setting up a volume."
    # By the names of the labels. No volume is ever migrated, because the agent has no in-tree drivers.
    keyed = {(plugin, "volume_mount", status, False): spread for (plugin, status), spread in volumes.durations.items()}
    names = ("volume_plugin", "operation_name", "status", "migrated")
    yield histogram("storage_operation_duration_seconds", help_, keyed, *names)
    counts = {(plugin, "desired_state_of_world"): count for plugin, count in tally.volumes.items()}
    counts |= {(plugin, "actual_state_of_world"): count for plugin, count in volumes.ready().items()}
    help_ = "Volumes of pods: desired ones and ready ones."
    yield gauge("volume_manager_total_volumes", help_, counts, "plugin_name", "state")
    cleaned, stuck = swept
    help_ = "Orphaned pods removed between the last two passes over the disk."
    yield gauge("kubelet_orphan_pod_cleaned_volumes", help_, cleaned)
    yield gauge(
        "kubelet_orphan_pod_cleaned_volumes_errors", "Orphaned pods that could not be removed in the last pass.", stuck
    )


def _of_devices(devices: DeviceFigures) -> Iterator[Family]:
    help_ = "Registrations of device plugins."
    yield counter("kubelet_device_plugin_registration_total", help_, devices.registrations, "resource_name")
    help_ = "Calls of Allocate to device plugins."
    yield histogram("kubelet_device_plugin_alloc_duration_seconds", help_, devices.allocations, "resource_name")
    prefix = "kubelet_pod_resources_endpoint"
    help_ = "Calls to the pod resources API."
    versions: Counter[str] = Counter()
    for (_, version), count in devices.calls.items():
        versions[version] += count
    yield counter(f"{prefix}_requests_total", help_, versions, "server_api_version")
    for method in ("list", "get", "get_allocatable"):
        calls, errors = _of_method(devices.calls, method), _of_method(devices.errors, method)
        yield counter(f"{prefix}_requests_{method}", f"Calls of {method}.", calls, "server_api_version")
        yield counter(f"{prefix}_errors_{method}", f"Failed calls of {method}.", errors, "server_api_version")


def _of_method(counts: Mapping[tuple[str, str], int], method: str) -> dict[str, int]:
    return {version: count for (called, version), count in counts.items() if called == method}


def _static(counts: Mapping[bool, int]) -> dict[str, int]:
    """Return the counts by upstream's values of the label ``static``."""
    return {"": counts[False], "true": counts[True]}
