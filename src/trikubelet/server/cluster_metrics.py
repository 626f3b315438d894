"""The part of ``/metrics`` about the API server: requests, statuses and events written to it, and certificates.

(upstream-behaviour.md §1.22)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.timestamps import SECOND_NS
from trikubelet.host.own_process import started_seconds
from trikubelet.model.certificates import CLIENT_SIGNER
from trikubelet.server.exposition import counter, gauge, histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trikubelet.kube.figures import ApiFigures
    from trikubelet.model.node_startup import NodeStartup
    from trikubelet.node.figures import RotationFigures
    from trikubelet.server.exposition import Family
    from trikubelet.server.node_figures import NodeFigures
    from trikubelet.status.figures import PublishFigures


def of_cluster(figures: NodeFigures, writes: PublishFigures | None, now_ns: int) -> Iterator[Family]:
    """Yield the metrics of the cluster; none on a node without one."""
    if writes is not None:
        yield from _of_writes(writes)
        yield from _of_startup(writes.node)
    if figures.api is not None:
        yield from _of_asking(figures.api)
    for rotation in figures.rotations:
        yield from _of_certificate(rotation, now_ns)


def _of_writes(writes: PublishFigures) -> Iterator[Family]:
    statuses, events = writes.statuses, writes.events
    help_ = "From the first sign of a change of a pod's status until the API server had it."
    yield histogram("kubelet_pod_status_sync_duration_seconds", help_, statuses.durations)
    for name, help_, value in (
        ("status_patches", "Statuses of pods that were patched.", statuses.patches),
        ("status_removals", "Pods that had ended and were removed from the API server.", statuses.removals),
        ("status_failures", "Writes about pods that the API server did not answer.", statuses.failures),
        ("status_bugs", "Times that a pod's status could not be written because of a bug in the agent.", statuses.bugs),
        ("events_written", "Requests that sent an event.", events.written),
        ("events_lost", "Events dropped because the queue was full or the API server did not work.", events.lost),
        ("events_filtered", "Events not sent because their object had too many.", events.filtered),
        ("events_refused", "Events that the API server rejected.", events.refused),
        ("event_bugs", "Events not sent because of a bug in the agent.", events.bugs),
    ):
        yield counter(f"trikubelet_{name}_total", help_, value)
    yield gauge("trikubelet_status_waiting", "Pods whose status waits to be written.", statuses.waiting)
    yield gauge("trikubelet_events_waiting", "Events that wait to be sent.", events.waiting)


def _of_startup(node: NodeStartup) -> Iterator[Family]:
    """Yield how long each part of bringing up a new node took; nothing for one that was registered before."""
    if not node.registered_ns:
        return
    began_ns = int(started_seconds() * SECOND_NS)
    for part, help_, since_ns, until_ns in (
        ("pre_kubelet", "From the start of the machine to that of the agent.", node.booted_ns, began_ns),
        ("pre_registration", "From the agent's start until it registered the node.", began_ns, node.tried_ns),
        ("registration", "Registering the node.", node.tried_ns, node.registered_ns),
        ("post_registration", "From the node's registration until it was ready.", node.registered_ns, node.ready_ns),
        ("", "From the start of the machine until the node was ready.", node.booted_ns, node.ready_ns),
    ):
        if since_ns and until_ns:
            name = "_".join(filter(None, ("kubelet_node_startup", part, "duration_seconds")))
            yield gauge(name, help_, (until_ns - since_ns) / SECOND_NS)


def _of_asking(api: ApiFigures) -> Iterator[Family]:
    by_verb = ("verb", "host")
    help_ = "Requests to the API server, by the code of the answer."
    yield counter("rest_client_requests_total", help_, api.answers, "code", "method", "host")
    help_ = "From a request until its answer began."
    yield histogram("rest_client_request_duration_seconds", help_, api.durations, *by_verb)
    yield histogram("rest_client_request_size_bytes", "Bytes sent with requests.", api.sent, *by_verb)
    yield histogram("rest_client_response_size_bytes", "Bytes of complete answers.", api.received, *by_verb)
    help_ = "Requests retried because the server was busy."
    yield counter("rest_client_request_retries_total", help_, api.retries, "code", *by_verb)
    help_ = "Requests that named a pod while the API server had it, of those that are gone."
    yield histogram("trikubelet_pod_api_requests", help_, api.of_pods, "verb")


def _of_certificate(rotation: RotationFigures, now_ns: int) -> Iterator[Family]:
    left = (rotation.not_after_ns - now_ns) / SECOND_NS if rotation.not_after_ns else float("inf")
    is_client = rotation.signer == CLIENT_SIGNER
    word, what = ("client", "client") if is_client else ("server", "serving")
    help_ = f"Until the {what} certificate ends, in seconds; infinite while there is none."
    yield gauge(f"kubelet_certificate_manager_{word}_ttl_seconds", help_, left)
    help_ = f"Tries to replace the {what} certificate that failed."
    if is_client:
        yield counter("kubelet_certificate_manager_client_expiration_renew_errors", help_, rotation.failures)
        return
    yield counter("kubelet_server_expiration_renew_errors", help_, rotation.failures)
    help_ = "The age of serving certificates when they were replaced."
    yield histogram("kubelet_certificate_manager_server_rotation_seconds", help_, rotation.lived)
