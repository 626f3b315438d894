"""A container's mounts and devices: its volumes at their paths, the managed hosts file, the termination message file.

Volumes are ready at this point, as host paths by name. Mounts that belong to the pod alone are relabelled for SELinux;
a path of the node keeps its label. Volumes made of data are always mounted read-only. Only the text of a sub-path is
checked here; ``ports.Volumes.resolve`` resolves it on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.containers.expansion import expand, without_value
from trikubelet.core.containers.volume_files import sources_of
from trikubelet.model.runtime_config import Device, Mount, Propagation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers.allowance import Allowance
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod, Volume, VolumeMount

ETC_HOSTS = "/etc/hosts"
_PROPAGATION = {
    "": Propagation.PRIVATE,
    "None": Propagation.PRIVATE,
    "HostToContainer": Propagation.HOST_TO_CONTAINER,
    "Bidirectional": Propagation.BIDIRECTIONAL,
}


def mounts(
    pod: Pod,
    container: Container,
    volume_paths: Mapping[str, str],
    facts: NodeFacts,
    variables: Mapping[str, str],
    allowance: Allowance,
    *,
    hosts_path: str = "",
    termination_log_path: str = "",
) -> tuple[Mount, ...]:
    """Return every mount of the container, those of ``volumeMounts`` first and in their order. ``volume_paths`` has the
    image in place of a path for an image volume; ``variables`` are the container's environment, ``allowance`` the limit
    for expanding them. Raises ConfigError for a volume that is missing or cannot be mounted so.

    A container that mounts its own /etc/hosts keeps it.
    """
    images = {one.name: one.image.reference for one in pod.spec.volumes if one.image is not None}
    made_of_data = {volume.name for volume in pod.spec.volumes if sources_of(volume) is not None}
    read_only = made_of_data | images.keys() | {volume.name for volume in pod.spec.volumes if _is_read_only(volume)}
    own = made_of_data | {volume.name for volume in pod.spec.volumes if volume.empty_dir is not None}
    found = [
        Mount(
            container_path=_absolute(mount.mount_path),
            host_path=_volume(container, mount.name, volume_paths) if mount.name not in images else "",
            readonly=bool(mount.read_only) or mount.name in read_only,
            selinux_relabel=mount.name in own,
            propagation=_PROPAGATION.get(mount.mount_propagation, Propagation.PRIVATE),
            recursive_read_only=_recursive_read_only(container, mount, facts),
            sub_path=_sub_path(container, number, variables, allowance),
            image=volume_paths.get(mount.name, "") if mount.name in images else "",
            user_specified_image=images.get(mount.name, ""),
        )
        for number, mount in enumerate(container.volume_mounts)
    ]
    if hosts_path and not any(mount.container_path.rstrip("/") == ETC_HOSTS for mount in found):
        found.append(Mount(ETC_HOSTS, hosts_path, selinux_relabel=True))
    if termination_log_path and container.termination_message_path:
        path = _absolute(container.termination_message_path)
        found.append(Mount(path, termination_log_path, selinux_relabel=True))
    return tuple(found)


def devices(pod: Pod, container: Container, volume_paths: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the container's block volumes. Raises ConfigError for a missing one."""
    read_only = {volume.name for volume in pod.spec.volumes if _is_read_only(volume)}
    return tuple(
        Device(
            container_path=_absolute(device.device_path),
            host_path=_volume(container, device.name, volume_paths),
            permissions="r" if device.name in read_only else "mrw",
        )
        for device in container.volume_devices
    )


def _is_read_only(volume: Volume) -> bool:
    """True if the volume as a whole is read-only by its source."""
    asked = (volume.persistent_volume_claim, volume.nfs, volume.csi)
    return any(source is not None and source.read_only for source in asked)


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


def _volume(container: Container, volume: str, volume_paths: Mapping[str, str]) -> str:
    if volume not in volume_paths:
        raise ConfigError(f"cannot find volume {volume!r} to mount into container {container.name!r}", container.name)
    return volume_paths[volume]


def _sub_path(container: Container, number: int, variables: Mapping[str, str], allowance: Allowance) -> str:
    """Return the sub-path, checked by upstream's rules. API servers check the written text; values of variables are
    only known now."""
    mount = container.volume_mounts[number]
    if missing := without_value(mount.sub_path_expr, variables):
        raise ConfigError(f"missing value for {', '.join(missing)}", container.name)
    try:
        path = expand(mount.sub_path_expr, variables, allowance, f"volumeMounts[{number}].subPathExpr")
    except ValueError as error:
        raise ConfigError(str(error), container.name) from error
    path = path or mount.sub_path
    if path.startswith("/"):
        raise ConfigError(f"error SubPath `{path}` must not be an absolute path", container.name)
    if ".." in path.split("/"):
        raise ConfigError(f"unable to provision SubPath `{path}`: must not contain '..'", container.name)
    return path


def _recursive_read_only(container: Container, mount: VolumeMount, facts: NodeFacts) -> bool:
    found = is_read_only_below(mount, able=facts.recursive_read_only)
    if mount.recursive_read_only == "Enabled" and not found:
        why = "this node's runtime cannot do it" if mount.read_only else "it needs readOnly: true"
        raise ConfigError(f"volumeMount {mount.name!r}: recursiveReadOnly is Enabled, but {why}", container.name)
    return found


def is_read_only_below(mount: VolumeMount, *, able: bool) -> bool:
    """True if a mount is read-only including all mounts in it; ``able``: the runtime supports that."""
    return able and bool(mount.read_only) and mount.recursive_read_only in ("Enabled", "IfPossible")
