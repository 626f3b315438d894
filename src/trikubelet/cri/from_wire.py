"""Converts protobuf replies of a container runtime to frozen records.

The runtime and image adapters call it for replies; ``to_wire`` converts the requests. A runtime newer than this agent
may send unknown states, which are mapped to safe ones: not ready, unknown.

Statuses are kept as long as their sandbox or container exists. So texts that many of them share are interned, and only
those labels and annotations are kept that are read, because the maps would be most of their size.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath
from sys import intern
from typing import Any, Final

from trikubelet.core.names import CONTAINER_HASH, CONTAINER_TERMINATION_PATH, uid_from_labels
from trikubelet.cri.methods import decoded
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime import (
    NO_PROGRAM,
    ContainerEvent,
    ContainerState,
    ContainerStatus,
    HeldResources,
    ImageInfo,
    RuntimeCondition,
    RuntimeHandler,
    RuntimeInfo,
    SandboxState,
    SandboxStatus,
    User,
)
from trikubelet.model.runtime_errors import RuntimeFailure
from trikubelet.model.standard_streams import StandardStreams
from trikubelet.model.usage import ContainerStats, FsUsage, ImageStore, ImageStores, Usage

_USERS_MAX: Final = 1024
_AMOUNTS_MAX: Final = 1024
_CONTAINER_STATES: Final = {
    pb.CONTAINER_CREATED: ContainerState.CREATED,
    pb.CONTAINER_RUNNING: ContainerState.RUNNING,
    pb.CONTAINER_EXITED: ContainerState.EXITED,
}
_NO_PROGRAM: Final = "failed to get task pid"
"""containerd's message for a start that it aborted before it ran the program. Later failures, after which the program
may run, have another message."""
_GIVEN_UP: Final = re.compile(r"context (canceled|deadline exceeded)|failed to start shim: .*signal: killed")
"""The errors of Go, and of the processes that containerd starts, after the caller has gone (seen with 1.6 and 2.2)."""


def decode_sandbox_status(raw: bytes) -> SandboxStatus:
    """Decode a reply of ``PodSandboxStatus``. Raises RuntimeFailure, also if the status is incomplete."""
    reply = decoded("PodSandboxStatus", pb.PodSandboxStatusResponse, raw)
    _check_whole("PodSandboxStatus", reply.status)
    return sandbox_status(reply)


def decode_container_status(raw: bytes) -> ContainerStatus:
    """Decode a reply of ``ContainerStatus``. Raises RuntimeFailure, also if the status is incomplete."""
    reply = decoded("ContainerStatus", pb.ContainerStatusResponse, raw)
    _check_whole("ContainerStatus", reply.status)
    return container_status(reply)


def sandbox_status(reply: pb.PodSandboxStatusResponse) -> SandboxStatus:
    """Convert a ``PodSandboxStatus``. An unknown state counts as not ready."""
    status = reply.status
    network = status.network
    ips = (network.ip, *(extra.ip for extra in network.additional_ips))
    options = status.linux.namespaces.options
    return SandboxStatus(
        id=status.id,
        uid=status.metadata.uid or uid_from_labels(status.labels),
        name=status.metadata.name,
        namespace=intern(status.metadata.namespace),
        attempt=status.metadata.attempt,
        state=SandboxState.READY if status.state == pb.SANDBOX_READY else SandboxState.NOTREADY,
        created_at=status.created_at,
        ips=tuple(ip for ip in ips if ip),
        host_network=options.network == pb.NODE,
        runtime_handler=intern(status.runtime_handler),
    )


def container_status(reply: pb.ContainerStatusResponse) -> ContainerStatus:
    """Convert a ``ContainerStatus``. An unknown state counts as unknown, and a container whose start was aborted as
    never started."""
    status = reply.status
    state, reason = _state_and_reason(status)
    return ContainerStatus(
        id=status.id,
        name=intern(status.metadata.name),
        attempt=status.metadata.attempt,
        state=state,
        created_at=status.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        reason=intern(reason),
        message=status.message,
        image=intern(status.image.user_specified_image or status.image.image),
        image_ref=intern(status.image_ref),
        image_id=intern(status.image_id or status.image_ref),
        log_path=status.log_path,
        hash=status.annotations.get(CONTAINER_HASH, ""),
        termination_path=intern(status.annotations.get(CONTAINER_TERMINATION_PATH, "")),
        resources=_resources(status.resources.linux),
        user=_user(status.user.linux) if status.user.HasField("linux") else None,
        termination_file=_termination_file(status),
    )


def _termination_file(status: pb.ContainerStatus) -> str:
    """Return the name of the container's termination message file if it is not the attempt: upstream's kubelet uses a
    random name. A mount from any other place is the pod's own, and the agent must not read it."""
    place = status.annotations.get(CONTAINER_TERMINATION_PATH, "")
    for mount in status.mounts:
        parts = PurePosixPath(mount.host_path).parts
        if place and mount.container_path == place and parts[-3:-1] == ("containers", status.metadata.name):
            return "" if parts[-1] in ("..", str(status.metadata.attempt)) else parts[-1]
    return ""


