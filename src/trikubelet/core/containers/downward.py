"""The downward API: what a pod may learn about itself, as a variable (``environment``) or file (``volume_files``)."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.names import all_containers
from trikubelet.model import quantity

if TYPE_CHECKING:
    from trikubelet.core.containers.facts import NodeFacts
    from trikubelet.model.k8s import Container, Pod, ResourceFieldSelector

_ESCAPED = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}
"""What Go has a letter for when it quotes a string (strconv.Quote)."""
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
# Of these a node has a fixed amount, which is the limit where none is set.
_OF_THE_NODE = ("cpu", "memory", "ephemeral-storage")


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
    """As Go quotes a string (strconv.Quote), which is how programs read it back."""
    return "".join(
        _ESCAPED.get(char) or (char if char == " " or char.isprintable() else _spelled(char)) for char in value
    )


def _spelled(char: str) -> str:
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def resource_value(pod: Pod, container: Container, ref: ResourceFieldSelector, facts: NodeFacts) -> int:
    """A resource of a container in units of the divisor, rounded up. A limit that is not set, or 0, is the pod's
    own, or the node's allocatable amount; a request that is not set is 0. Raises ConfigError."""
    target: Container | None = container
    if ref.container_name:
        target = next((one for one in all_containers(pod) if one.name == ref.container_name), None)
    if target is None:
        raise ConfigError(f"container {ref.container_name} not found", container.name)
    kind, _, name = ref.resource.partition(".")
    if kind not in ("limits", "requests") or not name:
        raise ConfigError(f"unsupported resource field {ref.resource!r}", container.name)
    divisor = quantity.parse(ref.divisor or 1) or Fraction(1)
    for resources in (target.resources, pod.spec.resources if kind == "limits" else None):
        amounts = {} if resources is None else resources.limits if kind == "limits" else resources.requests
        if name in amounts and (amount := quantity.parse(amounts[name])):
            return ceil(amount / divisor)
    if kind == "limits" and name in _OF_THE_NODE:
        unit = Fraction(1, 1000) if name == "cpu" else Fraction(1)
        return ceil(facts.allocatable.get(name, 0) * unit / divisor)
    return 0
