"""Environment variables: their names, and the single source of each value."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from trikubelet.core.manifest.problem import invalid, named, not_found, required, unsupported
from trikubelet.core.manifest.validation.rules import amount, amount_problems, chosen, exactly_one
from trikubelet.model import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.manifest.problem import Problems
    from trikubelet.model.k8s import (
        Container,
        EnvFromSource,
        EnvVarSource,
        FileKeySelector,
        ObjectFieldSelector,
        PodSpec,
        Quantity,
        ResourceFieldSelector,
        Volume,
    )

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""Also single labels and annotations, as ``metadata.labels['KEY']``."""
VOLUME_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_CPU_DIVISORS = (0, Fraction(1, 1000), 1)
_DIVISORS = (0, *(1000**power for power in range(7)), *(1024**power for power in range(1, 7)))
"""0 counts as 1."""


def environment_problems(path: str, container: Container, spec: PodSpec, volumes: Mapping[str, Volume]) -> Problems:
    """Yield the problems of one container's variables. ``volumes``: the pod's, by name."""
    for n, variable in enumerate(container.env):
        here = f"{path}.env[{n}]"
        yield from named(f"{here}.name", variable.name, names.variable_problem(variable.name))
        source = variable.value_from
        if source is None:
            continue
        if variable.value:
            yield invalid(f"{here}.valueFrom", source_shown(source), "may not stand beside a value that is not empty")
        yield from _source(f"{here}.valueFrom", source, spec, volumes)
    for n, origin in enumerate(container.env_from):
        yield from _env_from(f"{path}.envFrom[{n}]", origin)


def source_shown(source: EnvVarSource) -> str:
    """Return the kind of a source, for a message."""
    return ", ".join(chosen(source))


def _source(path: str, source: EnvVarSource, spec: PodSpec, volumes: Mapping[str, Volume]) -> Problems:
    yield from exactly_one(path, chosen(source), "one source of the value")
    if source.field_ref is not None:
        yield from field_problems(f"{path}.fieldRef", source.field_ref, ENV_FIELDS)
    if source.resource_field_ref is not None:
        yield from resource_field_problems(f"{path}.resourceFieldRef", source.resource_field_ref, spec)
    if source.file_key_ref is not None:
        yield from _file_key(f"{path}.fileKeyRef", source.file_key_ref, volumes)
    for kind, ref in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
        if ref is not None:
            yield from named(f"{path}.{kind}.name", ref.name, names.subdomain_problem(ref.name))
            yield from named(f"{path}.{kind}.key", ref.key, names.config_key_problem(ref.key))


def field_problems(path: str, ref: ObjectFieldSelector, known: tuple[str, ...]) -> Problems:
    """Yield the problems of a reference to a field of the pod; ``known``: the supported fields."""
    if ref.api_version not in ("", "v1"):
        yield unsupported(f"{path}.apiVersion", ref.api_version, ("v1",))
    here, field = f"{path}.fieldPath", ref.field_path
    keyed = _KEYED.fullmatch(field)
    if not field:
        yield required(here)
    elif keyed is None and field not in known:
        yield unsupported(here, field, (*known, "metadata.labels['KEY']", "metadata.annotations['KEY']"))
    # A label's domain is lower case; an annotation's need not be. (upstream: validateObjectFieldSelector)
    elif keyed is not None and (
        problem := names.qualified_name_problem(keyed[2] if keyed[1] == "labels" else keyed[2].lower())
    ):
        yield invalid(here, field, f"the key {problem}")


def resource_field_problems(
    path: str, ref: ResourceFieldSelector, spec: PodSpec, *, names_container: bool = False
) -> Problems:
    """Yield the problems of a reference to a container's request or limit. In a volume it ``names_container``."""
    kind, _, resource = ref.resource.partition(".")
    known = kind in ("limits", "requests") and (resource in _RESOURCES or resource.startswith("hugepages-"))
    if not ref.resource:
        yield required(f"{path}.resource")
    elif not known:
        yield unsupported(
            f"{path}.resource", ref.resource, [f"{k}.{r}" for k in ("limits", "requests") for r in _RESOURCES]
        )
    if ref.divisor is not None:
        yield from _divisor(f"{path}.divisor", ref.divisor, resource if known else "")
    containers = {container.name for container in (*spec.init_containers, *spec.containers)}
    if names_container and not ref.container_name:
        yield required(f"{path}.containerName")
    elif ref.container_name and ref.container_name not in containers:
        yield invalid(f"{path}.containerName", ref.container_name, "must be a container of this pod")


def _divisor(path: str, divisor: Quantity, resource: str) -> Problems:
    """Yield the problems of the unit for a ``resource``, which is "" if unknown."""
    read = amount(divisor)
    if read is None:
        yield from amount_problems(path, divisor)
    elif resource and read not in (_CPU_DIVISORS if resource == "cpu" else _DIVISORS):
        units = "1m or 1" if resource == "cpu" else "1, or 1 of a suffix, such as 1k or 1Mi"
        yield invalid(path, divisor, f"must be {units}")


def _file_key(path: str, ref: FileKeySelector, volumes: Mapping[str, Volume]) -> Problems:
    volume = volumes.get(ref.volume_name)
    if not ref.volume_name:
        yield required(f"{path}.volumeName")
    elif volume is None:
        what = "the pod has no volume of that name"
        yield not_found(f"{path}.volumeName", ref.volume_name, volumes, what, "add it to spec.volumes")
    elif volume.empty_dir is None:
        yield invalid(f"{path}.volumeName", ref.volume_name, "must be an emptyDir volume")
    yield from named(f"{path}.path", ref.path, names.path_in_volume_problem(ref.path))
    yield from named(f"{path}.key", ref.key, names.variable_problem(ref.key))


def _env_from(path: str, origin: EnvFromSource) -> Problems:
    if origin.prefix and (problem := names.variable_problem(origin.prefix)):
        yield invalid(f"{path}.prefix", origin.prefix, problem)
    yield from exactly_one(path, chosen(origin, without=("prefix",)), "configMapRef or secretRef")
    for kind, ref in (("configMapRef", origin.config_map_ref), ("secretRef", origin.secret_ref)):
        if ref is not None:
            yield from named(f"{path}.{kind}.name", ref.name, names.subdomain_problem(ref.name))
