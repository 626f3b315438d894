"""A pod's description, top to bottom. Pure: API objects and the time in, lines out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trikubelet.cli.describe.container import describe_container
from trikubelet.cli.describe.layout import Layout
from trikubelet.cli.describe.volume import describe_volume
from trikubelet.core.kubectl.event_row import message_of
from trikubelet.core.kubectl.words import NONE, since
from trikubelet.core.names import as_container
from trikubelet.core.timestamps import SECOND_NS, parse_rfc3339
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trikubelet.server.node_view import ManifestFault, PodWork

SYNC_SECONDS_LONG: Final = 5.0
"""A longer sync waits for something, which the description shows, in seconds."""
_ENDED: Final = ("Succeeded", "Failed")


def describe_pod(
    pod: k8s.Pod,
    events: Sequence[k8s.Event],
    manifest: str,
    faults: Sequence[ManifestFault],
    work: PodWork | None,
    problems: Sequence[str],
    now_ns: int,
) -> list[str]:
    """Return the lines. ``events``: this pod's, least recently seen first; ``manifest``: its path or URL, if any;
    ``faults``: those of its manifest; ``problems``: reasons why its node cannot do its work."""
    out = Layout()
    status = pod.status or k8s.PodStatus()
    _head(out, pod, status, now_ns)
    pulls = {} if work is None else work.pulls
    _containers(out, "Init Containers", pod.spec.init_containers, status.init_container_statuses, pulls)
    _containers(out, "Containers", pod.spec.containers, status.container_statuses, pulls)
    extra = tuple(as_container(one) for one in pod.spec.ephemeral_containers)
    _containers(out, "Ephemeral Containers", extra, status.ephemeral_container_statuses, pulls)
    _conditions(out, status)
    _volumes(out, pod, {} if work is None else work.volumes)
    _tail(out, pod, status)
    _manifest(out, manifest, faults)
    _work(out, work)
    if problems and status.phase not in _ENDED:
        out.title(0, "Node Problems")
        out.texts(1, problems)
    events_of(out, events, now_ns)
    return out.lines()


def when(time: str) -> str:
    """Return a time as kubectl formats it: ``Sat, 21 Nov 2026 07:01:02 +0000``."""
    moment = datetime.fromtimestamp(parse_rfc3339(time) // SECOND_NS, UTC)
    return moment.strftime("%a, %d %b %Y %H:%M:%S +0000")


def pairs(values: Mapping[str, object], between: str) -> list[str]:
    """Return names with values, by name."""
    return [f"{name}{between}{value}" for name, value in sorted(values.items())]


def _head(out: Layout, pod: k8s.Pod, status: k8s.PodStatus, now_ns: int) -> None:
    meta, spec = pod.metadata, pod.spec
    out.field(0, "Name", meta.name)
    out.field(0, "Namespace", meta.namespace)
    out.field(0, "Priority", spec.priority or 0)
    if spec.priority_class_name:
        out.field(0, "Priority Class Name", spec.priority_class_name)
    if spec.runtime_class_name:
        out.field(0, "Runtime Class Name", spec.runtime_class_name)
    if spec.service_account_name:
        out.field(0, "Service Account", spec.service_account_name)
    out.field(0, "Node", f"{spec.node_name}/{status.host_ip}" if spec.node_name else NONE)
    if status.start_time:
        out.field(0, "Start Time", when(status.start_time))
    out.fields(0, "Labels", pairs(meta.labels, "="))
    out.fields(0, "Annotations", pairs(meta.annotations, ": "))
    if meta.deletion_timestamp and status.phase not in _ENDED:
        out.field(0, "Status", f"Terminating (lasts {since(meta.deletion_timestamp, now_ns)})")
        grace = meta.deletion_grace_period_seconds
        grace = spec.termination_grace_period_seconds if grace is None else grace
        if grace is not None:
            out.field(0, "Termination Grace Period", f"{grace}s")
    else:
        out.field(0, "Status", status.phase or "Pending")
    if status.reason:
        out.field(0, "Reason", status.reason)
    if status.message:
        out.field(0, "Message", status.message)
    out.field(0, "IP", status.pod_ip)
    addresses = [address.ip for address in status.pod_ips]
    if addresses:
        out.title(0, "IPs")
        for address in addresses:
            out.field(1, "IP", address)
    else:
        out.field(0, "IPs", NONE)


def _containers(
    out: Layout,
    title: str,
    containers: Sequence[k8s.Container],
    statuses: Iterable[k8s.ContainerStatus],
    pulls: Mapping[str, str],
) -> None:
    if not containers:
        return
    out.title(0, title)
    by_name = {status.name: status for status in statuses}
    for container in containers:
        out.title(1, container.name)
        describe_container(out, container, by_name.get(container.name), when)
        if container.name in pulls:
            out.field(2, "Image Pull", pulls[container.name])


def _conditions(out: Layout, status: k8s.PodStatus) -> None:
    if not status.conditions:
        return
    out.title(0, "Conditions")
    reasons = any(condition.reason for condition in status.conditions)
    rows = [(one.type, one.status, *([one.reason] if reasons else [])) for one in status.conditions]
    out.table(1, ("Type", "Status", *(["Reason"] if reasons else [])), rows)


def _volumes(out: Layout, pod: k8s.Pod, states: Mapping[str, str]) -> None:
    if not pod.spec.volumes:
        out.field(0, "Volumes", NONE)
        return
    out.title(0, "Volumes")
    for volume in pod.spec.volumes:
        out.title(1, volume.name)
        describe_volume(out, volume)
        if volume.name in states:
            out.field(2, "State", states[volume.name])


def _tail(out: Layout, pod: k8s.Pod, status: k8s.PodStatus) -> None:
    out.field(0, "QoS Class", status.qos_class or NONE)
    out.fields(0, "Node-Selectors", pairs(pod.spec.node_selector, "="))
    out.fields(0, "Tolerations", [_toleration(one) for one in pod.spec.tolerations])


def _toleration(one: k8s.Toleration) -> str:
    """Return ``key=value:Effect op=Exists for 300s``, without the parts that are not set."""
    text = f"{one.key}={one.value}" if one.value else one.key
    text += f":{one.effect}" if one.effect else ""
    if one.operator == "Exists" and not one.value:
        text += " op=Exists" if text else "op=Exists"
    return text + (f" for {one.toleration_seconds}s" if one.toleration_seconds is not None else "")


def _manifest(out: Layout, manifest: str, faults: Sequence[ManifestFault]) -> None:
    if manifest:
        out.field(0, "Manifest", manifest)
    if not faults:
        return
    out.title(0, "Manifest Problems")
    out.texts(1, ["The last good version of this pod keeps running: its manifest now has faults.", *map(str, faults)])


def _work(out: Layout, work: PodWork | None) -> None:
    if work is not None and work.last_error:
        out.field(0, "Last Sync", f"failed ({work.failures} of {work.syncs}): {work.last_error}")
    if work is not None and work.busy_seconds is not None and work.busy_seconds >= SYNC_SECONDS_LONG:
        out.field(0, "This Sync", f"in progress for {work.busy_seconds:.0f}s (number {work.syncs})")
    if work is not None and work.unseen_seconds is not None:
        out.field(0, "Not Inspected", f"for {work.unseen_seconds:.0f}s: {work.unseen_because}")


def events_of(out: Layout, events: Sequence[k8s.Event], now_ns: int) -> None:
    """Add the table of an object's events, least recently seen first."""
    if not events:
        out.field(0, "Events", NONE)
        return
    out.title(0, "Events")
    rows = [
        (
            event.type,
            event.reason,
            event_age(event, now_ns),
            event.source.component if event.source else "",
            message_of(event),
        )
        for event in events
    ]
    out.table(1, ("Type", "Reason", "Age", "From", "Message"), rows, ruled=True)


def event_age(event: k8s.Event, now_ns: int) -> str:
    """Return ``3s``, or ``3s (x5 over 3m)`` for a repeated event."""
    last = since(event.last_timestamp, now_ns)
    if (event.count or 1) > 1:
        return f"{last} (x{event.count} over {since(event.first_timestamp, now_ns)})"
    return last
