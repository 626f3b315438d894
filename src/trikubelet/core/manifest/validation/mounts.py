"""A container's mounts: of existing volumes, at distinct paths, and none that escapes its volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.document.shown import shown
from trikubelet.core.manifest.problem import Problem, duplicate, forbidden, invalid, not_found, one_of, required
from trikubelet.model import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import Container, PodSpec, Volume, VolumeMount

PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")
RECURSIVE = ("Disabled", "IfPossible", "Enabled")


def mount_problems(path: str, container: Container, spec: PodSpec, volumes: Mapping[str, Volume]) -> Problems:
    """Yield the problems of one container's mounts and block devices. ``volumes``: the pod's, by name."""
    places: set[str] = set()
    devices = {device.name for device in container.volume_devices}
    device_paths = {device.device_path for device in container.volume_devices}
    for n, mount in enumerate(container.volume_mounts):
        here = f"{path}.volumeMounts[{n}]"
        yield from _volume_name(here, mount.name, volumes)
        if mount.name in devices:
            yield invalid(f"{here}.name", mount.name, "must not be a block device too")
        yield from _place(f"{here}.mountPath", mount.mount_path, places)
        if mount.mount_path in device_paths - {""}:
            yield invalid(f"{here}.mountPath", mount.mount_path, "must not be the path of a block device too")
        yield from _sub_path(here, mount)
        yield from _propagation(here, mount, container)
    yield from _devices(path, container, spec, volumes, places)


def _volume_name(path: str, name: str, volumes: Mapping[str, Volume]) -> Problems:
    if not name:
        yield required(f"{path}.name")
    elif name not in volumes:
        yield not_found(f"{path}.name", name, volumes, "the pod has no volume of that name", "add it to spec.volumes")


def _place(path: str, place: str, taken: set[str]) -> Problems:
    if not place:
        yield required(path)
    elif place in taken:
        yield Problem(path, f"Invalid value: {shown(place)}: must be unique: something is mounted there already")
    taken.add(place)


def _sub_path(path: str, mount: VolumeMount) -> Problems:
    for field, sub_path in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
        if sub_path and (problem := names.path_in_volume_problem(sub_path)):
            yield invalid(f"{path}.{field}", sub_path, problem)
    if mount.sub_path and mount.sub_path_expr:
        yield forbidden(f"{path}.subPathExpr", "may not stand beside subPath")


def _propagation(path: str, mount: VolumeMount, container: Container) -> Problems:
    propagation = mount.mount_propagation
    yield from one_of(f"{path}.mountPropagation", propagation, PROPAGATIONS)
    privileged = container.security_context is not None and container.security_context.privileged
    if propagation == "Bidirectional" and not privileged:
        yield forbidden(f"{path}.mountPropagation", "Bidirectional is only for privileged containers")
    recursive = mount.recursive_read_only
    yield from one_of(f"{path}.recursiveReadOnly", recursive, RECURSIVE)
    if recursive in ("IfPossible", "Enabled") and not mount.read_only:
        yield forbidden(f"{path}.recursiveReadOnly", "may only be set where readOnly is true")
    if recursive in ("IfPossible", "Enabled") and propagation not in ("", "None"):
        yield forbidden(f"{path}.recursiveReadOnly", "may only be set where mountPropagation is None")


def _devices(
    path: str, container: Container, spec: PodSpec, volumes: Mapping[str, Volume], places: set[str]
) -> Problems:
    mounted = {mount.name for mount in container.volume_mounts}
    seen: set[str] = set()
    if container.volume_devices and spec.host_users is False:
        yield forbidden(f"{path}.volumeDevices", "may not be set where hostUsers is false")
    for n, device in enumerate(container.volume_devices):
        here = f"{path}.volumeDevices[{n}]"
        yield from _volume_name(here, device.name, volumes)
        if device.name in mounted:
            yield invalid(f"{here}.name", device.name, "must not be mounted as a file system too")
        elif device.name in seen:
            yield duplicate(f"{here}.name", device.name)
        elif device.name in volumes and not _is_claim(volumes[device.name]):
            yield invalid(f"{here}.name", device.name, "must be a volume that is a persistent volume claim")
        seen.add(device.name)
        yield from _place(f"{here}.devicePath", device.device_path, places)
        if problem := names.path_in_volume_problem(device.device_path.lstrip("/")):
            yield invalid(f"{here}.devicePath", device.device_path, problem)


def _is_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None
