"""Whether a pod's host ports are free: one address, protocol and port of the node serve one pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trikubelet.core.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trikubelet.core.admission.pod_info import PodInfo
    from trikubelet.model import k8s

_ANY = "0.0.0.0"  # noqa: S104 - it is what a pod means that names no address

Port = tuple[str, str, int]
"""Address, protocol and port."""


def ports_collide(wanted: Iterable[Port], others: Iterable[PodInfo]) -> bool:
    """Whether one of these host ports is taken."""
    return any(_is_same(port, taken) for port in wanted for other in others for taken in other.host_ports)


def host_ports(pod: k8s.Pod) -> frozenset[Port]:
    """The ports of the node that the pod serves on. Plain init containers do not serve for long enough to count."""
    serving = (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers)
    return frozenset(
        (port.host_ip or _ANY, port.protocol or "TCP", port.host_port)
        for container in serving
        for port in container.ports
        if port.host_port
    )


def _is_same(a: Port, b: Port) -> bool:
    return a[1:] == b[1:] and (a[0] == b[0] or _ANY in (a[0], b[0]))
