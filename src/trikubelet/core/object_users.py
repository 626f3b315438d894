"""Finds the ConfigMaps and Secrets that a pod reads: by its volumes, its variables and its pulls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.names import with_ephemeral

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trikubelet.model.k8s import Container, Pod, Volume

CONFIG_MAP = "ConfigMap"
SECRET = "Secret"  # noqa: S105 - the name of a kind


def users(pods: Iterable[Pod], kind: str, namespace: str, name: str) -> Iterator[str]:
    """The names of the pods that read an object. A pod reads only objects of its own namespace."""
    for pod in pods:
        if pod.metadata.namespace == namespace and (kind, name) in read_by(pod):
            yield pod.metadata.name


def read_by(pod: Pod) -> set[tuple[str, str]]:
    """The kind and the name of each ConfigMap and Secret that a pod reads, whether it is optional or not."""
    found = {(SECRET, one.name) for one in pod.spec.image_pull_secrets}
    for volume in pod.spec.volumes:
        found.update(_of_volume(volume))
    for container in with_ephemeral(pod):
        found.update(_of_container(container))
    return found


def _of_volume(volume: Volume) -> Iterator[tuple[str, str]]:
    if volume.config_map is not None:
        yield CONFIG_MAP, volume.config_map.name
    if volume.secret is not None:
        yield SECRET, volume.secret.secret_name
    for source in volume.projected.sources if volume.projected else ():
        if source.config_map is not None:
            yield CONFIG_MAP, source.config_map.name
        if source.secret is not None:
            yield SECRET, source.secret.name


def _of_container(container: Container) -> Iterator[tuple[str, str]]:
    for group in container.env_from:
        if group.config_map_ref is not None:
            yield CONFIG_MAP, group.config_map_ref.name
        if group.secret_ref is not None:
            yield SECRET, group.secret_ref.name
    for variable in container.env:
        value = variable.value_from
        if value is not None and value.config_map_key_ref is not None:
            yield CONFIG_MAP, value.config_map_key_ref.name
        if value is not None and value.secret_key_ref is not None:
            yield SECRET, value.secret_key_ref.name
