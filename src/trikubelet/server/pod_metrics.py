"""The part of ``/metrics`` about pods: how many there are, what starting them took, what failed.

(upstream-behaviour.md §1.22)
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from trikubelet.core.resize.priority import NORMAL
from trikubelet.server.exposition import counter, gauge, histogram
from trikubelet.server.node_figures import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trikubelet.images.figures import PullFigures
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
    """What there is of the node's pods, their images and volumes."""
    yield from _of_tally(figures.tally)
    yield from _of_workers(figures.pods)
    yield from _of_starts(figures.startups)
    yield from _of_containers(figures.pods, figures.ended)
    yield from _of_resizes(figures.pods, figures.tally)
    yield from _of_images(figures.pulls, figures.pods)
    yield from _of_volumes(figures.volumes, figures.tally, figures.swept)


def _of_tally(tally: Tally) -> Iterator[Family]:
    help_ = "Pods that are wanted, static ones apart."
    yield gauge("kubelet_desired_pods", help_, _static(tally.desired), "static")
    help_ = "Those of them that hold a place when another asks for one."
    yield gauge("kubelet_active_pods", help_, _static(tally.active), "static")
    yield gauge("kubelet_mirror_pods", "Static pods that have, or are to have, a mirror.", tally.mirrors)
    works = {work: tally.working[work] for work in _WORKS}
    yield gauge("kubelet_working_pods", "Pods with a worker, by what it does.", works, *Work._fields)
    help_ = "Ephemeral containers of the pods that are wanted."
    yield gauge("kubelet_managed_ephemeral_containers", help_, tally.ephemeral_containers)


def _of_workers(pods: PodFigures) -> Iterator[Family]:
    help_ = "Syncs of pod workers."
    yield histogram("kubelet_pod_worker_duration_seconds", help_, pods.syncs, "operation_type")
    help_ = "From the making of a pod's worker to its first sync."
    yield histogram("kubelet_pod_worker_start_duration_seconds", help_, pods.worker_starts)
    yield histogram("kubelet_containers_per_pod_count", "Containers of the pods begun with.", pods.containers)
    help_ = "Pods that ran and that no worker knew of."
    yield counter("kubelet_orphaned_runtime_pods_total", help_, pods.orphans)
    help_ = "Pods that were started again under the same UID."
    yield counter("kubelet_restarted_pods_total", help_, _static(pods.restarted), "static")
    help_ = "What was done to pods' cgroups; an update makes one where there is none."
    yield histogram("kubelet_cgroup_manager_duration_seconds", help_, pods.cgroups, "operation_type")


def _of_starts(startups: Startups) -> Iterator[Family]:
    help_ = "From the first sight of a pod until it ran."
    yield histogram("kubelet_pod_start_duration_seconds", help_, startups.seconds)
    help_ = "From a pod's creation until its API server had it that it ran."
    yield histogram("kubelet_pod_start_total_duration_seconds", help_, startups.total_seconds)
    help_ = "The same without pulling images and init containers, of pods without volumes to attach or mount."
    yield histogram("kubelet_pod_start_sli_duration_seconds", help_, startups.sli_seconds)
    if startups.first_network_seconds is not None:
        name = "kubelet_first_network_pod_start_sli_duration_seconds"
        yield gauge(name, "That of the first pod with a network of its own.", startups.first_network_seconds)


def _of_resizes(pods: PodFigures, tally: Tally) -> Iterator[Family]:
    help_ = "Amounts of containers that new specs change."
    labels = ("resource", "requirement", "operation")
    yield counter("kubelet_container_requested_resizes_total", help_, pods.resizes_asked, *labels)
    help_ = "Carrying a resize out, in milliseconds."
    yield histogram("kubelet_pod_resize_duration_milliseconds", help_, pods.resizes, "success")
    help_ = "Resizes that the node has not granted."
    pending = {(reason, NORMAL): 0 for reason in ("Deferred", "Infeasible")} | tally.resizes_pending
    yield gauge("kubelet_pod_pending_resizes", help_, pending, "reason", "priority_bucket")
    help_ = "Resizes that were granted and are not carried out."
    yield gauge("kubelet_pod_in_progress_resizes", help_, tally.resizes_under_way)
    help_ = "Resizes that were never to be granted."
    yield counter("kubelet_pod_infeasible_resizes_total", help_, pods.resizes_infeasible, "reason_detail")
    help_ = "Resizes that were granted after they had waited."
    yield counter("kubelet_pod_deferred_accepted_resizes_total", help_, pods.resizes_accepted, "retry_trigger")


