"""Host ports: one address, protocol and port of the node can serve only one pod (``held_ports.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from trikubelet.model import k8s

_ANY = "0.0.0.0"  # noqa: S104 - the meaning of a port without an address

Port = tuple[str, str, int]
"""Address, protocol and port."""


def host_ports(pod: k8s.Pod) -> frozenset[Port]:
    """Return the host ports that the pod serves. Plain init containers do not serve long enough to count."""
    serving = (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers)
    return frozenset(
        (port.host_ip or _ANY, port.protocol or "TCP", port.host_port)
        for container in serving
        for port in container.ports
        if port.host_port
    )


def is_same_port(a: Port, b: Port) -> bool:
    """True if two pods cannot serve both: a port without an address serves every address."""
    return a[1:] == b[1:] and (a[0] == b[0] or _ANY in (a[0], b[0]))
