"""A container's mounts: its volumes at their paths, the managed hosts file, the termination message file.

Volumes are ready when this is asked, as host paths by name. What belongs to the pod alone is relabelled for SELinux; a
path of the node is left as its owner labelled it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import ConfigError
from trikubelet.model.runtime_config import Mount, Propagation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod, VolumeMount

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
    *,
    hosts_path: str = "",
    termination_log_path: str = "",
) -> tuple[Mount, ...]:
    """Every mount of the container. Raises ConfigError for a volume that is not there or cannot be mounted so.

    A container that mounts something of its own at /etc/hosts keeps it.
    """
    if container.volume_devices:
        raise ConfigError("volumeDevices: block devices are not supported yet", container.name)
    own = {volume.name for volume in pod.spec.volumes if volume.empty_dir is not None}
    found = [
        Mount(
            container_path=_absolute(mount.mount_path),
            host_path=_host_path(container, mount, volume_paths),
            readonly=bool(mount.read_only),
            selinux_relabel=mount.name in own,
            propagation=_PROPAGATION.get(mount.mount_propagation, Propagation.PRIVATE),
            recursive_read_only=_recursive_read_only(container, mount, facts),
        )
        for mount in container.volume_mounts
    ]
    if hosts_path and not any(mount.container_path.rstrip("/") == ETC_HOSTS for mount in found):
        found.append(Mount(ETC_HOSTS, hosts_path, selinux_relabel=True))
    if termination_log_path and container.termination_message_path:
        path = _absolute(container.termination_message_path)
        found.append(Mount(path, termination_log_path, selinux_relabel=True))
    return tuple(found)


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


def _host_path(container: Container, mount: VolumeMount, volume_paths: Mapping[str, str]) -> str:
    if mount.name not in volume_paths:
        message = f"cannot find volume {mount.name!r} to mount into container {container.name!r}"
        raise ConfigError(message, container.name)
    if mount.sub_path or mount.sub_path_expr:
        # Joining the paths would let a container that owns the volume lead the next one anywhere by a symbolic link.
        raise ConfigError(f"volumeMount {mount.name!r}: subPath is not supported yet", container.name)
    return volume_paths[mount.name]


def _recursive_read_only(container: Container, mount: VolumeMount, facts: NodeFacts) -> bool:
    if mount.recursive_read_only not in ("Enabled", "IfPossible"):
        return False
    possible = bool(mount.read_only) and facts.recursive_read_only
    if mount.recursive_read_only == "Enabled" and not possible:
        why = "this node's runtime cannot do it" if mount.read_only else "it needs readOnly: true"
        raise ConfigError(f"volumeMount {mount.name!r}: recursiveReadOnly is Enabled, but {why}", container.name)
    return possible