def _of_containers(pods: PodFigures, ended: Mapping[tuple[str, int, str], int]) -> Iterator[Family]:
    sandboxes = sum(spread.count for spread in pods.sandboxes.values())
    yield counter("kubelet_started_pods_total", "Sandboxes that were to be made.", sandboxes)
    yield counter("kubelet_started_pods_errors_total", "Those that were not.", pods.sandbox_failures.total())
    name = "kubelet_started_user_namespaced_pods"
    yield counter(f"{name}_total", "Sandboxes with users of their own that were to be made.", pods.mapped)
    yield counter(f"{name}_errors_total", "Those that were not.", pods.mapped_failures)
    name, label = "kubelet_run_podsandbox", "runtime_handler"
    yield histogram(f"{name}_duration_seconds", "Making a sandbox.", pods.sandboxes, label)
    yield counter(f"{name}_errors_total", "Sandboxes that were not made.", pods.sandbox_failures, label)
    name, label = "kubelet_started_containers", "container_type"
    yield counter(f"{name}_total", "Containers that were to be started.", pods.started, label)
    yield counter(f"{name}_errors_total", "Those that were not, and why.", pods.start_failures, label, "code")
    help_ = "Runs of containers that ended."
    yield counter("kubelet_terminated_containers_total", help_, ended, label, "exit_code", "reason")
    help_ = "Hooks that asked for HTTPS and got an answer without it."
    yield counter("kubelet_lifecycle_handler_http_fallbacks_total", help_, pods.hook_fallbacks)
    help_ = "Hooks that were to sleep and were ended before."
    yield counter("kubelet_sleep_action_terminated_early_total", help_, pods.sleeps_cut)


def _of_images(pulls: PullFigures, pods: PodFigures) -> Iterator[Family]:
    help_ = "Pulls of images with waiting for their turn, by size."
    yield histogram("kubelet_image_pull_duration_seconds", help_, pulls.durations, "image_size_in_bytes")
    name, help_ = "kubelet_image_manager_ensure_image_requests_total", "How often an image was asked for."
    yield counter(name, help_, pulls.ensured, "present_locally", "pull_policy", "pull_required")
    for word, help_, count in (
        ("requested", "Images asked for as volumes.", pods.image_volumes),
        ("mounted_succeed", "Those that were mounted.", pods.image_volumes_mounted),
        ("mounted_errors", "Those that were not.", pods.image_volume_failures),
    ):
        yield counter(f"kubelet_image_volume_{word}_total", help_, count)


def _of_volumes(volumes: VolumeFigures, tally: Tally, swept: tuple[int, int]) -> Iterator[Family]:
    help_ = "Getting a volume ready."
    # By the names of the labels; nothing was ever migrated from a driver inside the agent, which has none.
    keyed = {(plugin, "volume_mount", status, False): spread for (plugin, status), spread in volumes.durations.items()}
    names = ("volume_plugin", "operation_name", "status", "migrated")
    yield histogram("storage_operation_duration_seconds", help_, keyed, *names)
    counts = {(plugin, "desired_state_of_world"): count for plugin, count in tally.volumes.items()}
    counts |= {(plugin, "actual_state_of_world"): count for plugin, count in volumes.ready().items()}
    help_ = "Volumes that pods name, and those that are ready."
    yield gauge("volume_manager_total_volumes", help_, counts, "plugin_name", "state")
    cleaned, stuck = swept
    help_ = "Pods whose remains were removed between the last two looks at the disk."
    yield gauge("kubelet_orphan_pod_cleaned_volumes", help_, cleaned)
    yield gauge(
        "kubelet_orphan_pod_cleaned_volumes_errors", "Those whose remains could not be, at the last look.", stuck
    )


def _static(counts: Mapping[bool, int]) -> dict[str, int]:
    """By upstream's values of the label ``static``."""
    return {"": counts[False], "true": counts[True]}
