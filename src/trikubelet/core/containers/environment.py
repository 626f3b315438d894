"""A container's environment: literal values, ``$(VAR)`` expansion, the downward API, and the cluster's services.

Variables are set in the order the spec lists them; a later one may refer to an earlier one, and one of the same name
overrides. The variables of services come last and override nothing, but every value may refer to them. References to
ConfigMaps, Secrets and files need a source of objects that this agent does not have yet: such a variable fails the
container with a message that says so, unless it is optional; ``unsupported`` reports either.
"""

from __future__ import annotations

import re
from collections import ChainMap
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.containers.expansion import expand
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, EnvVar, EnvVarSource, Pod, ResourceFieldSelector

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
# Of these a node has a fixed amount, which is the limit where none is set.
_OF_THE_NODE = ("cpu", "memory", "ephemeral-storage")


def environment(
    pod: Pod, container: Container, ips: tuple[str, ...], facts: NodeFacts, services: Mapping[str, str] | None = None
) -> tuple[tuple[str, str], ...]:
    """Names and values in order, each name once. ``services`` are the variables of the cluster's services. Raises
    ConfigError naming the variable."""
    services = dict(services or {})
    for source in container.env_from:
        for kind, ref in (("ConfigMap", source.config_map_ref), ("Secret", source.secret_ref)):
            if ref is not None and not ref.optional:
                raise ConfigError(_not_yet(f"envFrom {kind} {ref.name!r}"), container.name)
    values: dict[str, str] = {}
    known = ChainMap(values, services)
    for variable in container.env:
        value = _value(variable, known, pod, container, ips, facts)
        if value is not None:
            values[variable.name] = value
    return (*values.items(), *((name, value) for name, value in services.items() if name not in values))


def _not_yet(what: str) -> str:
    return f"{what} is not supported yet: ConfigMaps and Secrets have no source on this node"


def _value(
    variable: EnvVar,
    values: Mapping[str, str],
    pod: Pod,
    container: Container,
    ips: tuple[str, ...],
    facts: NodeFacts,
) -> str | None:
    source = variable.value_from
    if source is None:
        return expand(variable.value, values)
    if source.field_ref is not None:
        try:
            return field_value(pod, source.field_ref.field_path, ips, facts)
        except KeyError:
            path = source.field_ref.field_path
            raise ConfigError(f"env {variable.name}: unsupported fieldPath: {path}", container.name) from None
    if source.resource_field_ref is not None:
        return str(resource_value(pod, container, source.resource_field_ref, facts))
    _refuse_objects(variable, source, container)
    return None


def _refuse_objects(variable: EnvVar, source: EnvVarSource, container: Container) -> None:
    """Objects have no source here: a variable that needs one fails, unless it is optional."""
    references = (
        ("ConfigMap", source.config_map_key_ref),
        ("Secret", source.secret_key_ref),
    )
    for kind, ref in references:
        if ref is not None and not ref.optional:
            raise ConfigError(_not_yet(f"env {variable.name}: {kind} {ref.name!r}"), container.name)
    if source.file_key_ref is not None and not source.file_key_ref.optional:
        raise ConfigError(f"env {variable.name}: fileKeyRef is not supported yet", container.name)


def field_value(pod: Pod, path: str, ips: tuple[str, ...], facts: NodeFacts) -> str:
    """The value of a downward-API field path. Raises KeyError for one that does not exist."""
    meta, keyed = pod.metadata, _KEYED.fullmatch(path)
    if keyed:
        held = meta.labels if keyed[1] == "labels" else meta.annotations
        return held.get(keyed[2], "")
    if pod.spec.host_network and not ips:
        ips = facts.host_ips
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _listing(meta.labels),
        "metadata.annotations": _listing(meta.annotations),
        "spec.nodeName": pod.spec.node_name or facts.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": facts.host_ips[0] if facts.host_ips else "",
        "status.hostIPs": ",".join(facts.host_ips),
        "status.podIP": ips[0] if ips else "",
        "status.podIPs": ",".join(ips),
    }
    return simple[path]


def _listing(values: dict[str, str]) -> str:
    lines = (f'{key}="{_escaped(value)}"' for key, value in sorted(values.items()))
    return "\n".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(pod: Pod, container: Container, ref: ResourceFieldSelector, facts: NodeFacts) -> int:
    """A resource of a container in units of the divisor, rounded up. A limit that is not set is the pod's own, or the
    node's allocatable amount; a request that is not set is 0. Raises ConfigError."""
    named = {c.name: c for c in (*pod.spec.init_containers, *pod.spec.containers)}
    target = named.get(ref.container_name or container.name, container)
    kind, _, name = ref.resource.partition(".")
    if kind not in ("limits", "requests") or not name:
        raise ConfigError(f"unsupported resource field {ref.resource!r}", container.name)
    divisor = quantity.parse(ref.divisor or 1) or Fraction(1)
    for resources in (target.resources, pod.spec.resources if kind == "limits" else None):
        amounts = {} if resources is None else resources.limits if kind == "limits" else resources.requests
        if name in amounts:
            return ceil(quantity.parse(amounts[name]) / divisor)
    if kind == "limits" and name in _OF_THE_NODE:
        unit = Fraction(1, 1000) if name == "cpu" else Fraction(1)
        return ceil(facts.allocatable.get(name, 0) * unit / divisor)
    return 0
