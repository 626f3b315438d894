"""Protobuf replies of a container runtime as frozen records.

The runtime and image adapters call it on the way in; ``to_wire`` is the way out. A runtime newer than this agent may
send states it does not know, and each has a meaning that does no harm: not ready, unknown.
"""

from __future__ import annotations

from typing import Final

from trikubelet.core.names import CONTAINER_HASH, uid_from_labels
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime import (
    ContainerEvent,
    ContainerState,
    ContainerStatus,
    ImageInfo,
    RuntimeCondition,
    RuntimeInfo,
    SandboxState,
    SandboxStatus,
)

_CONTAINER_STATES: Final = {
    pb.CONTAINER_CREATED: ContainerState.CREATED,
    pb.CONTAINER_RUNNING: ContainerState.RUNNING,
    pb.CONTAINER_EXITED: ContainerState.EXITED,
}


def sandbox_status(reply: pb.PodSandboxStatusResponse) -> SandboxStatus:
    """``PodSandboxStatus``. A state this version does not know counts as not ready."""
    status = reply.status
    network = status.network
    ips = (network.ip, *(extra.ip for extra in network.additional_ips))
    options = status.linux.namespaces.options
    return SandboxStatus(
        id=status.id,
        uid=status.metadata.uid or uid_from_labels(status.labels),
        name=status.metadata.name,
        namespace=status.metadata.namespace,
        attempt=status.metadata.attempt,
        state=SandboxState.READY if status.state == pb.SANDBOX_READY else SandboxState.NOTREADY,
        created_at=status.created_at,
        ips=tuple(ip for ip in ips if ip),
        host_network=options.network == pb.NODE,
        runtime_handler=status.runtime_handler,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
    )


def container_status(reply: pb.ContainerStatusResponse) -> ContainerStatus:
    """``ContainerStatus``. A state this version does not know counts as unknown."""
    status = reply.status
    return ContainerStatus(
        id=status.id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        state=_CONTAINER_STATES.get(status.state, ContainerState.UNKNOWN),
        created_at=status.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        image=status.image.user_specified_image or status.image.image,
        image_ref=status.image_ref,
        image_id=status.image_id or status.image_ref,
        log_path=status.log_path,
        hash=status.annotations.get(CONTAINER_HASH, ""),
        labels=dict(status.labels),
        annotations=dict(status.annotations),
    )


def runtime_info(version: pb.VersionResponse, status: pb.StatusResponse) -> RuntimeInfo:
    """``Version`` and ``Status`` together."""
    return RuntimeInfo(
        name=version.runtime_name,
        version=version.runtime_version,
        api_version=version.runtime_api_version,
        conditions=tuple(
            RuntimeCondition(condition.type, condition.status, condition.reason, condition.message)
            for condition in status.status.conditions
        ),
    )


def image_info(image: pb.Image) -> ImageInfo:
    """One image."""
    return ImageInfo(
        id=image.id,
        repo_tags=tuple(image.repo_tags),
        repo_digests=tuple(image.repo_digests),
        size_bytes=image.size,
        uid=image.uid.value if image.HasField("uid") else None,
        username=image.username,
        pinned=image.pinned,
    )


def container_event(event: pb.ContainerEventResponse) -> ContainerEvent:
    """One event, reduced to whom it is about."""
    return ContainerEvent(
        pod_uid=event.pod_sandbox_status.metadata.uid,
        container_id=event.container_id,
        kind=event.container_event_type,
        created_at=event.created_at,
    )