def _check_whole(method: str, status: pb.PodSandboxStatus | pb.ContainerStatus) -> None:
    """Reject a status without id, name or creation time, like upstream: with an incomplete status the pod would be
    started a second time."""
    has = {"id": status.id, "metadata.name": status.metadata.name, "created_at": status.created_at}
    lacking = [name for name, value in has.items() if not value]
    if lacking:
        of = f" of {status.id}" if status.id else ""
        raise RuntimeFailure(f"{method}: the runtime's reply{of} lacks {', '.join(lacking)}", "INTERNAL")


@lru_cache(_USERS_MAX)
def _of(uid: int, gid: int, groups: tuple[int, ...]) -> User:
    """Return one shared object for all containers of a user, because there are few users."""
    return User(uid, gid, groups)


def _user(user: pb.LinuxContainerUser) -> User:
    return _of(user.uid, user.gid, tuple(user.supplemental_groups))


@lru_cache(_AMOUNTS_MAX)
def _held(*amounts: int) -> HeldResources | None:
    """Return one shared object for all containers of a size, because replicas have the same."""
    return HeldResources(*amounts) if any(amounts) else None


def _resources(reported: pb.LinuxContainerResources) -> HeldResources | None:
    return _held(reported.cpu_period, reported.cpu_quota, reported.cpu_shares, reported.memory_limit_in_bytes)


def _state_and_reason(status: pb.ContainerStatus) -> tuple[ContainerState, str]:
    """Return the state and the reason. An aborted start counts as never started."""
    # containerd aborts a start when its caller is gone, for example a killed agent, and then reports an exited
    # container as if its program could not be run. Nothing ever ran: a pod that runs once must not fail for that, and
    # it is no restart to count (but see ``pods.created_not_started``).
    never_ran = status.state == pb.CONTAINER_EXITED and not status.started_at and status.reason == "StartError"
    if never_ran and _GIVEN_UP.search(status.message):
        return ContainerState.CREATED, NO_PROGRAM if _NO_PROGRAM in status.message else status.reason
    return _CONTAINER_STATES.get(status.state, ContainerState.UNKNOWN), status.reason


def runtime_info(version: pb.VersionResponse, status: pb.StatusResponse) -> RuntimeInfo:
    """Combine ``Version`` and ``Status``."""
    return RuntimeInfo(
        name=version.runtime_name,
        version=version.runtime_version,
        api_version=version.runtime_api_version,
        conditions=tuple(
            RuntimeCondition(condition.type, condition.status, condition.reason, condition.message)
            for condition in status.status.conditions
        ),
        handlers=tuple(
            RuntimeHandler(handler.name, handler.features.recursive_read_only_mounts, handler.features.user_namespaces)
            for handler in status.runtime_handlers
        ),
        supplemental_groups_policy=(
            status.features.supplemental_groups_policy if status.HasField("features") else None
        ),
    )


def image_info(image: pb.Image) -> ImageInfo:
    """Convert one image."""
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
    """Convert one event, reduced to its container."""
    return ContainerEvent(
        pod_uid=event.pod_sandbox_status.metadata.uid,
        container_id=event.container_id,
        kind=event.container_event_type,
        created_at=event.created_at,
    )


def container_stats(stats: pb.ContainerStats) -> ContainerStats:
    """Convert one container's stats."""
    cpu, memory = stats.cpu, stats.memory
    usage = Usage(
        at_ns=cpu.timestamp or memory.timestamp,
        cpu_ns=_optional(cpu, "usage_core_nano_seconds"),
        memory_bytes=_optional(memory, "usage_bytes"),
        working_set_bytes=_optional(memory, "working_set_bytes"),
        rss_bytes=_optional(memory, "rss_bytes"),
        faults=_optional(memory, "page_faults"),
        major_faults=_optional(memory, "major_page_faults"),
        swap_bytes=_optional(stats.swap, "swap_usage_bytes"),
    )
    layer = _fs_usage(stats.writable_layer) if stats.HasField("writable_layer") else None
    return ContainerStats(stats.attributes.id, usage, layer)


def image_stores(reply: pb.ImageFsInfoResponse) -> ImageStores:
    """Convert an ``ImageFsInfo``."""
    images, layers = (
        tuple(ImageStore(one.fs_id.mountpoint, _fs_usage(one)) for one in found)
        for found in (reply.image_filesystems, reply.container_filesystems)
    )
    return ImageStores(images, layers)


def _fs_usage(usage: pb.FilesystemUsage) -> FsUsage:
    return FsUsage(usage.timestamp, _optional(usage, "used_bytes"), _optional(usage, "inodes_used"))


def _optional(message: Any, name: str) -> int | None:
    """Return an optional number; None if it is missing, which differs from zero."""
    return int(getattr(message, name).value) if message.HasField(name) else None


def standard_streams(asked: pb.ExecRequest | pb.AttachRequest) -> StandardStreams:
    """Return the requested standard streams of a process."""
    return StandardStreams(asked.stdin, asked.stdout, asked.stderr, asked.tty)
