"""The downward API: facts about a pod for its own variables (``environment``) or files (``volume_files``)."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, ClassVar

from trikubelet.core.containers.errors import ConfigError
from trikubelet.core.names import all_containers
from trikubelet.model import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
"""The characters for which Go has a letter when it quotes a string (strconv.Quote)."""
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
# The node has a fixed amount of these, which is the default limit.
_OF_THE_NODE = ("cpu", "memory", "ephemeral-storage")


class PodFields:
    """The values of a pod's field paths at one moment, for all variables of a container or all files of a volume.
    Values are made on demand, and listings only once: there may be thousands of references, and a listing is as long as
    all annotations."""

    def __init__(self, pod: Pod, ips: tuple[str, ...], facts: NodeFacts) -> None:
        self.pod = pod
        self.facts = facts
        self._ips = ips

    def value(self, path: str) -> str:
        """Return the value of a downward-API field path. Raises KeyError for an unknown path, and ValueError for an
        address that the node does not have yet: the container must wait for it."""
        if keyed := _KEYED.fullmatch(path):
            meta = self.pod.metadata
            held = meta.labels if keyed[1] == "labels" else meta.annotations
            return held.get(keyed[2], "")
        return self._VALUES[path](self)

    def _node_ips(self) -> tuple[str, ...]:
        if not self.facts.host_ips:
            raise ValueError("the node has no address yet")
        return self.facts.host_ips

    def _pod_ips(self) -> tuple[str, ...]:
        return self._ips or (self._node_ips() if self.pod.spec.host_network else ())

    @cached_property
    def _labels(self) -> str:
        return _listing(self.pod.metadata.labels)

    @cached_property
    def _annotations(self) -> str:
        return _listing(self.pod.metadata.annotations)

    _VALUES: ClassVar[Mapping[str, Callable[[PodFields], str]]] = {
        "metadata.name": lambda self: self.pod.metadata.name,
        "metadata.namespace": lambda self: self.pod.metadata.namespace,
        "metadata.uid": lambda self: self.pod.metadata.uid,
        "metadata.labels": lambda self: self._labels,
        "metadata.annotations": lambda self: self._annotations,
        "spec.nodeName": lambda self: self.pod.spec.node_name or self.facts.node_name,
        "spec.serviceAccountName": lambda self: self.pod.spec.service_account_name,
        "status.hostIP": lambda self: self._node_ips()[0],
        "status.hostIPs": lambda self: ",".join(self._node_ips()),
        "status.podIP": lambda self: next(iter(self._pod_ips()), ""),
        "status.podIPs": lambda self: ",".join(self._pod_ips()),
    }


def _listing(values: dict[str, str]) -> str:
    lines = (f'{key}="{_escaped(value)}"' for key, value in sorted(values.items()))
    return "\n".join(lines)


def _escaped(value: str) -> str:
    """Return the text quoted like Go does (strconv.Quote), because programs read it back that way."""
    return "".join(
        _ESCAPED.get(char) or (char if char == " " or char.isprintable() else _spelled(char)) for char in value
    )


def _spelled(char: str) -> str:
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def resource_value(pod: Pod, container: Container, ref: ResourceFieldSelector, facts: NodeFacts) -> int:
    """Return a resource of a container in units of the divisor, rounded up. A limit that is unset, or 0, is the pod's
    own, or the node's allocatable amount; an unset request is 0. Raises ConfigError."""
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
