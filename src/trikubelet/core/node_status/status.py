"""Builds a node's whole status from one report, and keeps the fields that others own.

Cloud controllers own the addresses of a node with an external provider; the attach-detach controller owns
``volumesAttached``; any client may add conditions. All else here is the agent's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trikubelet.core.node_status.amounts import HUGE_PAGES, shown
from trikubelet.core.node_status.conditions import conditions
from trikubelet.model import k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trikubelet.core.node_status.report import NodeReport
    from trikubelet.model.runtime import ImageInfo

NAMES_PER_IMAGE_MAX: Final = 5
"""The limit for reported names of an image, like upstream; the first ones are kept."""

DECLARED_FEATURES: Final = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""This node's features that a scheduler must know, sorted, by upstream's names (component-helpers,
nodedeclaredfeatures): it keeps pods away that need another one, and the API server does not resize pods that do."""

_AGENTS_OWN: Final = ("cpu", "memory", "pods", "ephemeral-storage")


def build(report: NodeReport, before: k8s.NodeStatus, now: str) -> k8s.NodeStatus:
    """Return the status as of ``now`` (RFC 3339)."""
    others = extended(before.capacity)
    return k8s.NodeStatus(
        addresses=_addresses(report, before),
        capacity=shown(report.capacity)
        | others
        | {name: str(amounts.capacity) for name, amounts in report.devices.items()},
        allocatable=shown(report.allocatable)
        | others
        | {name: str(amounts.allocatable) for name, amounts in report.devices.items()},
        conditions=conditions(report.pressures, report.problems, before.conditions, now),
        daemon_endpoints=_endpoints(report.port),
        features=_features(report),
        images=_images(report.images, report.images_max),
        node_info=_info(report),
        runtime_handlers=_handlers(report),
        volumes_attached=before.volumes_attached,
        volumes_in_use=tuple(sorted(report.volumes_in_use)),
        config=before.config,
        declared_features=DECLARED_FEATURES,
        phase=before.phase,
    )


def _addresses(report: NodeReport, before: k8s.NodeStatus) -> tuple[k8s.NodeAddress, ...]:
    """Return the node's addresses. With an external cloud provider they are its controller's, once it set some. Until
    then, like upstream, no IP is guessed that it may contradict later: only those of ``--node-ip`` are reported. A node
    that has none now, for lack of a route, keeps the earlier ones."""
    if before.addresses and (report.external_cloud or report.awaits_address):
        return before.addresses
    ips = [k8s.NodeAddress(type="InternalIP", address=address) for address in report.addresses]
    return (*ips, k8s.NodeAddress(type="Hostname", address=report.hostname))


def extended(capacity: Mapping[str, k8s.Quantity]) -> dict[str, k8s.Quantity]:
    """Return the part of a capacity that others advertised, such as an administrator. They own it, and all of it is
    allocatable. It has the resources of device plugins, too, whose amounts come from the report."""
    return {
        name: amount for name, amount in capacity.items() if name not in _AGENTS_OWN and not name.startswith(HUGE_PAGES)
    }


def _endpoints(port: int) -> k8s.NodeDaemonEndpoints | None:
    return k8s.NodeDaemonEndpoints(kubelet_endpoint=k8s.DaemonEndpoint(port=port)) if port else None


def rebooted(before: k8s.NodeStatus, after: k8s.NodeStatus) -> str | None:
    """Return the boot ID if it differs from the one before; None if it does not, or if one of the two is unknown."""
    old, new = (status.node_info.boot_id if status.node_info else "" for status in (before, after))
    return new if old and new and old != new else None


def _images(images: Sequence[ImageInfo], images_max: int) -> tuple[k8s.ContainerImage, ...]:
    """Return the images, the largest first, because a scheduler cares most about them."""
    reported = sorted(images, key=lambda image: (-image.size_bytes, image.id))
    if images_max >= 0:
        reported = reported[:images_max]
    return tuple(
        k8s.ContainerImage(
            names=(*image.repo_digests, *image.repo_tags)[:NAMES_PER_IMAGE_MAX], size_bytes=image.size_bytes
        )
        for image in reported
    )


def _info(report: NodeReport) -> k8s.NodeSystemInfo:
    reading, runtime = report.reading, report.runtime
    return k8s.NodeSystemInfo(
        architecture=reading.architecture,
        boot_id=reading.boot_id,
        container_runtime_version=f"{runtime.name}://{runtime.version.removeprefix('v')}" if runtime else "",
        kernel_version=reading.kernel,
        kube_proxy_version="",
        kubelet_version=report.version,
        machine_id=reading.machine_id,
        operating_system="linux",
        os_image=reading.os_image,
        running_in_user_namespace=reading.in_user_namespace,
        swap=k8s.NodeSwapStatus(capacity=reading.swap_bytes) if reading.swap_bytes else None,
        system_uuid=reading.system_uuid or reading.machine_id,
    )


def _features(report: NodeReport) -> k8s.NodeFeatures | None:
    policy = report.runtime.supplemental_groups_policy if report.runtime else None
    return None if policy is None else k8s.NodeFeatures(supplemental_groups_policy=policy)


def _handlers(report: NodeReport) -> tuple[k8s.NodeRuntimeHandler, ...]:
    """Return the runtime's handlers, by name."""
    handlers = report.runtime.handlers if report.runtime else ()
    return tuple(
        k8s.NodeRuntimeHandler(
            name=handler.name,
            features=k8s.NodeRuntimeHandlerFeatures(
                recursive_read_only_mounts=handler.recursive_read_only_mounts,
                user_namespaces=handler.user_namespaces,
            ),
        )
        for handler in sorted(handlers, key=lambda handler: handler.name)
    )
