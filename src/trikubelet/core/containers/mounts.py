"""A container's mounts: its volumes at their paths, the managed hosts file, the termination message file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import ConfigError
from trikubelet.model.runtime_config import Mount, Propagation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.model.k8s import Container, VolumeMount

ETC_HOSTS = "/etc/hosts"
_PROPAGATION = {
    "": Propagation.PRIVATE,
    "None": Propagation.PRIVATE,
    "HostToContainer": Propagation.HOST_TO_CONTAINER,
    "Bidirectional": Propagation.BIDIRECTIONAL,
}


def mounts(
    container: Container, volume_paths: Mapping[str, str], hosts_path: str, termination_log_path: str
) -> tuple[Mount, ...]:
    """Every mount of the container. Raises ConfigError for a volume that is not there or cannot be mounted so.

    A container that mounts something of its own at /etc/hosts keeps it.
    """
    found = [_volume_mount(container, mount, volume_paths) for mount in container.volume_mounts]
    if hosts_path and not any(mount.container_path.rstrip("/") == ETC_HOSTS for mount in found):
        found.append(Mount(ETC_HOSTS, hosts_path))
    if termination_log_path and container.termination_message_path:
        found.append(Mount(container.termination_message_path, termination_log_path))
    return tuple(found)


def _volume_mount(container: Container, mount: VolumeMount, volume_paths: Mapping[str, str]) -> Mount:
    if mount.name not in volume_paths:
        raise ConfigError(
            f"cannot find volume {mount.name!r} to mount into container {container.name!r}", container.name
        )
    if mount.sub_path or mount.sub_path_expr:
        raise ConfigError(f"volumeMount {mount.name!r}: subPath is not supported yet", container.name)
    path = mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}"
    return Mount(
        container_path=path,
        host_path=volume_paths[mount.name],
        readonly=bool(mount.read_only),
        propagation=_PROPAGATION.get(mount.mount_propagation, Propagation.PRIVATE),
        recursive_read_only=bool(mount.read_only) and mount.recursive_read_only in ("Enabled", "IfPossible"),
    )
