"""Status replies as a runtime would send them: real protobuf bytes, which differ each time with the same meaning.

Maps are in a random order, and data that no agent should read (the time of the reply, the verbose information, the
order of mounts) is random as well. So comparing bytes, or reading such data, fails.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from trikubelet.cri.from_wire import decode_container_status, decode_sandbox_status
from trikubelet.cri.v1 import api_pb2 as pb
from trikubelet.model.runtime import Undecoded

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from trikubelet.model.runtime import ContainerStatus, HeldResources, SandboxStatus

NONE: Final[Mapping[str, str]] = MappingProxyType({})


def shuffled(entries: Mapping[str, str], chance: random.Random) -> dict[str, str]:
    """Return the same map in a new random order."""
    return dict(chance.sample(sorted(entries.items()), len(entries)))


def sandbox_reply(
    status: SandboxStatus,
    chance: random.Random,
    labels: Mapping[str, str] = NONE,
    annotations: Mapping[str, str] = NONE,
) -> Undecoded[SandboxStatus]:
    """The status as a ``PodSandboxStatusResponse``."""
    primary, *more = status.ips or ("",)
    mode = pb.NODE if status.host_network else pb.POD
    reply = pb.PodSandboxStatusResponse(
        status=pb.PodSandboxStatus(
            id=status.id,
            metadata=pb.PodSandboxMetadata(
                name=status.name, uid=status.uid, namespace=status.namespace, attempt=status.attempt
            ),
            state=status.state.value,  # type: ignore[arg-type] # protobuf's stubs want its own enum
            created_at=status.created_at,
            network=pb.PodSandboxNetworkStatus(ip=primary, additional_ips=[pb.PodIP(ip=ip) for ip in more]),
            linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=pb.NamespaceOption(network=mode))),
            labels=shuffled(labels, chance),
            annotations=shuffled(annotations, chance),
            runtime_handler=status.runtime_handler,
        ),
        info={"draw": str(chance.random())},
        timestamp=chance.getrandbits(62),
    )
    return Undecoded(status.id, reply.SerializeToString(), decode_sandbox_status)


def container_reply(
    status: ContainerStatus,
    chance: random.Random,
    labels: Mapping[str, str] = NONE,
    annotations: Mapping[str, str] = NONE,
) -> Undecoded[ContainerStatus]:
    """The status as a ``ContainerStatusResponse``, as far as the annotations have it."""
    reply = pb.ContainerStatusResponse(
        status=pb.ContainerStatus(
            id=status.id,
            metadata=pb.ContainerMetadata(name=status.name, attempt=status.attempt),
            state=status.state.value,  # type: ignore[arg-type] # protobuf's stubs want its own enum
            created_at=status.created_at,
            started_at=status.started_at,
            finished_at=status.finished_at,
            exit_code=status.exit_code,
            image=pb.ImageSpec(image=status.image, user_specified_image=status.image),
            image_ref=status.image_ref,
            reason=status.reason,
            message=status.message,
            labels=shuffled(labels, chance),
            annotations=shuffled(annotations, chance),
            mounts=[pb.Mount(container_path=path) for path in chance.sample(["/a", "/b", "/c"], 3)],
            log_path=status.log_path,
            image_id=status.image_id,
            resources=_resources(status.resources),
        ),
        info={"draw": str(chance.random())},
    )
    return Undecoded(status.id, reply.SerializeToString(), decode_container_status)


def _resources(held: HeldResources | None) -> pb.ContainerResources | None:
    if held is None:
        return None
    return pb.ContainerResources(
        linux=pb.LinuxContainerResources(
            cpu_period=held.cpu_period_us,
            cpu_quota=held.cpu_quota_us,
            cpu_shares=held.cpu_shares,
            memory_limit_in_bytes=held.memory_limit_bytes,
        )
    )
